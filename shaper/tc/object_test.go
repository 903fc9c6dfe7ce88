package tc

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestOpTC(t *testing.T) {
	class := Class{ID: MakeHandle(1, 0x10), Parent: Root, Prio: 1, Rate: 819_200_000, Ceil: 1e9, Buffer: 10000, Cbuffer: 8192, Quantum: 60000}
	child := class
	child.ID, child.Parent = MakeHandle(1, 0x11), class.ID
	node := Filter{Parent: MakeHandle(1, 0), Pref: 12000, Protocol: ProtocolIP, Kind: KindU32, Handle: MakeU32Handle(0, 0, 1),
		ClassID: class.ID, Sel: MatchDestination(netip.MustParsePrefix("10.0.0.1/32"))}
	full := node
	full.Handle = MakeU32Handle(0x801, 0, 1)
	v6 := node
	v6.Pref, v6.Protocol, v6.Sel = 13064, ProtocolIPv6, MatchDestination(netip.MustParsePrefix("2001:db8::/64"))
	arp := Filter{Parent: MakeHandle(1, 0), Pref: 11000, Protocol: ProtocolARP, Kind: KindU32, Handle: MakeU32Handle(0, 0, 1),
		ClassID: MakeHandle(1, 0xffff), Sel: Selector{Flags: U32Terminal}}
	table := Filter{Parent: MakeHandle(1, 0), Pref: 12000, Protocol: ProtocolIP, Kind: KindU32, Handle: MakeU32Handle(2, 0, 0), Divisor: 256}
	inTable := node
	inTable.Handle = MakeU32Handle(2, 0x1f, 3)
	link := Filter{Parent: MakeHandle(1, 0), Pref: 12000, Protocol: ProtocolIP, Kind: KindU32, Handle: MakeU32Handle(0x800, 0, 5),
		Link: MakeU32Handle(2, 0, 0), Sel: Selector{HOff: 16, HMask: 0xff, Keys: []Key{{Mask: 0xffff0000, Value: 0x0a010000, Off: 12}}}}
	flower := Filter{Parent: MakeHandle(1, 0), Pref: 5, Protocol: ProtocolAll, Kind: "flower", Handle: 1}
	root := Qdisc{Handle: MakeHandle(1, 0), Parent: Root, Kind: KindHTB, HTB: HTB{Default: 0x100, R2Q: 10}}
	leaf := Qdisc{Handle: LeafHandle(0x10), Parent: class.ID, Kind: KindPFIFO, Limit: 3000}
	for _, test := range []struct {
		op         Op
		line, text string
	}{
		{Op{Verb: Add, Object: root}, "qdisc add dev eth1 root handle 1: htb default 100 r2q 10", "add qdisc 1:"},
		{Op{Verb: Delete, Object: root}, "qdisc delete dev eth1 root handle 1:", "delete qdisc 1:"},
		{Op{Verb: Replace, Object: leaf}, "qdisc replace dev eth1 parent 1:10 handle b010: pfifo limit 3000", "replace qdisc b010:"},
		{Op{Verb: Add, Object: Qdisc{Parent: class.ID, Kind: KindFQCodel}}, "qdisc add dev eth1 parent 1:10 fq_codel", "add qdisc 0:"},
		{Op{Verb: Add, Object: class}, "class add dev eth1 parent 1: classid 1:10 htb prio 1 rate 819200kbit ceil 1gbit burst 65536b cburst 65536b quantum 60000", "add class 1:10"},
		{Op{Verb: Change, Object: child}, "class change dev eth1 parent 1:10 classid 1:11 htb prio 1 rate 819200kbit ceil 1gbit burst 65536b cburst 65536b quantum 60000", "change class 1:11"},
		{Op{Verb: Delete, Object: class}, "class delete dev eth1 classid 1:10", "delete class 1:10"},
		{Op{Verb: Add, Object: node}, "filter add dev eth1 parent 1: protocol ip pref 12000 handle ::1 u32 match ip dst 10.0.0.1/32 flowid 1:10", "add filter ip pref 12000 ::1 dst 10.0.0.1/32"},
		{Op{Verb: Change, Object: full}, "filter change dev eth1 parent 1: protocol ip pref 12000 handle 801::1 u32 flowid 1:10", "change filter ip pref 12000 801::1 dst 10.0.0.1/32"},
		{Op{Verb: Delete, Object: full}, "filter delete dev eth1 parent 1: protocol ip pref 12000 handle 801::1 u32", "delete filter ip pref 12000 801::1 dst 10.0.0.1/32"},
		{Op{Verb: Add, Object: v6}, "filter add dev eth1 parent 1: protocol ipv6 pref 13064 handle ::1 u32 match ip6 dst 2001:db8::/64 flowid 1:10", "add filter ipv6 pref 13064 ::1 dst 2001:db8::/64"},
		{Op{Verb: Add, Object: arp}, "filter add dev eth1 parent 1: protocol arp pref 11000 handle ::1 u32 match u32 0 0 flowid 1:ffff", "add filter arp pref 11000 ::1"},
		{Op{Verb: Add, Object: table}, "filter add dev eth1 parent 1: protocol ip pref 12000 handle 2: u32 divisor 256", "add filter ip pref 12000 2:"},
		{Op{Verb: Add, Object: inTable}, "filter add dev eth1 parent 1: protocol ip pref 12000 handle 2:1f:3 u32 ht 2:1f: match ip dst 10.0.0.1/32 flowid 1:10", "add filter ip pref 12000 2:1f:3 dst 10.0.0.1/32"},
		{Op{Verb: Add, Object: link}, "filter add dev eth1 parent 1: protocol ip pref 12000 handle 800::5 u32 ht 800: match u32 0x0a010000 0xffff0000 at 12 hashkey mask 0x000000ff at 16 link 2:", "add filter ip pref 12000 800::5 link 2:"},
		{Op{Verb: Delete, Object: flower}, "filter delete dev eth1 parent 1: protocol all pref 5 handle 0x1 flower", "delete filter all pref 5 0x1"},
	} {
		if got := test.op.TC("eth1"); got != test.line {
			t.Errorf("TC:\ngot  %s\nwant %s", got, test.line)
		}
		if got := test.op.String(); got != test.text {
			t.Errorf("String() = %q, want %q", got, test.text)
		}
	}
}

