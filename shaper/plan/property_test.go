package plan_test

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bulkshaper/shaper/fakekernel"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/u32"
)

var names = []string{"a", "b", "c", "d", "e"}

// inputs are valid ones: a class has no parent but of those before it, and only leaves have destinations.
func inputs() *rapid.Generator[input] {
	return rapid.Custom(func(t *rapid.T) input {
		in := incident()
		in.classes, in.destinations = nil, nil
		in.config.Layout = rapid.SampledFrom([]string{plan.LayoutList, plan.LayoutHash}).Draw(t, "layout")
		in.facts.Link.Tags = slices.Clone(rapid.SampledFrom([][]tc.Protocol{nil, {tc.ProtocolVLAN}, {tc.ProtocolQinQ}, plan.Tags()}).Draw(t, "tags"))
		inner := map[string]bool{}
		ids := rapid.Permutation([]uint16{1, 0x10, 0x20, 0x999, 0xfffe}).Draw(t, "ids")
		for i, name := range names[:rapid.IntRange(1, len(names)).Draw(t, "classes")] {
			c := policy.Class{Name: name, ID: ids[i], Prio: rapid.Uint32Range(0, 7).Draw(t, "prio")}
			c.Rate = tc.BitRate(rapid.Uint64Range(1, 50e9).Draw(t, "rate") * 8)
			c.Ceil = c.Rate + tc.BitRate(rapid.Uint64Range(0, 10e9).Draw(t, "more")*8)
			if parent := rapid.IntRange(-3, i-1).Draw(t, "parent"); parent >= 0 {
				c.Parent = names[parent]
				inner[c.Parent] = true
			}
			in.classes = append(in.classes, c)
		}
		var leaves []string
		for _, c := range in.classes {
			if !inner[c.Name] {
				leaves = append(leaves, c.Name)
			}
		}
		in.classes = rapid.Permutation(in.classes).Draw(t, "order")
		in.config.DefaultClass = rapid.SampledFrom(leaves).Draw(t, "default")
		seen := map[netip.Prefix]bool{}
		for range rapid.IntRange(0, 12).Draw(t, "destinations") {
			p := prefix().Draw(t, "prefix")
			if !seen[p] {
				seen[p] = true
				in.destinations = append(in.destinations, policy.Destination{Prefix: p, Server: p.String(), Class: rapid.SampledFrom(leaves).Draw(t, "class")})
			}
		}
		return in
	})
}

// address is one of few, so that prefixes nest.
func address() *rapid.Generator[netip.Addr] {
	return rapid.Custom(func(t *rapid.T) netip.Addr {
		b := rapid.SampledFrom([]byte{0, 1, 2, 0xff}).Draw(t, "byte")
		if rapid.Bool().Draw(t, "v6") {
			return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 7: b, 15: b})
		}
		return netip.AddrFrom4([4]byte{10, 0, b, rapid.SampledFrom([]byte{0, 1, 0x80, 0xff}).Draw(t, "last")})
	})
}

func prefix() *rapid.Generator[netip.Prefix] {
	return rapid.Custom(func(t *rapid.T) netip.Prefix {
		a := address().Draw(t, "address")
		lengths := []int{32, 32, 31, 24, 16, 0}
		if a.Is6() {
			lengths = []int{128, 128, 127, 64, 33, 0}
		}
		return netip.PrefixFrom(a, rapid.SampledFrom(lengths).Draw(t, "bits")).Masked()
	})
}

// TestPlanIsConsistent: whatever the input, every object refers to one that stands before it, and nothing occurs twice.
func TestPlanIsConsistent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := inputs().Draw(t, "input")
		p, err := in.build()
		if err != nil {
			t.Fatal(err)
		}
		classes, handles := map[tc.Handle]plan.Class{}, map[tc.Handle]bool{tc.Root: true, p.Root.Handle: true}
		counted := 0
		for _, c := range p.Classes {
			parent, ok := classes[c.Class.Parent]
			if c.Class.Parent != tc.Root && (!ok || parent.Leaf != nil) {
				t.Fatalf("class %s below %s", c.Name, c.Class.Parent)
			}
			if _, twice := classes[c.Class.ID]; twice {
				t.Fatalf("two classes %s", c.Class.ID)
			}
			classes[c.Class.ID] = c
			counted += c.Destinations
			if c.Leaf != nil {
				if handles[c.Leaf.Handle] || c.Leaf.Parent != c.Class.ID {
					t.Fatalf("leaf %+v", c.Leaf)
				}
				handles[c.Leaf.Handle] = true
			}
		}
		if p.Default().Name != in.config.DefaultClass || p.Default().Class.ID.Minor() != uint16(p.Root.HTB.Default) {
			t.Fatalf("default: %+v, %+v", p.Default(), p.Root)
		}
		if counted != len(in.destinations) || len(p.Filters) != 4+counted+withTag(p) {
			t.Fatalf("%d destinations, %d filters, %d counted", len(in.destinations), len(p.Filters), counted)
		}
		matches := map[string]bool{}
		for i, f := range p.Filters {
			if i > 0 && f.Pref < p.Filters[i-1].Pref {
				t.Fatal("prefs out of order")
			}
			if protocol, own := plan.OwnPref(f.Pref); !own || protocol != f.Protocol || classes[f.ClassID].Leaf == nil || f.Parent != p.Root.Handle {
				t.Fatalf("filter %s", f.Ident())
			}
			key := string(rune(f.Pref)) + f.Sel.MatchID()
			if matches[key] {
				t.Fatalf("filter %s twice", f.Ident())
			}
			matches[key] = true
		}
	})
}

