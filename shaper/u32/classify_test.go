package u32

import (
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bulkshaper/shaper/tc"
)

func id(minor uint16) tc.Handle { return tc.MakeHandle(1, minor) }

func sel(flags uint8, prefix string) tc.Selector {
	s := tc.MatchDestination(netip.MustParsePrefix(prefix))
	s.Flags = flags
	return s
}

func keyed(s tc.Selector, mask uint32, off int16) tc.Selector {
	s.HMask, s.HOff = mask, off
	return s
}

func node(pref uint16, table, bucket, number uint32, s tc.Selector, class tc.Handle) tc.Filter {
	return tc.Filter{Pref: pref, Protocol: tc.ProtocolIP, Kind: tc.KindU32, Handle: tc.MakeU32Handle(table, bucket, number), Sel: s, ClassID: class}
}

func link(f tc.Filter, table uint32) tc.Filter {
	f.Link = tc.MakeU32Handle(table, 0, 0)
	return f
}

func hash(pref uint16, table, divisor uint32) tc.Filter {
	return tc.Filter{Pref: pref, Protocol: tc.ProtocolIP, Kind: tc.KindU32, Handle: tc.MakeU32Handle(table, 0, 0), Divisor: divisor}
}

// TestLinkTable is the table "leaf and link, in place" of the measurements on 6.18: what a node and a sub-table do together. A
// packet to 10.1.0.5 is in the sub-table, one to 10.1.0.6 is not; a leaf for the /16 stands behind the node.
func TestLinkTable(t *testing.T) {
	const inTable, own, behind, miss = 0x1a, 0x1b, 0x1f, 0
	for _, test := range []struct {
		name       string
		flags      uint8
		link       bool
		class      tc.Handle
		hit, other uint16
	}{
		{"terminal leaf", tc.U32Terminal, false, id(own), own, own},
		{"leaf without flags: its class is ignored", 0, false, id(own), behind, behind},
		{"link without flags", 0, true, 0, inTable, behind},
		{"link without flags, with a class", 0, true, id(own), inTable, behind},
		{"terminal link with a class", tc.U32Terminal, true, id(own), inTable, own},
		{"terminal link without a class", tc.U32Terminal, true, 0, inTable, miss},
	} {
		n := node(10, 0x800, 0, 1, keyed(sel(test.flags, "10.1.0.0/16"), 0xff, 16), test.class)
		if test.link {
			n = link(n, 2)
		}
		filters := []tc.Filter{hash(10, 2, 256), hash(10, 0x800, 1), node(10, 0x800, 0, 2, sel(1, "10.1.0.0/16"), id(behind)),
			node(10, 2, 5, 1, sel(1, "10.1.0.5/32"), id(inTable)), n}
		for address, want := range map[string]uint16{"10.1.0.5": test.hit, "10.1.0.6": test.other} {
			packet, protocol := Packet(netip.MustParseAddr(address))
			got := Classify(filters, packet, protocol)
			if !got.Matched || got.ClassID.Minor() != want {
				t.Errorf("%s: %s goes to %s (matched %v), want 1:%x", test.name, address, got.ClassID, got.Matched, want)
			}
		}
	}
}

func classify(t *testing.T, filters []tc.Filter, address string) Result {
	t.Helper()
	packet, protocol := Packet(netip.MustParseAddr(address))
	return Classify(filters, packet, protocol)
}

func TestOrder(t *testing.T) {
	any16 := sel(1, "10.1.0.0/16")
	if got := classify(t, []tc.Filter{node(10, 0x800, 0, 9, any16, id(9)), node(10, 0x800, 0, 3, any16, id(3))}, "10.1.0.1"); got.ClassID != id(3) {
		t.Errorf("the lower node id does not win: %s", got.ClassID)
	}
	if got := classify(t, []tc.Filter{node(11, 0x801, 0, 1, any16, id(11)), node(10, 0x800, 0, 1, any16, id(10))}, "10.1.0.1"); got.ClassID != id(10) {
		t.Errorf("the lower pref does not win: %s", got.ClassID)
	}
	if got := classify(t, []tc.Filter{node(10, 0x800, 0, 1, any16, id(1)), node(10, 0x800, 0, 1, any16, id(2))}, "10.1.0.1"); got.ClassID != id(1) {
		t.Errorf("of two nodes with one handle the second wins: %s", got.ClassID)
	}
	if got := classify(t, []tc.Filter{node(10, 0, 0, 2, any16, id(2))}, "10.2.0.1"); got.Matched {
		t.Errorf("no filter matches 10.2.0.1, and yet: %+v", got)
	}
}

