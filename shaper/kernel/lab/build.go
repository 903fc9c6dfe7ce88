package lab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"bulkshaper/shaper/tc"
)

// Build makes the cluster, all links up. On an error nothing is left of it.
func Build(t Topology) (_ *Cluster, err error) {
	if err := t.check(); err != nil {
		return nil, fmt.Errorf("build lab: %w", err)
	}
	c := &Cluster{switches: map[string]*Namespace{}, hosts: map[string]*Host{}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("build lab: %w", err), c.Close())
		}
	}()
	if c.core, err = c.namespace("core", t.Congestion); err != nil {
		return nil, err
	}
	if err := c.core.router(); err != nil {
		return nil, err
	}
	for i, cabinet := range t.Cabinets {
		if err := c.addCabinet(i, cabinet, t.Congestion); err != nil {
			return nil, err
		}
	}
	return c, c.addPods(t)
}

// namespace makes a namespace with what all of them have: the loopback up, no IPv6, nothing that outlives a connection.
func (c *Cluster) namespace(name, congestion string) (*Namespace, error) {
	n, err := newNamespace(name)
	if err != nil {
		return nil, err
	}
	n.congestion = congestion
	c.namespaces = append(c.namespaces, n)
	// Without IPv6 nobody looks for neighbours and routers, and without the metrics cache no connection learns from an earlier
	// one, so that a measurement does not depend on what was before it.
	values := map[string]string{
		"ipv6/conf/all/disable_ipv6": "1", "ipv6/conf/default/disable_ipv6": "1", "ipv4/tcp_no_metrics_save": "1",
		"ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0",
	}
	if err := n.sysctl(values); err != nil {
		return nil, err
	}
	return n, n.netlink(func(h *netlink.Handle) error { return up(h, "lo") })
}

func (n *Namespace) router() error {
	return n.sysctl(map[string]string{"ipv4/ip_forward": "1", "ipv4/conf/all/send_redirects": "0", "ipv4/conf/default/send_redirects": "0"})
}

// addCabinet makes the i-th cabinet's switch, its uplink, and its servers.
func (c *Cluster) addCabinet(i int, cabinet Cabinet, congestion string) error {
	sw, err := c.namespace(cabinet.Name, congestion)
	if err != nil {
		return err
	}
	c.switches[cabinet.Name] = sw
	if err := sw.router(); err != nil {
		return err
	}
	if err := connect(sw, uplink, c.core, cabinet.Name, cabinet.Uplink); err != nil {
		return err
	}
	near, far := uplinkAddress(i, false), uplinkAddress(i, true)
	err = sw.netlink(func(h *netlink.Handle) error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = bridge
		if err := h.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
			return fmt.Errorf("add bridge of cabinet %s: %w", cabinet.Name, err)
		}
		return errors.Join(up(h, bridge), address(h, bridge, netip.PrefixFrom(cabinet.gateway(), cabinet.Prefix.Bits())),
			address(h, uplink, near), route(h, uplink, netip.PrefixFrom(netip.IPv4Unspecified(), 0), far.Addr()))
	})
	if err != nil {
		return err
	}
	err = c.core.netlink(func(h *netlink.Handle) error {
		return errors.Join(address(h, cabinet.Name, far), route(h, cabinet.Name, cabinet.Prefix, near.Addr()))
	})
	if err != nil {
		return err
	}
	for _, s := range cabinet.Servers {
		if err := c.addServer(sw, cabinet, s, congestion); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) addServer(sw *Namespace, cabinet Cabinet, s Server, congestion string) error {
	n, err := c.namespace(s.Name, congestion)
	if err != nil {
		return err
	}
	if err := connect(n, wire, sw, s.Name, s.Wire); err != nil {
		return err
	}
	err = sw.netlink(func(h *netlink.Handle) error {
		port, err := h.LinkByName(s.Name)
		if err != nil {
			return fmt.Errorf("find port of %s: %w", s.Name, err)
		}
		master, err := h.LinkByName(bridge)
		if err != nil {
			return fmt.Errorf("find bridge of cabinet %s: %w", cabinet.Name, err)
		}
		return h.LinkSetMaster(port, master)
	})
	if err != nil {
		return err
	}
	c.hosts[s.Name] = &Host{Namespace: n, Server: s, Cabinet: cabinet.Name, cluster: c}
	return n.netlink(func(h *netlink.Handle) error {
		parent, err := h.LinkByName(wire)
		if err != nil {
			return fmt.Errorf("find wire of %s: %w", s.Name, err)
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.ParentIndex = Interface, parent.Attrs().Index
		// One segment a packet, as it is on a real wire: a burst of 64 KiB would take milliseconds of a slow lab link.
		attrs.GSOMaxSegs = 1
		if err := h.LinkAdd(&netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}); err != nil {
			return fmt.Errorf("add macvlan of %s: %w", s.Name, err)
		}
		return errors.Join(up(h, Interface), address(h, Interface, netip.PrefixFrom(s.Address, cabinet.Prefix.Bits())),
			route(h, Interface, netip.PrefixFrom(netip.IPv4Unspecified(), 0), cabinet.gateway()))
	})
}

// connect lays a wire between two namespaces, both ends up and limited.
func connect(a *Namespace, aName string, b *Namespace, bName string, limit Limit) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = aName
	err := a.netlink(func(h *netlink.Handle) error {
		veth := &netlink.Veth{LinkAttrs: attrs, PeerName: bName, PeerNamespace: netlink.NsFd(b.FD())}
		if err := h.LinkAdd(veth); err != nil {
			return fmt.Errorf("lay wire from %s to %s: %w", a.name, b.name, err)
		}
		return errors.Join(up(h, aName), limited(h, aName, limit))
	})
	if err != nil {
		return err
	}
	return b.netlink(func(h *netlink.Handle) error { return errors.Join(up(h, bName), limited(h, bName, limit)) })
}

func up(h *netlink.Handle, name string) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	return nil
}

// limited puts a TBF on what leaves by the interface, or gives the one that is there other parameters.
func limited(h *netlink.Handle, name string, limit Limit) error {
	if limit.Rate == 0 {
		return nil
	}
	link, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	err = h.QdiscReplace(&netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		Rate:       limit.Rate.BytesPerSecond(),
		Buffer:     uint32(tc.TicksOf(limit.burst(), limit.Rate)),
		Limit:      uint32(limit.queueBytes()),
	})
	if err != nil {
		return fmt.Errorf("limit %s to %s: %w", name, limit.Rate, err)
	}
	return nil
}

func address(h *netlink.Handle, name string, p netip.Prefix) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	if err := h.AddrAdd(link, &netlink.Addr{IPNet: ipNet(p)}); err != nil {
		return fmt.Errorf("give %s the address %s: %w", name, p, err)
	}
	return nil
}

func route(h *netlink.Handle, name string, to netip.Prefix, via netip.Addr) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	err = h.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(to), Gw: via.AsSlice(), Protocol: unix.RTPROT_STATIC})
	if err != nil {
		return fmt.Errorf("route %s via %s: %w", to, via, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
