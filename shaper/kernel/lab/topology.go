package lab

import (
	"fmt"
	"net/netip"
	"time"

	"bulkshaper/shaper/tc"
)

// Topology is a cluster: cabinets around one core.
type Topology struct {
	Cabinets []Cabinet
	// Congestion is the congestion control of the TCP connections that the lab's sockets make, "" for the kernel's default.
	Congestion string
	// Pods is the network between the pods of servers that have some.
	Pods PodNetwork
}

// Cabinet is a switch with an uplink to the core, and the servers at its ports.
type Cabinet struct {
	Name string
	// Prefix holds the servers' addresses; its first address is that of the gateway.
	Prefix netip.Prefix
	// Uplink limits each direction between switch and core.
	Uplink  Limit
	Servers []Server
}

// Server is a machine with one interface, eth1.
type Server struct {
	Name string
	// Address lies in the cabinet's prefix.
	Address netip.Addr
	// Wire limits each direction between server and switch.
	Wire Limit
	// Pods holds the addresses of the server's pods, of which the lab makes one, unless Topology.Pods is NoPods. The zero Prefix
	// is a server without pods.
	Pods netip.Prefix
}

// Limit is the rate of one direction of a wire. The zero Limit lets everything pass.
type Limit struct {
	Rate tc.BitRate
	// Burst is what may go at once; 0 is 1 ms of the rate and at least 10,000 bytes, which is little enough that a packet is
	// never much early.
	Burst tc.Bytes
	// Queue is how long a packet may wait, the last in a full queue; 0 is 50 ms.
	Queue time.Duration
}

const (
	minBurst     = 10_000 // bytes
	defaultQueue = 50 * time.Millisecond
)

func (l Limit) burst() tc.Bytes {
	if l.Burst != 0 {
		return l.Burst
	}
	return max(minBurst, tc.Bytes(l.Rate.BytesPerSecond()/1000))
}

// queueBytes is the TBF's limit: what waits for as long as Queue, behind what may go at once.
func (l Limit) queueBytes() tc.Bytes {
	wait := l.Queue
	if wait == 0 {
		wait = defaultQueue
	}
	return l.burst() + tc.Bytes(float64(l.Rate.BytesPerSecond())*wait.Seconds())
}

// Interface is the interface of every server.
const Interface = "eth1"

// The other interfaces: the server's end of its wire, the switch's bridge and the two ends of the uplink. The core's end, and
// the switch's ports, have the names of cabinets and servers.
const (
	wire   = "phy0"
	bridge = "br0"
	uplink = "uplink"
)

// maxName is the kernel's IFNAMSIZ less the final zero byte.
const maxName = 15

// check finds what the kernel would take for something else, or refuse when half of the lab stands.
func (t Topology) check() error {
	var pods []Server
	names := map[string]bool{bridge: true, uplink: true, "lo": true}
	addresses := map[netip.Addr]string{}
	name := func(s string) error {
		if s == "" || len(s) > maxName || names[s] {
			return fmt.Errorf("name %q: use one of its own, with 1 to %d characters", s, maxName)
		}
		names[s] = true
		return nil
	}
	if len(t.Cabinets) > 255 {
		return fmt.Errorf("%d cabinets: at most 255", len(t.Cabinets))
	}
	for i, c := range t.Cabinets {
		if err := name(c.Name); err != nil {
			return err
		}
		if !c.Prefix.IsValid() || !c.Prefix.Addr().Is4() || c.Prefix != c.Prefix.Masked() {
			return fmt.Errorf("cabinet %s: prefix %s is no IPv4 prefix without host bits", c.Name, c.Prefix)
		}
		for _, d := range t.Cabinets[:i] {
			if c.Prefix.Overlaps(d.Prefix) {
				return fmt.Errorf("cabinets %s and %s: prefixes %s and %s overlap", d.Name, c.Name, d.Prefix, c.Prefix)
			}
		}
		addresses[c.gateway()] = "the gateway"
		for _, s := range c.Servers {
			if err := name(s.Name); err != nil {
				return err
			}
			if !c.Prefix.Contains(s.Address) {
				return fmt.Errorf("server %s: address %s is not in %s, the prefix of cabinet %s", s.Name, s.Address, c.Prefix, c.Name)
			}
			if other := addresses[s.Address]; other != "" {
				return fmt.Errorf("server %s: address %s is that of %s", s.Name, s.Address, other)
			}
			addresses[s.Address] = s.Name
			if s.Pods.IsValid() {
				pods = append(pods, s)
			}
		}
	}
	return t.checkPods(pods)
}

// checkPods finds prefixes of pods that are not the pods' alone.
func (t Topology) checkPods(servers []Server) error {
	for i, s := range servers {
		if !s.Pods.Addr().Is4() || s.Pods != s.Pods.Masked() || s.Pods.Bits() > 30 {
			return fmt.Errorf("server %s: pods %s is no IPv4 prefix of 4 addresses or more without host bits", s.Name, s.Pods)
		}
		for _, c := range t.Cabinets {
			if c.Prefix.Overlaps(s.Pods) {
				return fmt.Errorf("server %s: pods %s overlap %s, the prefix of cabinet %s", s.Name, s.Pods, c.Prefix, c.Name)
			}
		}
		for _, other := range servers[:i] {
			if other.Pods.Overlaps(s.Pods) {
				return fmt.Errorf("servers %s and %s: pods %s and %s overlap", other.Name, s.Name, other.Pods, s.Pods)
			}
		}
	}
	return nil
}

func (c Cabinet) gateway() netip.Addr { return c.Prefix.Addr().Next() }

// uplinkAddress is one end of the i-th uplink, from the range for addresses between networks (RFC 6598).
func uplinkAddress(i int, core bool) netip.Prefix {
	last := byte(0)
	if core {
		last = 1
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64, byte(i), last}), 31)
}
