package words

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
)

func id(minor uint16) tc.Handle { return tc.MakeHandle(tc.Major, minor) }

func host(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32)
}

// example is a plan of two classes and n destinations in the first of them.
func example(n int) *plan.Plan {
	leaf := tc.Qdisc{Handle: tc.LeafHandle(0x20), Parent: id(0x20), Kind: tc.KindFQCodel}
	p := &plan.Plan{Interface: "eth1", Node: "n", Classes: []plan.Class{{Name: "cross-cabinet", Class: tc.Class{ID: id(0x20), Parent: tc.Root}, Leaf: &leaf}, {Name: "default", Class: tc.Class{ID: id(0x100), Parent: tc.Root}}}}
	for i := range n {
		p.Destinations = append(p.Destinations, policy.Destination{Prefix: host(i), Server: fmt.Sprintf("s%d", i), Rule: "bulk", Class: "cross-cabinet"})
	}
	return p
}

func node(i int, handle tc.U32Handle, class tc.Handle) tc.Filter {
	return tc.Filter{Parent: tc.MakeHandle(tc.Major, 0), Pref: plan.PrefHashIPv4, Protocol: tc.ProtocolIP, Kind: tc.KindU32, Handle: handle, ClassID: class, Sel: tc.MatchDestination(host(i))}
}

// TestEachOperationInWords has one line for each thing that an operation can be, with a name beside every handle.
func TestEachOperationInWords(t *testing.T) {
	t.Parallel()
	p := example(3)
	at := func(n uint32) tc.U32Handle { return tc.MakeU32Handle(2, 1, n) }
	have := tc.State{Filters: []tc.Filter{node(0, at(1), id(0x100)), node(1, at(2), id(0x20)), node(2, at(3), id(0x77))}}
	link := tc.Filter{Pref: plan.PrefHashIPv4, Protocol: tc.ProtocolIP, Kind: tc.KindU32, Handle: tc.MakeU32Handle(0x800, 0, 1), Link: tc.MakeU32Handle(2, 0, 0)}
	arp := tc.Filter{Pref: plan.PrefARP, Protocol: tc.ProtocolARP, Kind: tc.KindU32, Handle: tc.MakeU32Handle(0x800, 0, 1), ClassID: id(0x100)}
	ack := tc.Filter{Pref: plan.PrefAckIPv6, Protocol: tc.ProtocolIPv6, Kind: tc.KindU32, Handle: tc.MakeU32Handle(0x800, 0, 1), ClassID: id(0x20)}
	taggedAck := ack
	taggedAck.Sel.Keys = []tc.Key{{Mask: 0xffc0ff00, Value: 6 << 8, Off: 4}}
	taggedAck = plan.BehindTag(taggedAck, tc.ProtocolQinQ)
	odd := tc.Filter{Pref: plan.PrefHashIPv4, Protocol: tc.ProtocolIP, Kind: tc.KindU32, Handle: at(9), ClassID: id(0x20), Sel: tc.Selector{Keys: []tc.Key{{Mask: 0xff, Off: 20}}}}
	for name, c := range map[string]struct {
		ops  []tc.Op
		want string
	}{
		"root":            {[]tc.Op{{Verb: tc.Delete, Object: tc.Qdisc{Parent: tc.Root, Handle: tc.MakeHandle(0x42, 0), Kind: "htb"}, Why: "rebuild: x"}}, "remove root qdisc htb 42: rebuild: x"},
		"class":           {[]tc.Op{{Verb: tc.Change, Object: p.Classes[0].Class, Why: "rate is 1mbit, wanted 2mbit"}}, "change cross-cabinet 1:20: rate is 1mbit, wanted 2mbit"},
		"foreign class":   {[]tc.Op{{Verb: tc.Delete, Object: tc.Class{ID: id(0x77)}, Why: "w"}}, "remove class 1:77 (not in the plan): w"},
		"queue":           {[]tc.Op{{Verb: tc.Add, Object: *p.Classes[0].Leaf, Why: "w"}}, "add queue of cross-cabinet (fq_codel b020:): w"},
		"misplaced queue": {[]tc.Op{{Verb: tc.Delete, Object: tc.Qdisc{Handle: tc.MakeHandle(0x99, 0), Parent: id(0x20), Kind: "sfq"}, Why: "w"}}, "remove queue of cross-cabinet 1:20 (sfq 99:): w"},
		"table":           {[]tc.Op{{Verb: tc.Add, Object: tc.Filter{Kind: tc.KindU32, Handle: tc.MakeU32Handle(2, 0, 0), Divisor: 256}}}, "add hash table 2: of 256 buckets: not there"},
		"link":            {[]tc.Op{{Verb: tc.Add, Object: link}}, "add link to hash table 2: another shape of the tables finds the destinations faster"},
		"ARP":             {[]tc.Op{{Verb: tc.Add, Object: arp}}, "add ARP to default 1:100: not there: without it they would wait behind bulk"},
		"ack":             {[]tc.Op{{Verb: tc.Add, Object: ack}}, "add TCP acknowledgements by IPv6 to cross-cabinet 1:20: not there: without it they would wait behind bulk"},
		"tagged ARP":      {[]tc.Op{{Verb: tc.Add, Object: plan.BehindTag(arp, tc.ProtocolVLAN)}}, "add ARP behind a tag of 802.1q to default 1:100: not there: without it they would wait behind bulk"},
		"tagged ack":      {[]tc.Op{{Verb: tc.Add, Object: taggedAck}}, "add TCP acknowledgements behind a tag of 802.1ad to cross-cabinet 1:20: not there: without it they would wait behind bulk"},
		"tagged link":     {[]tc.Op{{Verb: tc.Add, Object: plan.BehindTag(link, tc.ProtocolVLAN)}}, "add link to hash table 2: behind a tag of 802.1q: not there"},
		"tagged":          {[]tc.Op{{Verb: tc.Add, Object: plan.BehindTag(node(0, at(1), id(0x20)), tc.ProtocolVLAN)}}, "add s0 10.0.0.0 behind a tag of 802.1q to cross-cabinet 1:20: by rule bulk; the kernel has no filter for it"},
		"ack of nobody":   {[]tc.Op{{Verb: tc.Delete, Object: ack, Why: "not wanted at our pref"}}, "remove TCP acknowledgements by IPv6 to cross-cabinet 1:20: not wanted at our pref"},
		"wait":            {[]tc.Op{{Verb: tc.Change, Object: p.Classes[1].Class, Barrier: true, Why: "links wait"}}, "wait for packets under way: links wait"},
		"added":           {[]tc.Op{{Verb: tc.Add, Object: node(0, at(1), id(0x20))}}, "add s0 10.0.0.0 to cross-cabinet 1:20: by rule bulk; the kernel has no filter for it"},
		"removed":         {[]tc.Op{{Verb: tc.Delete, Object: node(9, at(1), id(0x20))}}, "remove 10.0.0.9 from cross-cabinet 1:20: nothing asks for it"},
		"twice":           {[]tc.Op{{Verb: tc.Delete, Object: node(1, at(1), id(0x20))}}, "remove s1 10.0.0.1 from cross-cabinet 1:20: a second filter for it"},
		"moved":           {[]tc.Op{{Verb: tc.Change, Object: node(0, at(1), id(0x20))}}, "move s0 10.0.0.0 from default 1:100 to cross-cabinet 1:20: by rule bulk"},
		"moved and filed elsewhere": {[]tc.Op{{Verb: tc.Add, Object: node(0, at(7), id(0x20))}, {Verb: tc.Delete, Object: node(0, at(1), id(0x100))}},
			"move s0 10.0.0.0 from default 1:100 to cross-cabinet 1:20: by rule bulk"},
		"filed elsewhere": {[]tc.Op{{Verb: tc.Add, Object: node(1, at(7), id(0x20))}, {Verb: tc.Delete, Object: node(1, at(2), id(0x20))}},
			"refile s1 10.0.0.1 of cross-cabinet 1:20: another place in the tables, the class stays"},
		"bound again": {[]tc.Op{{Verb: tc.Change, Object: node(1, at(2), id(0x20))}}, "bind s1 10.0.0.1 to cross-cabinet 1:20: that class is made again, and the filter does not follow by itself"},
		"detour": {[]tc.Op{{Verb: tc.Change, Object: node(1, at(2), id(0x100))}, {Verb: tc.Change, Object: node(1, at(2), id(0x20))}},
			"detour s1 10.0.0.1 of cross-cabinet 1:20: its class is made again below another parent; until then the default class"},
		"no destination": {[]tc.Op{{Verb: tc.Delete, Object: odd}}, "remove a filter that matches no destination, filter ip pref 11100 2:1:9 from cross-cabinet 1:20: nothing asks for it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines := NamesOf(p, have).Summary(c.ops, 10)
			if len(lines) != 1 || lines[0].String() != c.want {
				t.Errorf("got %v\nwant %s", lines, c.want)
			}
		})
	}
}