func TestProtocols(t *testing.T) {
	v6 := tc.Filter{Pref: 13000, Protocol: tc.ProtocolIPv6, Kind: tc.KindU32, Handle: 1, ClassID: id(6), Sel: tc.MatchDestination(netip.MustParsePrefix("2001:db8::1/128"))}
	all := node(20000, 0, 0, 1, sel(1, "0.0.0.0/0"), id(7))
	all.Protocol = tc.ProtocolAll
	filters := []tc.Filter{node(12000, 0, 0, 1, sel(1, "10.0.0.1/32"), id(4)), v6, all}
	for address, want := range map[string]uint16{"10.0.0.1": 4, "10.0.0.2": 7, "2001:db8::1": 6, "2001:db8::2": 7} {
		if got := classify(t, filters, address); got.ClassID.Minor() != want {
			t.Errorf("%s goes to %s, want 1:%x", address, got.ClassID, want)
		}
	}
	// With protocol all, an IPv4 key is held against the source address of an IPv6 packet.
	wrong := node(1, 0, 0, 1, sel(1, "0.0.0.0/32"), id(9))
	wrong.Protocol = tc.ProtocolAll
	if got := classify(t, []tc.Filter{wrong}, "2001:db8::1"); got.ClassID != id(9) {
		t.Errorf("an IPv4 key under protocol all leaves IPv6 alone: %+v", got)
	}
}

func TestForeignKindIsNamed(t *testing.T) {
	filters := []tc.Filter{{Pref: 5, Protocol: tc.ProtocolIP, Kind: "flower", Handle: 1}, {Pref: 6, Protocol: tc.ProtocolARP, Kind: "basic"},
		node(10, 0, 0, 1, sel(1, "10.0.0.1/32"), id(4)), {Pref: 11, Protocol: tc.ProtocolIP, Kind: "bpf"}}
	if got := classify(t, filters, "10.0.0.1"); got.Unknown != "flower filter at pref 5" || got.ClassID != id(4) {
		t.Errorf("%+v", got)
	}
	if got := classify(t, filters[3:], "10.0.0.1"); got.Matched || !strings.Contains(got.Unknown, "bpf") {
		t.Errorf("%+v", got)
	}
}

func TestExtraIsNamed(t *testing.T) {
	extra := node(10, 0, 0, 3, sel(1, "10.0.0.1/32"), id(1))
	extra.Sel.Extra = true
	if got := classify(t, []tc.Filter{extra}, "10.0.0.1"); !got.Matched || !strings.Contains(got.Unknown, "::3 at pref 10") {
		t.Errorf("%+v", got)
	}
	if got := classify(t, []tc.Filter{extra}, "10.0.0.2"); got.Unknown != "" {
		t.Errorf("a node that does not match is named: %+v", got)
	}
}

// TestDepth: eight links in a chain work, the ninth ends the pref and the next pref is asked.
func TestDepth(t *testing.T) {
	for links, want := range map[int]uint16{7: 1, 8: 1, 9: 2} {
		filters := []tc.Filter{node(11, 0x801, 0, 1, sel(1, "0.0.0.0/0"), id(2))}
		for i := range links {
			from := uint32(0x800)
			if i > 0 {
				from = uint32(i)
			}
			filters = append(filters, link(node(10, from, 0, 1, sel(0, "0.0.0.0/0"), 0), uint32(i+1)), hash(10, uint32(i+1), 1))
		}
		filters = append(filters, node(10, uint32(links), 0, 1, sel(1, "10.0.0.1/32"), id(1)))
		got := classify(t, filters, "10.0.0.1")
		if got.ClassID.Minor() != want || got.Depth != min(links, 8) {
			t.Errorf("%d links: to %s at depth %d", links, got.ClassID, got.Depth)
		}
	}
	loop := []tc.Filter{link(node(10, 0x800, 0, 1, sel(0, "0.0.0.0/0"), 0), 1), hash(10, 1, 1), link(node(10, 1, 0, 1, sel(0, "0.0.0.0/0"), 0), 1),
		node(10, 0x800, 0, 2, sel(1, "0.0.0.0/0"), id(3))}
	if got := classify(t, loop, "10.0.0.1"); got.Matched {
		t.Errorf("a loop of links ends in %s", got.ClassID)
	}
}