// withTag is how many filters there are for packets with a tag; in layout hash those for destinations are not in the plan.
func withTag(p *plan.Plan) int {
	if p.Layout == plan.LayoutHash {
		return 4 * len(p.Tags)
	}
	return (4 + len(p.Destinations)) * len(p.Tags)
}

// TestInstallation: the fake kernel takes every operation, holds the plan afterwards, and does with each address what the
// destinations say. At no point does an address with a filter go to another class than its own: until then it goes out directly.
func TestInstallation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := inputs().Draw(t, "input").build()
		if err != nil {
			t.Fatal(err)
		}
		// A shorter prefix's class is that of the old plan for nobody: take the addresses that only one prefix covers.
		var addresses []netip.Addr
		for range 5 {
			addresses = append(addresses, address().Draw(t, "address"))
		}
		link := tc.Link{Index: 1, Name: "eth1", MTU: 1500, TxQueueLen: 1000}
		k := fakekernel.New(link)
		ops := install(t, p)
		for i, op := range ops {
			if r := k.Apply(t.Context(), link, []tc.Op{op}); r[0].Err != nil {
				t.Fatalf("%s: %v", op, r[0].Err)
			}
			if class, ok := op.Object.(tc.Class); ok && class.ID == p.Default().Class.ID && i != len(ops)-2 {
				t.Fatal("the default class is not last")
			}
			for _, a := range addresses {
				want, covers := verdict(p, a)
				packet, protocol := u32.Packet(a)
				for _, protocol := range append(slices.Clone(p.Tags), protocol) {
					got := k.Classify(packet, protocol)
					if i == len(ops)-1 && got != want || got != fakekernel.Direct && got != want && covers < 2 {
						t.Fatalf("after operation %d (%s) %s as %s goes to %s, wanted %s", i, op, a, protocol, got, want)
					}
				}
			}
		}
		s, err := k.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range p.Classes {
			i := slices.IndexFunc(s.Classes, func(h tc.Class) bool { return h.ID == c.Class.ID })
			if h := s.Classes[i]; h.Parent != c.Class.Parent || !h.SameParameters(c.Class) || c.Leaf != nil && h.Leaf != c.Leaf.Handle {
				t.Fatalf("stands %+v, wanted %+v", h, c)
			}
		}
	})
}

// verdict is the class of the longest destination that covers a, and how many do.
func verdict(p *plan.Plan, a netip.Addr) (tc.Handle, int) {
	best, name, covers := -1, p.Default().Name, 0
	for _, d := range p.Destinations {
		if d.Prefix.Contains(a) {
			covers++
			if d.Prefix.Bits() > best {
				best, name = d.Prefix.Bits(), d.Class
			}
		}
	}
	i := slices.IndexFunc(p.Classes, func(c plan.Class) bool { return c.Name == name })
	return p.Classes[i].Class.ID, covers
}

// TestControlTraffic: ARP and neighbour discovery go to the control class, whatever the destinations are; other ICMPv6 does not.
func TestControlTraffic(t *testing.T) {
	in := incident()
	in.facts.Link.Tags = plan.Tags()
	in.destinations = append(in.destinations, to("::/0", "", "cross-cabinet"), to("0.0.0.0/0", "", "cross-cabinet"))
	p, err := in.build()
	if err != nil {
		t.Fatal(err)
	}
	var filters []tc.Filter
	for _, op := range install(t, p) {
		if f, ok := op.Object.(tc.Filter); ok {
			filters = append(filters, f)
		}
	}
	control, other := tc.MakeHandle(1, 0xffff), tc.MakeHandle(1, 0x20)
	icmp := func(hops, kind byte) []byte {
		packet, _ := u32.Packet(netip.MustParseAddr("ff02::1"))
		packet[6], packet[7], packet[40] = 58, hops, kind
		return packet
	}
	arp := append([]byte{0, 1, 8, 0, 6, 4, 0, 1}, make([]byte, 20)...) // Ethernet, IPv4, 6 and 4 bytes, a request
	for _, protocol := range append(plan.Tags(), tc.ProtocolARP) {
		if got := u32.Classify(filters, arp, protocol); got.ClassID != control {
			t.Errorf("ARP as %s goes to %s", protocol, got.ClassID)
		}
	}
	for _, protocol := range append(plan.Tags(), tc.ProtocolIPv6) {
		for kind := range 256 {
			want := other
			if kind >= 133 && kind <= 137 {
				want = control
			}
			if got := u32.Classify(filters, icmp(255, byte(kind)), protocol); got.ClassID != want {
				t.Errorf("ICMPv6 type %d as %s goes to %s", kind, protocol, got.ClassID)
			}
		}
		if got := u32.Classify(filters, icmp(64, 135), protocol); got.ClassID != other {
			t.Errorf("a solicitation that a router let through goes as %s to %s", protocol, got.ClassID)
		}
		// A packet that ends with its header is beyond the neighbour discovery keys, and goes on to the destinations.
		if got := u32.Classify(filters, icmp(255, 135)[:40], protocol); got.ClassID != other {
			t.Errorf("a bare IPv6 header goes as %s to %s", protocol, got.ClassID)
		}
	}
}
