package lab

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/vishvananda/netlink"
)

// Cluster is a topology that stands.
type Cluster struct {
	core       *Namespace
	switches   map[string]*Namespace
	hosts      map[string]*Host
	namespaces []*Namespace

	mu        sync.Mutex
	processes []*Process
}

// Host is a server that stands.
type Host struct {
	*Namespace
	Server
	// Cabinet is where it really stands, whatever an inventory says.
	Cabinet string

	cluster *Cluster
}

// Host finds a server, or the pod of one (PodOf), by its name; nil if the topology has none of that name.
func (c *Cluster) Host(name string) *Host { return c.hosts[name] }

// Hosts are all servers and pods, by name.
func (c *Cluster) Hosts() []*Host {
	return slices.SortedFunc(maps.Values(c.hosts), func(a, b *Host) int { return cmp.Compare(a.Name, b.Name) })
}

// Namespaces is how many there are.
func (c *Cluster) Namespaces() int { return len(c.namespaces) }

// Close kills what still runs in the cluster and lets go of the namespaces. They end when the last socket in them is closed,
// and with them all links, addresses and queues.
func (c *Cluster) Close() error {
	c.mu.Lock()
	processes := c.processes
	c.processes = nil
	c.mu.Unlock()
	for _, p := range processes {
		p.Kill()
	}
	var errs []error
	for _, n := range c.namespaces {
		errs = append(errs, n.file.Close())
	}
	c.namespaces = nil
	return errors.Join(errs...)
}

// Counters are bytes and packets that left by one end of a wire, and those that its queue had no place for.
type Counters struct{ Bytes, Packets, Dropped uint64 }

// Uplink reads what a cabinet sent to the core, and what the core sent to the cabinet.
func (c *Cluster) Uplink(cabinet string) (up, down Counters, err error) {
	sw := c.switches[cabinet]
	if sw == nil {
		return up, down, fmt.Errorf("read uplink: the lab has no cabinet %q", cabinet)
	}
	if up, err = sw.counters(uplink); err != nil {
		return up, down, err
	}
	down, err = c.core.counters(cabinet)
	return up, down, err
}

// Port reads what the switch sent to the server h; a pod has no port.
func (h *Host) Port() (Counters, error) { return h.cluster.switches[h.Cabinet].counters(h.Name) }

// SetWire limits the wire of h anew, as a switch does whose port is set to another speed. It must have had a limit; what waits at
// either end goes on waiting.
func (h *Host) SetWire(limit Limit) error {
	if h.Wire.Rate == 0 || limit.Rate == 0 {
		return fmt.Errorf("limit the wire of %s to %s: it has no limit, or shall have none", h.Name, limit.Rate)
	}
	set := func(n *Namespace, name string) error {
		return n.netlink(func(handle *netlink.Handle) error { return limited(handle, name, limit) })
	}
	return errors.Join(set(h.Namespace, wire), set(h.cluster.switches[h.Cabinet], h.Name))
}

func (n *Namespace) counters(name string) (c Counters, err error) {
	err = n.netlink(func(h *netlink.Handle) error {
		link, err := h.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find %s in %s: %w", name, n.name, err)
		}
		s := link.Attrs().Statistics
		if s == nil {
			return fmt.Errorf("read counters of %s in %s: the kernel tells none", name, n.name)
		}
		c = Counters{Bytes: s.TxBytes, Packets: s.TxPackets}
		qdiscs, err := h.QdiscList(link)
		if err != nil {
			return fmt.Errorf("read queue of %s in %s: %w", name, n.name, err)
		}
		for _, q := range qdiscs {
			if stats := q.Attrs().Statistics; q.Attrs().Parent == netlink.HANDLE_ROOT && stats != nil && stats.Queue != nil {
				c.Dropped = uint64(stats.Queue.Drops)
			}
		}
		return nil
	})
	return c, err
}