func prefixes() *rapid.Generator[netip.Prefix] {
	return rapid.Custom(func(t *rapid.T) netip.Prefix {
		size := rapid.SampledFrom([]int{4, 16}).Draw(t, "size")
		a, _ := netip.AddrFromSlice(rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, "address"))
		return netip.PrefixFrom(a, rapid.IntRange(0, size*8).Draw(t, "bits")).Masked()
	})
}

func protocolOf(p netip.Prefix) Protocol {
	if p.Addr().Is4() {
		return ProtocolIP
	}
	return ProtocolIPv6
}

// TestDestinationRoundTrip: the keys of a prefix are read back as that prefix, and match exactly the addresses in it.
func TestDestinationRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := prefixes().Draw(t, "prefix")
		f := Filter{Protocol: protocolOf(p), Kind: KindU32, Handle: 1, Sel: MatchDestination(p)}
		if got, ok := f.Destination(); !ok || got != p {
			t.Fatalf("%s reads back as %s, %v", p, got, ok)
		}
		address := p.Addr().AsSlice()
		if i := rapid.IntRange(0, len(address)*8-1).Draw(t, "bit"); rapid.Bool().Draw(t, "flip") {
			address[i/8] ^= 1 << (7 - i%8)
		}
		a, _ := netip.AddrFromSlice(address)
		base := map[bool]int32{true: 16, false: 24}[p.Addr().Is4()]
		matched := true
		for _, k := range f.Sel.Keys {
			matched = matched && (binary.BigEndian.Uint32(address[k.Off-base:])^k.Value)&k.Mask == 0
		}
		if matched != p.Contains(a) {
			t.Fatalf("the keys of %s match %s: %v", p, a, matched)
		}
	})
}

