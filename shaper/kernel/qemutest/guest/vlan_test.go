//go:build system

package guest

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"bulkshaper/shaper/kernel/kerneltest"
)

// vlanDevice puts a VLAN device on a device of the namespace, with a neighbour that every route through it may name.
func (h *host) vlanDevice(on, name, options string) {
	h.t.Helper()
	for _, line := range []string{
		"link add link " + on + " name " + name + " type vlan " + options,
		"link set " + name + " arp off", "link set " + name + " up",
		"addr add 198.51.100.1/24 dev " + name + " noprefixroute",
		"neigh replace 198.51.100.254 dev " + name + " lladdr 02:00:00:00:00:02 nud permanent",
		"addr add 2001:db8:77::1/64 dev " + name + " nodad noprefixroute",
		"neigh replace 2001:db8:77::fe dev " + name + " lladdr 02:00:00:00:00:02 nud permanent",
	} {
		h.Run(h.t, "ip", strings.Fields(line)...)
	}
}

// setTagOffload sets tx-vlan-offload: whether the device, or the kernel for it, writes the tag into the frame.
func (h *host) setTagOffload(device string, on bool) {
	h.t.Helper()
	const getFlags, setFlags, txVLAN = 0x25, 0x26, 1 << 7 // ETHTOOL_GFLAGS, ETHTOOL_SFLAGS, ETH_FLAG_TXVLAN
	h.Do(func() {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			h.t.Fatal(err)
		}
		defer unix.Close(fd)
		value := struct{ cmd, data uint32 }{cmd: getFlags}
		do := func() {
			request := struct {
				name [unix.IFNAMSIZ]byte
				data unsafe.Pointer
				_    [16]byte
			}{data: unsafe.Pointer(&value)}
			copy(request.name[:], device)
			if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
				h.t.Fatalf("ethtool %s: %v", device, errno)
			}
		}
		do()
		value.cmd, value.data = setFlags, value.data&^txVLAN
		if on {
			value.data |= txVLAN
		}
		do()
		want := value.data
		value.cmd = getFlags
		if do(); value.data != want {
			h.t.Fatalf("tx-vlan-offload of %s cannot be set to %t", device, on)
		}
	})
}

// What the classifier of an interface sees of a packet with a tag, however the tag is put in: protocol 802.1q (or 802.1ad), and the IP
// header at offset 0. A filter of protocol ip never meets it.
func TestTaggedPacketsMeetFilters(t *testing.T) {
	udp := make([]byte, 46)
	copy(udp, []byte{0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 10, 241, 28, 20})
	for name, c := range map[string]struct {
		setup func(h *host)
		send  func(h *host)
		class string
	}{
		"device, tag offload":      {func(h *host) { h.vlanDevice("eth1", "v", "id 100") }, nil, "1:20"},
		"device, no tag offload":   {func(h *host) { h.setTagOffload("eth1", false); h.vlanDevice("eth1", "v", "id 100") }, nil, "1:20"},
		"offload taken off later":  {func(h *host) { h.vlanDevice("eth1", "v", "id 100"); h.setTagOffload("eth1", false) }, nil, "1:20"},
		"reorder_hdr off":          {func(h *host) { h.vlanDevice("eth1", "v", "id 100 reorder_hdr off") }, nil, "1:20"},
		"reorder_hdr, offload off": {func(h *host) { h.setTagOffload("eth1", false); h.vlanDevice("eth1", "v", "id 100 reorder_hdr off") }, nil, "1:20"},
		"802.1ad":                  {func(h *host) { h.vlanDevice("eth1", "v", "proto 802.1ad id 100") }, nil, "1:30"},
		"tag in a tag":             {func(h *host) { h.vlanDevice("eth1", "outer", "id 7"); h.vlanDevice("outer", "v", "id 100") }, nil, "1:20"},
		"tag in a service tag": {func(h *host) {
			h.vlanDevice("eth1", "outer", "proto 802.1ad id 7")
			h.vlanDevice("outer", "v", "id 100")
		}, nil, "1:30"},
		"on a macvlan": {func(h *host) {
			h.Run(t, "ip", strings.Fields("link add link eth1 name mv type macvlan mode bridge")...)
			h.Run(t, "ip", strings.Fields("link set mv up")...)
			h.vlanDevice("mv", "v", "id 100")
		}, nil, "1:20"},
		"raw frame": {func(h *host) {}, func(h *host) {
			h.SendFrame(t, kerneltest.EthernetFrame(0x8100, append([]byte{0, 100, 8, 0}, udp...)), 5)
		}, "1:20"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			c.setup(h)
			var script strings.Builder
			fmt.Fprintln(&script, "qdisc add dev eth1 root handle 1: htb default ff")
			for _, id := range []string{"10", "20", "30", "40", "50", "ff"} {
				fmt.Fprintf(&script, "class add dev eth1 parent 1: classid 1:%s htb rate 100mbit\n", id)
			}
			for pref, f := range []string{"ip u32 match u32 0x0af11c14 0xffffffff at 16 flowid 1:10", "802.1q u32 match u32 0x0af11c14 0xffffffff at 16 flowid 1:20",
				"802.1ad u32 match u32 0x0af11c14 0xffffffff at 16 flowid 1:30", "802.1q u32 match u32 0x0af11c14 0xffffffff at 20 flowid 1:40",
				"802.1ad u32 match u32 0x0af11c14 0xffffffff at 20 flowid 1:50"} {
				fmt.Fprintf(&script, "filter add dev eth1 parent 1: pref %d protocol %s\n", pref+1, f)
			}
			if err := h.TCBatch(script.String()); err != nil {
				t.Fatal(err)
			}
			if c.send == nil {
				h.Run(t, "ip", strings.Fields(fmt.Sprintf("route replace %s/32 via 198.51.100.254 dev v onlink", crossCabinet))...)
				c.send = func(h *host) { h.Send(t, crossCabinet, 5) }
			}
			got := h.grows("eth1", func() { c.send(h) })
			finding(t, "%s: %v", name, got)
			if len(got) != 1 || got[c.class] != 5 {
				t.Errorf("5 packets: %v, want them in %s", got, c.class)
			}
		})
	}
}

