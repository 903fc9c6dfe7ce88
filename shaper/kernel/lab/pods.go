package lab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// PodNetwork is how the pods of different servers reach each other, and so what the wire between the servers sees.
type PodNetwork int

const (
	// NoPods: what runs on a server uses its address.
	NoPods PodNetwork = iota
	// VXLAN packs all that goes from pod to pod into UDP between the servers, as Flannel does by default.
	VXLAN
	// Routed sends packets as the pods do, and servers, switches and core have routes to the pods: host-gw, BGP without
	// encapsulation, the routes of a VPC.
	Routed
	// CrossSubnet is Routed among the servers of a cabinet and VXLAN to those beyond: switches and core need no routes.
	CrossSubnet
)

func (p PodNetwork) String() string {
	return [...]string{"host network", "VXLAN", "routed", "cross-subnet"}[p]
}

// PodOf is the name of the pod on a server with pods: Cluster.Host finds it like a server.
func PodOf(server string) string { return server + "-pod" }

const (
	podInterface = "eth0" // in the pod
	podPort      = "pod0" // its other end, on the server
	vxlanName    = "vxlan1"
	vxlanID      = 1
	vxlanPort    = 8472 // Flannel's, and Linux's own
	// vxlanHeaders are outer Ethernet, IPv4 and UDP headers and that of VXLAN, less the Ethernet header that is in no MTU.
	vxlanHeaders = 50
)

// podAddress is the pod's, podGateway that of its server in the pods' network.
func podAddress(p netip.Prefix) netip.Addr { return podGateway(p).Next() }
func podGateway(p netip.Prefix) netip.Addr { return p.Addr().Next() }

// tunnelMAC is the address of the i-th server's end of the tunnels.
func tunnelMAC(i int) net.HardwareAddr { return net.HardwareAddr{2, 0x42, 0, 0, byte(i >> 8), byte(i)} }

// podServer is a server with pods, and its number.
type podServer struct {
	*Host
	number int
}