// TestManyAreOneLine a kind, classes and reason; what is not hitless stands apart.
func TestManyAreOneLine(t *testing.T) {
	t.Parallel()
	var ops []tc.Op
	for i := range 10_000 {
		to := id(0x20)
		if i%100 == 0 {
			to = id(0x100)
		}
		ops = append(ops, tc.Op{Verb: tc.Add, Object: node(i, tc.MakeU32Handle(1, uint32(i%256), uint32(i/256+1)), to), Hitless: i != 7})
	}
	ops = append(ops, tc.Op{Verb: tc.Add, Object: *example(0).Classes[0].Leaf, Why: "w", Hitless: true})
	got := NamesOf(example(10_000), tc.State{}).Summary(ops, 20)
	var text []string
	for _, l := range got {
		text = append(text, fmt.Sprint(l.Count, " ", l.Hitless, " ", l))
	}
	want := []string{
		"1 true add queue of cross-cabinet (fq_codel b020:): w",
		"9899 true add 9899 destinations to cross-cabinet 1:20 (s1 10.0.0.1, s2 10.0.0.2, s3 10.0.0.3 ...): by rule bulk; the kernel has no filter for it",
		"100 true add 100 destinations to default 1:100 (s0 10.0.0.0, s100 10.0.0.100, s200 10.0.0.200 ...): by rule bulk; the kernel has no filter for it",
		"1 false add s7 10.0.0.7 to cross-cabinet 1:20: by rule bulk; the kernel has no filter for it",
	}
	if strings.Join(text, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(text, "\n"), strings.Join(want, "\n"))
	}
}