func TestDestinationRefuses(t *testing.T) {
	good := MatchDestination(netip.MustParsePrefix("10.1.0.0/16"))
	long := MatchDestination(netip.MustParsePrefix("2001:db8::/40"))
	for name, f := range map[string]Filter{
		"source":           {Protocol: ProtocolIP, Sel: Selector{Keys: []Key{{Mask: 0xffff0000, Value: 0x0a010000, Off: 12}}}},
		"mask with a hole": {Protocol: ProtocolIP, Sel: Selector{Keys: []Key{{Mask: 0xff00ff00, Value: 0x0a000100, Off: 16}}}},
		"host bits":        {Protocol: ProtocolIP, Sel: Selector{Keys: []Key{{Mask: 0xffff0000, Value: 0x0a010001, Off: 16}}}},
		"two keys":         {Protocol: ProtocolIP, Sel: Selector{Keys: []Key{good.Keys[0], {Mask: 0xff, Value: 1, Off: 20}}}},
		"empty mask":       {Protocol: ProtocolIP, Sel: Selector{Keys: []Key{{Off: 16}}}},
		"offset mask":      {Protocol: ProtocolIP, Sel: Selector{Keys: []Key{{Mask: good.Keys[0].Mask, Value: good.Keys[0].Value, Off: 16, OffMask: -1}}}},
		"arp":              {Protocol: ProtocolARP, Sel: good},
		"v4 keys in ipv6":  {Protocol: ProtocolIPv6, Sel: good},
		"wrong order":      {Protocol: ProtocolIPv6, Sel: Selector{Keys: []Key{long.Keys[1], long.Keys[0]}}},
		"gap":              {Protocol: ProtocolIPv6, Sel: Selector{Keys: []Key{{Mask: 0xffff0000, Value: 0x20010000, Off: 24}, long.Keys[1]}}},
	} {
		if d, ok := f.Destination(); ok {
			t.Errorf("%s: read as %s", name, d)
		}
	}
}

// TestMatchID: equal for equal matches only.
func TestMatchID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q := prefixes().Draw(t, "p"), prefixes().Draw(t, "q")
		if protocolOf(p) == protocolOf(q) && (MatchDestination(p).MatchID() == MatchDestination(q).MatchID()) != (p == q) {
			t.Fatalf("%s and %s", p, q)
		}
	})
	a := MatchDestination(netip.MustParsePrefix("10.0.0.0/8"))
	for name, change := range map[string]func(*Selector){
		"flags": func(s *Selector) { s.Flags = 0 }, "off": func(s *Selector) { s.Off = 4 }, "offoff": func(s *Selector) { s.OffOff = -4 },
		"offmask": func(s *Selector) { s.OffMask = 1 }, "offshift": func(s *Selector) { s.OffShift = 1 },
		"key offmask": func(s *Selector) { s.Keys[0].OffMask = 1 }, "key off": func(s *Selector) { s.Keys[0].Off = 12 },
	} {
		b := a
		b.Keys = slices.Clone(a.Keys)
		change(&b)
		if a.MatchID() == b.MatchID() {
			t.Errorf("%s: not told apart", name)
		}
	}
	all, tcAll := Selector{Flags: U32Terminal}, Selector{Flags: U32Terminal, Keys: []Key{{}}}
	if all.MatchID() != tcAll.MatchID() {
		t.Error("tc's match u32 0 0 is not the match of everything")
	}
	linked := a
	linked.HMask, linked.HOff = 0xff, 16
	if a.MatchID() != linked.MatchID() {
		t.Error("the hash key of a link is taken for a match")
	}
}

func TestSameParameters(t *testing.T) {
	a := Class{ID: 0x10010, Parent: Root, Rate: 8, Ceil: 8, Buffer: 1, Cbuffer: 1, Quantum: 1}
	b := a
	b.Leaf, b.Level, b.Parent = 1, 7, 0x10001
	if !a.SameParameters(b) {
		t.Error("what a change cannot set counts as a parameter")
	}
	for _, change := range []func(*Class){
		func(c *Class) { c.Prio++ }, func(c *Class) { c.Rate += 8 }, func(c *Class) { c.Ceil += 8 },
		func(c *Class) { c.Buffer++ }, func(c *Class) { c.Cbuffer++ }, func(c *Class) { c.Quantum++ },
	} {
		c := a
		change(&c)
		if a.SameParameters(c) {
			t.Errorf("%+v and %+v", a, c)
		}
	}
}

func TestRootQdisc(t *testing.T) {
	s := State{Qdiscs: []Qdisc{{Handle: LeafHandle(1), Parent: MakeHandle(1, 1)}, {Handle: MakeHandle(1, 0), Parent: Root}}}
	if q, ok := s.RootQdisc(); !ok || q.Handle != MakeHandle(1, 0) {
		t.Errorf("RootQdisc() = %v, %v", q, ok)
	}
	if _, ok := (State{}).RootQdisc(); ok {
		t.Error("a state without qdiscs has a root")
	}
}

func TestProtocolString(t *testing.T) {
	for p, want := range map[Protocol]string{
		ProtocolAll: "all", ProtocolIP: "ip", ProtocolARP: "arp", ProtocolVLAN: "802.1q", ProtocolIPv6: "ipv6", ProtocolQinQ: "802.1ad", 0x88cc: "0x88cc",
	} {
		if got := p.String(); got != want {
			t.Errorf("Protocol(%#x) is %q, want %q", uint16(p), got, want)
		}
	}
}
