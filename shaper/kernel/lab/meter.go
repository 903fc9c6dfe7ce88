package lab

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vishvananda/netns"
)

// Traffic is what went over a wire in its two directions, in bytes of frames.
type Traffic struct {
	// Up is away from the server, or from the cabinet to the core.
	Up, Down uint64
}

// Reading is what went over the wires since they were laid.
type Reading struct {
	Ports   map[string]Traffic // by server
	Uplinks map[string]Traffic // by cabinet
}

// Meter reads the counters of all wires. It holds sockets open, so that a reading takes little time.
type Meter struct {
	cabinets []metered
}

type metered struct {
	name   string
	handle *netlink.Handle
}

// Meter makes one. Close it before the cluster.
func (c *Cluster) Meter() (*Meter, error) {
	m := &Meter{}
	for name, sw := range c.switches {
		h, err := netlink.NewHandleAt(netns.NsHandle(sw.FD()), unix.NETLINK_ROUTE)
		if err != nil {
			m.Close()
			return nil, fmt.Errorf("open netlink socket for %s: %w", name, err)
		}
		m.cabinets = append(m.cabinets, metered{name, h})
	}
	return m, nil
}

// Close lets go of the sockets.
func (m *Meter) Close() {
	for _, c := range m.cabinets {
		c.handle.Close()
	}
	m.cabinets = nil
}

// Read asks the switches, which see both directions of everything.
func (m *Meter) Read() (Reading, error) {
	r := Reading{Ports: map[string]Traffic{}, Uplinks: map[string]Traffic{}}
	for _, c := range m.cabinets {
		links, err := c.handle.LinkList()
		if err != nil {
			return Reading{}, fmt.Errorf("read counters in cabinet %s: %w", c.name, err)
		}
		for _, link := range links {
			switch a := link.Attrs(); {
			case link.Type() != "veth" || a.Statistics == nil:
			case a.Name == uplink:
				r.Uplinks[c.name] = Traffic{Up: a.Statistics.TxBytes, Down: a.Statistics.RxBytes}
			default:
				r.Ports[a.Name] = Traffic{Up: a.Statistics.RxBytes, Down: a.Statistics.TxBytes}
			}
		}
	}
	return r, nil
}