// A VLAN device that comes while the daemon runs: its packets get the class of their destination, whoever writes the tag into the frame, and
// explain knows. When it goes, so do the filters for it. The packets without a tag never notice, and ARP with one is control traffic.
func TestVLANDevices(t *testing.T) {
	for _, layout := range []string{"list", "hash"} {
		t.Run(layout, func(t *testing.T) {
			h := newHost(t)
			h.daemon("--layout", layout)
			tagged := func() []string {
				return lines(h.TC("filter", "show", "dev", "eth1", "parent", "1:"), "protocol 802.1Q")
			}
			stands := func() string {
				out, code := h.try("plan", "--exit-code", "--layout", layout)
				if code == 0 {
					return ""
				}
				return fmt.Sprintf("plan: exit %d\n%s", code, out)
			}
			eventually(t, stands)
			if got := tagged(); len(got) > 0 {
				t.Errorf("without a VLAN device there stand %q", got)
			}
			classes := map[netip.Addr]string{sameCabinet: "1:10", crossCabinet: "1:20", nameNode: "1:100", stranger: "1:100"}
			for _, offload := range []bool{true, false} {
				h.setTagOffload("eth1", offload)
				h.vlanDevice("eth1", "eth1.100", "id 100")
				eventually(t, func() string {
					if len(tagged()) == 0 {
						return "no filters for packets with a tag"
					}
					return stands()
				})
				for address, class := range classes {
					for _, via := range []string{"192.0.2.254 dev eth1", "198.51.100.254 dev eth1.100"} {
						h.Run(t, "ip", strings.Fields(fmt.Sprintf("route replace %s/32 via %s onlink", address, via))...)
						if got := h.grows("eth1", func() { h.Send(t, address, 6) }); len(got) != 1 || got[class] != 6 {
							t.Errorf("offload %t: 6 packets to %s via %s: %v, want them in %s", offload, address, via, got, class)
						}
					}
				}
				arp := kerneltest.EthernetFrame(0x8100, append([]byte{0, 100, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1}, make([]byte, 38)...))
				if got := h.grows("eth1", func() { h.SendFrame(t, arp, 3) }); len(got) != 1 || got["1:ffff"] != 3 {
					t.Errorf("3 ARP with a tag: %v", got)
				}
				if out, code := h.try("explain", crossCabinet.String(), "--layout", layout); code != 0 {
					t.Errorf("explain: exit %d\n%s", code, out)
				}
				h.Run(t, "ip", "link", "del", "eth1.100")
				eventually(t, func() string {
					if got := lines(strings.Join(tagged(), "\n"), " flowid"); len(got) > 0 {
						return fmt.Sprintf("the device is gone, and there stand %q", got)
					}
					return stands()
				})
			}
		})
	}
}

// The VLAN device itself can be the bulk interface: there the tag is not yet in. And where another hand takes away a filter for packets
// with a tag, explain finds that out.
func TestVLANDeviceItself(t *testing.T) {
	h := newHost(t)
	h.vlanDevice("eth1", "eth1.100", "id 100")
	h.must("apply", "--interface", "eth1.100")
	h.nothingLeft("--interface", "eth1.100")
	h.Run(t, "ip", strings.Fields(fmt.Sprintf("route replace %s/32 via 198.51.100.254 dev eth1.100 onlink", crossCabinet))...)
	if got := h.grows("eth1.100", func() { h.Send(t, crossCabinet, 5) }); len(got) != 1 || got["1:20"] != 5 {
		t.Errorf("5 packets on the VLAN device: %v", got)
	}
	h.must("clear", "--interface", "eth1.100")
	h.must("apply")
	if out, code := h.try("explain", crossCabinet.String()); code != 0 {
		t.Errorf("explain: exit %d\n%s", code, out)
	}
	h.TC("filter", "del", "dev", "eth1", "parent", "1:", "protocol", "802.1q", "pref", "12100")
	if out, code := h.try("explain", crossCabinet.String()); code != 3 || !strings.Contains(out, "802.1q") {
		t.Errorf("explain without the filter for packets with a tag: exit %d\n%s", code, out)
	}
}