// addPods makes a pod on every server with a prefix for pods, and the network between them.
func (c *Cluster) addPods(t Topology) error {
	if t.Pods == NoPods {
		return nil
	}
	var servers []podServer
	for _, cabinet := range t.Cabinets {
		for _, s := range cabinet.Servers {
			if s.Pods.IsValid() {
				servers = append(servers, podServer{c.hosts[s.Name], len(servers)})
			}
		}
	}
	for _, s := range servers {
		if err := c.addPod(s, t); err != nil {
			return err
		}
		for _, other := range servers {
			if other.Name == s.Name {
				continue
			}
			if err := s.reach(other, t.Pods); err != nil {
				return err
			}
		}
		if t.Pods == Routed {
			if err := c.routePods(s, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// addPod makes the pod of s and the server's part of the network.
func (c *Cluster) addPod(s podServer, t Topology) error {
	name := PodOf(s.Name)
	pod, err := c.namespace(name, t.Congestion)
	if err != nil {
		return err
	}
	c.hosts[name] = &Host{Namespace: pod, Server: Server{Name: name, Address: podAddress(s.Pods)}, Cabinet: s.Cabinet, cluster: c}
	if err := s.router(); err != nil {
		return err
	}
	mtu := 1500
	if t.Pods != Routed {
		mtu -= vxlanHeaders
		if err := s.tunnel(); err != nil {
			return err
		}
	}
	attrs := netlink.NewLinkAttrs()
	// One segment a packet here as well: what was one packet of 64 KiB in the pod would be one at the server's interface.
	attrs.Name, attrs.MTU, attrs.GSOMaxSegs = podInterface, mtu, 1
	err = pod.netlink(func(h *netlink.Handle) error {
		veth := &netlink.Veth{LinkAttrs: attrs, PeerName: podPort, PeerNamespace: netlink.NsFd(s.FD())}
		if err := h.LinkAdd(veth); err != nil {
			return fmt.Errorf("lay wire from %s to %s: %w", name, s.Name, err)
		}
		return errors.Join(up(h, podInterface), address(h, podInterface, netip.PrefixFrom(podAddress(s.Pods), s.Pods.Bits())))
	})
	if err != nil {
		return err
	}
	err = s.netlink(func(h *netlink.Handle) error {
		return errors.Join(up(h, podPort), address(h, podPort, netip.PrefixFrom(podGateway(s.Pods), s.Pods.Bits())))
	})
	if err != nil {
		return err
	}
	return pod.netlink(func(h *netlink.Handle) error {
		return route(h, podInterface, netip.PrefixFrom(netip.IPv4Unspecified(), 0), podGateway(s.Pods))
	})
}

// tunnel makes the server's end of the tunnels. Its peers are told to it one by one, as Flannel does: nothing is flooded or learnt.
func (s podServer) tunnel() error {
	return s.netlink(func(h *netlink.Handle) error {
		below, err := h.LinkByName(Interface)
		if err != nil {
			return fmt.Errorf("find %s of %s: %w", Interface, s.Name, err)
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.HardwareAddr, attrs.MTU = vxlanName, tunnelMAC(s.number), 1500-vxlanHeaders
		err = h.LinkAdd(&netlink.Vxlan{LinkAttrs: attrs, VxlanId: vxlanID, VtepDevIndex: below.Attrs().Index, SrcAddr: s.Server.Address.AsSlice(), Port: vxlanPort})
		if errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("add tunnel of %s: %w: this kernel has no VXLAN; load the module vxlan", s.Name, err)
		}
		if err != nil {
			return fmt.Errorf("add tunnel of %s: %w", s.Name, err)
		}
		return errors.Join(up(h, vxlanName), address(h, vxlanName, netip.PrefixFrom(s.Pods.Addr(), 32)))
	})
}

// reach gives s its way to the pods of another server.
func (s podServer) reach(other podServer, network PodNetwork) error {
	near := other.Cabinet == s.Cabinet
	return s.netlink(func(h *netlink.Handle) error {
		switch {
		case near && network != VXLAN:
			return route(h, Interface, other.Pods, other.Server.Address)
		case network == Routed:
			return nil // by the default route: the switch knows
		}
		link, err := h.LinkByName(vxlanName)
		if err != nil {
			return fmt.Errorf("find tunnel of %s: %w", s.Name, err)
		}
		index, mac := link.Attrs().Index, tunnelMAC(other.number)
		far := other.Pods.Addr()
		for _, n := range []netlink.Neigh{
			{LinkIndex: index, State: netlink.NUD_PERMANENT, Type: unix.RTN_UNICAST, IP: far.AsSlice(), HardwareAddr: mac},
			{LinkIndex: index, State: netlink.NUD_PERMANENT, Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF, IP: other.Server.Address.AsSlice(), HardwareAddr: mac},
		} {
			if err := h.NeighSet(&n); err != nil {
				return fmt.Errorf("tell %s of the tunnel to %s: %w", s.Name, other.Name, err)
			}
		}
		err = h.RouteAdd(&netlink.Route{LinkIndex: index, Dst: ipNet(other.Pods), Gw: far.AsSlice(), Flags: int(netlink.FLAG_ONLINK), Protocol: unix.RTPROT_STATIC})
		if err != nil {
			return fmt.Errorf("route %s by the tunnel to %s: %w", other.Pods, other.Name, err)
		}
		return nil
	})
}

// routePods tells the switch of s and the core where the pods of s are.
func (c *Cluster) routePods(s podServer, t Topology) error {
	err := c.switches[s.Cabinet].netlink(func(h *netlink.Handle) error { return route(h, bridge, s.Pods, s.Server.Address) })
	if err != nil {
		return err
	}
	for i, cabinet := range t.Cabinets {
		if cabinet.Name == s.Cabinet {
			return c.core.netlink(func(h *netlink.Handle) error { return route(h, cabinet.Name, s.Pods, uplinkAddress(i, false).Addr()) })
		}
	}
	return nil
}