// TestBeyondThePacket: a key past the end ends the pref, also for the nodes behind.
func TestBeyondThePacket(t *testing.T) {
	far := tc.Selector{Flags: 1, Keys: []tc.Key{{Off: 200}}}
	filters := []tc.Filter{node(10, 0, 0, 1, far, id(1)), node(10, 0, 0, 2, sel(1, "0.0.0.0/0"), id(2)), node(11, 0, 0, 1, sel(1, "0.0.0.0/0"), id(3))}
	if got := classify(t, filters, "10.0.0.1"); got.ClassID != id(3) {
		t.Errorf("to %s, want the next pref", got.ClassID)
	}
	hashed := link(node(10, 0x800, 0, 1, keyed(sel(0, "0.0.0.0/0"), 0xff, 200), 0), 1)
	filters = []tc.Filter{hashed, hash(10, 1, 256), node(10, 0x800, 0, 2, sel(1, "0.0.0.0/0"), id(2)), node(11, 0x801, 0, 1, sel(1, "0.0.0.0/0"), id(3))}
	if got := classify(t, filters, "10.0.0.1"); got.ClassID != id(3) {
		t.Errorf("hash key: to %s, want the next pref", got.ClassID)
	}
	filters[1].Divisor = 1 // a table of one bucket reads no hash key
	if got := classify(t, filters, "10.0.0.1"); got.ClassID != id(2) {
		t.Errorf("one bucket: to %s", got.ClassID)
	}
}

// TestOffsets: a link with 4|8 and the IP header length moves on to the UDP header; with an offset past the packet the table is
// not entered.
func TestOffsets(t *testing.T) {
	jump := link(node(10, 0x800, 0, 1, tc.Selector{Flags: tc.U32VarOffset | tc.U32Eat, OffMask: 0x0f00, OffShift: 6}, 0), 1)
	length := node(10, 1, 0, 1, tc.Selector{Flags: 1, Keys: []tc.Key{{Mask: 0xffff0000, Value: 12 << 16, Off: 4}}}, id(1))
	behind := node(10, 0x800, 0, 2, tc.Selector{Flags: 1}, id(2))
	filters := []tc.Filter{jump, hash(10, 1, 1), length, behind}
	if got := classify(t, filters, "10.0.0.1"); got.ClassID != id(1) {
		t.Errorf("UDP length: to %s", got.ClassID)
	}
	filters[0].Sel = tc.Selector{Flags: tc.U32Offset | tc.U32Eat, Off: 400}
	if got := classify(t, filters, "10.0.0.1"); got.ClassID != id(2) {
		t.Errorf("offset past the packet: to %s", got.ClassID)
	}
	filters[0].Sel = tc.Selector{Flags: tc.U32VarOffset, OffMask: 0xffff, OffOff: 1000}
	if got := classify(t, filters, "10.0.0.1"); got.Matched {
		t.Errorf("variable offset read past the packet: to %s", got.ClassID)
	}
	// Without EAT the offset counts only under a key's offset mask.
	filters[0].Sel = tc.Selector{Flags: tc.U32VarOffset, OffMask: 0x0f00, OffShift: 6}
	filters[2].Sel.Keys[0].OffMask = -1
	if got := classify(t, filters, "10.0.0.1"); got.ClassID != id(1) {
		t.Errorf("offset mask: to %s", got.ClassID)
	}
}

// TestTree: the /16 table on octet 3 and /24 tables on octet 4 find each host, whatever the hosts.
func TestTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hosts := map[[2]byte]tc.Handle{}
		filters := []tc.Filter{hash(10, 0x800, 1), link(node(10, 0x800, 0, 1, keyed(sel(0, "10.1.0.0/16"), 0xff00, 16), 0), 1), hash(10, 1, 256),
			node(10, 0x800, 0, 0xf00, sel(1, "10.1.0.0/16"), id(0xf00))}
		made := map[byte]bool{}
		for range rapid.IntRange(0, 20).Draw(t, "hosts") {
			h := [2]byte{rapid.Byte().Draw(t, "octet 3"), rapid.Byte().Draw(t, "octet 4")}
			if _, ok := hosts[h]; ok {
				continue
			}
			hosts[h] = id(uint16(len(hosts) + 1))
			sub := uint32(h[0]) + 2
			network := netip.AddrFrom4([4]byte{10, 1, h[0], 0})
			if !made[h[0]] {
				made[h[0]] = true
				filters = append(filters, hash(10, sub, 256),
					link(node(10, 1, uint32(h[0]), 1, keyed(sel(0, netip.PrefixFrom(network, 24).String()), 0xff, 16), 0), sub))
			}
			address := netip.AddrFrom4([4]byte{10, 1, h[0], h[1]})
			filters = append(filters, node(10, sub, uint32(h[1]), 1, sel(1, netip.PrefixFrom(address, 32).String()), hosts[h]))
		}
		filters = rapid.Permutation(filters).Draw(t, "order")
		h := [2]byte{rapid.Byte().Draw(t, "octet 3"), rapid.Byte().Draw(t, "octet 4")}
		want, ok := hosts[h]
		if !ok {
			want = id(0xf00)
		}
		packet, protocol := Packet(netip.AddrFrom4([4]byte{10, 1, h[0], h[1]}))
		if got := Classify(filters, packet, protocol); got.ClassID != want || got.Depth > 2 || got.Comparisons > 6 {
			t.Fatalf("10.1.%d.%d goes to %s after %d comparisons at depth %d, want %s", h[0], h[1], got.ClassID, got.Comparisons, got.Depth, want)
		}
	})
}

// TestPacket: the destination stands where the kernel's keys look for it, and 4-in-6 addresses are IPv4.
func TestPacket(t *testing.T) {
	for _, a := range []string{"10.1.2.3", "2001:db8::7", "::ffff:10.1.2.3"} {
		address := netip.MustParseAddr(a)
		packet, protocol := Packet(address)
		f := tc.Filter{Protocol: protocol, Kind: tc.KindU32, Handle: 1, ClassID: id(1), Sel: tc.MatchDestination(netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()))}
		if got := Classify([]tc.Filter{f}, packet, protocol); !got.Matched {
			t.Errorf("%s: no match", a)
		}
	}
}

// TestRootTables: a table that the kernel numbered itself is not taken for a root when something links to it.
func TestRootTables(t *testing.T) {
	filters := []tc.Filter{hash(10, 0x801, 16), hash(10, 0x800, 1), link(node(10, 0x800, 0, 0x800, sel(0, "0.0.0.0/0"), 0), 0x801),
		node(10, 0x801, 0, 0x800, sel(1, "10.0.0.1/32"), id(1)), hash(11, 0x802, 1), {Pref: 12, Kind: "basic", Handle: 0x80000000}}
	got := RootTables(filters)
	if len(got) != 2 || got[10] != 0x800 || got[11] != 0x802 {
		t.Errorf("%x", got)
	}
	if r := classify(t, filters, "10.0.0.1"); r.ClassID != id(1) {
		t.Errorf("to %s", r.ClassID)
	}
}

func BenchmarkClassifyList(b *testing.B) {
	var filters []tc.Filter
	for i := range uint32(1000) {
		filters = append(filters, node(12000, 0, 0, i+1, sel(1, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32).String()), id(1)))
	}
	packet, protocol := Packet(netip.MustParseAddr("10.0.3.231"))
	for b.Loop() {
		Classify(filters, packet, protocol)
	}
}
