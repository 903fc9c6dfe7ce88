package diff_test

import (
	"strings"
	"testing"

	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/fakekernel"
	"bulkshaper/shaper/tc"
)

// edit gives the index-th class or destination of s another text.
func edit(s spec, classes, destinations map[int]string) spec {
	s.classes, s.destinations = append([]string{}, s.classes...), append([]string{}, s.destinations...)
	for i, text := range classes {
		s.classes[i] = text
	}
	for i, text := range destinations {
		s.destinations[i] = text
	}
	return s
}

// The filters of base: arp 800:, neighbour discovery 801:, /32 802: (10.0.0.1, 10.0.0.2, 10.0.9.9), /24 803:, v6 /128 804:.
func TestCompute(t *testing.T) {
	full := node(12000, 0x802, 1, "10.0.0.1/32", id(0x10))
	v6 := node(13000, 0x804, 1, "2001:db8::1/128", id(0x10))
	for _, test := range []struct {
		name   string
		want   spec
		meddle []tc.Op
		ops    string
	}{
		{"nothing", base(), nil, ""},
		{"one server's cabinet", edit(base(), nil, map[int]string{0: "10.0.0.1/32 c20"}), nil,
			"change filter ip pref 12000 802::1 dst 10.0.0.1/32: filter for s10.0.0.1/32 leads to 1:10 (c10), wanted 1:20 (c20)\n"},
		{"a server's address", edit(base(), nil, map[int]string{0: "10.0.0.7/32 c10"}), nil,
			"add filter ip pref 12000 ::4 dst 10.0.0.7/32: filter for s10.0.0.7/32 is not there\n" +
				"delete filter ip pref 12000 802::1 dst 10.0.0.1/32: not wanted at our pref\n"},
		{"a rate", edit(base(), map[int]string{1: "c10 40mbit"}, nil), nil,
			"change class 1:10: rate is 80mbit, wanted 40mbit, ceil is 80mbit, wanted 40mbit\n" +
				"change qdisc b010:: limit is 330, wanted 165\n"},
		{"a new class", spec{classes: append(base().classes, "c30 8mbit"), destinations: append(base().destinations, "10.1.0.0/16 c30")}, nil,
			"add class 1:30: class c30 is not there\nadd qdisc b030:: class c30 has no queue yet\n" +
				"add filter ip pref 12016 ::1 dst 10.1.0.0/16: filter for s10.1.0.0/16 is not there\n"},
		{"a class less", spec{classes: base().classes[:2], destinations: []string{"10.0.0.1/32 c10", "10.0.0.2/32 c10", "2001:db8::1/128 c10", "10.0.9.9/32 c100"}}, nil,
			"change filter ip pref 12000 802::2 dst 10.0.0.2/32: filter for s10.0.0.2/32 leads to 1:20, wanted 1:10 (c10)\n" +
				"delete filter ip pref 12008 803::1 dst 10.0.0.0/24: not wanted at our pref\n" +
				"delete class 1:20: class 1:20 is not wanted: packets in its queue are dropped [not hitless]\n"},
		{"another kind of leaf", spec{classes: base().classes, destinations: base().destinations, leaf: "bfifo"}, nil,
			"replace qdisc b010:: the queue of class c10 is pfifo b010:, wanted bfifo b010:: packets in it are dropped [not hitless]\n" +
				"replace qdisc b020:: the queue of class c20 is pfifo b020:, wanted bfifo b020:: packets in it are dropped [not hitless]\n" +
				"replace qdisc 4fff:: the queue of class control is pfifo 4fff:, wanted bfifo 4fff:: packets in it are dropped [not hitless]\n" +
				"replace qdisc b100:: the queue of class c100 is pfifo b100:, wanted bfifo b100:: packets in it are dropped [not hitless]\n"},
		{"a filter deleted", base(), []tc.Op{remove(full)},
			"add filter ip pref 12000 ::1 dst 10.0.0.1/32: filter for s10.0.0.1/32 is not there\n"},
		{"a filter changed", base(), []tc.Op{{Verb: tc.Change, Object: node(12000, 0x802, 1, "10.0.0.1/32", id(0x99))}},
			"change filter ip pref 12000 802::1 dst 10.0.0.1/32: filter for s10.0.0.1/32 leads to 1:99, wanted 1:10 (c10)\n"},
		{"a filter twice", base(), []tc.Op{add(node(12000, 0, 0x800, "10.0.0.1/32", id(0x20)))},
			"delete filter ip pref 12000 802::800 dst 10.0.0.1/32: not wanted at our pref\n"},
		{"a filter twice, the wrong one first", edit(base(), nil, map[int]string{0: "10.0.0.1/32 c20"}), []tc.Op{add(node(12000, 0, 0x800, "10.0.0.1/32", id(0x20)))},
			"change filter ip pref 12000 802::1 dst 10.0.0.1/32: filter for s10.0.0.1/32 leads to 1:10 (c10), wanted 1:20 (c20)\n" +
				"delete filter ip pref 12000 802::800 dst 10.0.0.1/32: not wanted at our pref\n"},
		{"a leaf deleted", base(), []tc.Op{remove(tc.Qdisc{Parent: id(0x10)})},
			"add qdisc b010:: class c10 has no queue of ours [not hitless]\n"},
		{"a leaf replaced", base(), []tc.Op{{Verb: tc.Replace, Object: tc.Qdisc{Parent: id(0x10), Handle: tc.MakeHandle(0x99, 0), Kind: tc.KindPFIFO, Limit: 1}}},
			"replace qdisc b010:: the queue of class c10 is pfifo 99:, wanted pfifo b010:: packets in it are dropped [not hitless]\n"},
		{"a leaf's limit", base(), []tc.Op{{Verb: tc.Change, Object: tc.Qdisc{Parent: id(0x10), Handle: tc.LeafHandle(0x10), Kind: tc.KindPFIFO, Limit: 1}}},
			"change qdisc b010:: limit is 1, wanted 330\n"},
		{"leaves swapped", base(), []tc.Op{remove(tc.Qdisc{Parent: id(0x10)}), remove(tc.Qdisc{Parent: id(0x20)}),
			add(tc.Qdisc{Parent: id(0x10), Handle: tc.LeafHandle(0x20), Kind: tc.KindPFIFO, Limit: 82}),
			add(tc.Qdisc{Parent: id(0x20), Handle: tc.LeafHandle(0x10), Kind: tc.KindPFIFO, Limit: 330})},
			"delete qdisc b020:: handle b020: belongs below class 1:20 (c20) [not hitless]\n" +
				"delete qdisc b010:: handle b010: belongs below class 1:10 (c10) [not hitless]\n" +
				"add qdisc b010:: class c10 has no queue of ours [not hitless]\nadd qdisc b020:: class c20 has no queue of ours [not hitless]\n"},
		{"class parameters", base(), []tc.Op{{Verb: tc.Change, Object: tc.Class{ID: id(0x10), Parent: tc.Root, Rate: 80e6, Ceil: 80e6, Buffer: 1, Cbuffer: 102400, Prio: 3, Quantum: 1000}}},
			"change class 1:10: prio is 3, wanted 0, burst is 0 bytes, wanted 65600, cburst is 65536 bytes, wanted 65600, quantum is 1000, wanted 200000\n"},
		{"the default class deleted", base(), []tc.Op{{Verb: tc.Change, Object: node(12000, 0x802, 3, "10.0.9.9/32", 0)}, remove(class(0x100, tc.Root))},
			"add class 1:100: class c100, the default, is not there\nadd qdisc b100:: class c100 has no queue yet\n" +
				"change filter ip pref 12000 802::3 dst 10.0.9.9/32: filter for s10.0.9.9/32 leads to 0:, wanted 1:100 (c100)\n"},
		{"a class deleted, its filters standing", base(), []tc.Op{ // unbound, made again, deleted: the filters still name it
			{Verb: tc.Change, Object: node(12000, 0x802, 1, "10.0.0.1/32", 0)}, {Verb: tc.Change, Object: node(13000, 0x804, 1, "2001:db8::1/128", 0)},
			remove(class(0x10, tc.Root)), {Verb: tc.Change, Object: full}, {Verb: tc.Change, Object: v6}},
			"add class 1:10: class c10 is not there\nadd qdisc b010:: class c10 has no queue yet\n" +
				"change filter ip pref 12000 802::1 dst 10.0.0.1/32: bind to class 1:10 (c10) made again\n" +
				"change filter ipv6 pref 13000 804::1 dst 2001:db8::1/128: bind to class 1:10 (c10) made again\n"},
		{"a foreign class and filter", base(), []tc.Op{add(class(0x777, tc.Root)), add(node(5, 0, 1, "10.0.0.1/32", id(0x777)))}, ""},
		{"a class that a foreign filter holds", spec{classes: base().classes[:2]}, []tc.Op{add(node(5, 0, 1, "10.0.0.0/8", id(0x20)))},
			"delete filter ipv6 pref 13000 804::1 dst 2001:db8::1/128: not wanted at our pref\n" +
				"delete filter ip pref 12008 803::1 dst 10.0.0.0/24: not wanted at our pref\n" +
				"delete filter ip pref 12000 802::3 dst 10.0.9.9/32: not wanted at our pref\n" +
				"delete filter ip pref 12000 802::2 dst 10.0.0.2/32: not wanted at our pref\n" +
				"change class 1:ffff: what a packet meets earlier waits until what it would meet behind that is gone\n" +
				"delete filter ip pref 12000 802::1 dst 10.0.0.1/32: not wanted at our pref\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			k := installed(t, base().plan(t))
			meddle(t, k, test.meddle...)
			c := reconcile(t, k, test.want.plan(t), diff.Options{})
			if got := text(c.Ops); got != test.ops || c.Rebuild != "" {
				t.Errorf("rebuild %q, got\n%swant\n%s", c.Rebuild, got, test.ops)
			}
			wantForeign := map[string]string{
				"a foreign class and filter":          "u32 filters of protocol ip at pref 5 (1), ahead of ours, class 1:777, which is not ours",
				"a class that a foreign filter holds": "u32 filters of protocol ip at pref 5 (1), ahead of ours, class 1:20, which a foreign filter leads to",
			}[test.name]
			if got := strings.Join(c.Foreign, ", "); got != wantForeign {
				t.Errorf("foreign: %q", got)
			}
		})
	}
}

// TestMove: a leaf class gets another parent with its filters led to the default class meanwhile.
func TestMove(t *testing.T) {
	old := spec{classes: []string{"c100 20mbit", "c10 80mbit", "c20 8mbit", "c30 80mbit", "c31 8mbit c30"}, destinations: []string{"10.0.0.1/32 c20", "10.0.0.2/32 c10"}}
	s := edit(old, map[int]string{2: "c20 8mbit c30"}, map[int]string{1: "10.0.0.2/32 c20"})
	k := installed(t, old.plan(t))
	c := reconcile(t, k, s.plan(t), diff.Options{})
	want := "change filter ip pref 12000 802::1 dst 10.0.0.1/32: class 1:20 (c20) gets another parent: to the default class 1:100 (c100) until then [not hitless]\n" +
		"delete class 1:20: class c20 is below root, wanted below 1:30 (c30): packets in its queue are dropped [not hitless]\n" +
		"add class 1:20: class c20 under its new parent [not hitless]\nadd qdisc b020:: class c20 has no queue yet [not hitless]\n" +
		"change filter ip pref 12000 802::1 dst 10.0.0.1/32: class 1:20 (c20) has its new parent [not hitless]\n" +
		"change filter ip pref 12000 802::2 dst 10.0.0.2/32: filter for s10.0.0.2/32 leads to 1:10 (c10), wanted 1:20 (c20)\n"
	if got := text(c.Ops); got != want || c.Rebuild != "" {
		t.Errorf("rebuild %q, got\n%swant\n%s", c.Rebuild, got, want)
	}
}

func TestRebuild(t *testing.T) {
	tree := spec{classes: []string{"c100 20mbit", "c10 80mbit", "c20 8mbit c10", "c30 80mbit"}, destinations: []string{"10.0.0.1/32 c20", "10.0.0.2/32 c30"}}
	for want, test := range map[string]struct {
		s      spec
		meddle []tc.Op
	}{
		"the default class is 1:100 (c100) and shall be 1:30 (c30)": {spec{classes: []string{"c30 80mbit", "c10 80mbit", "c20 8mbit c10", "c100 20mbit"}}, nil},
		"class 1:30 (c30) is in use as a leaf and shall have":       {spec{classes: append(tree.classes, "c40 8mbit c30"), destinations: tree.destinations[:1]}, nil},
		"class 1:10 (c10) has classes below it and shall be a leaf": {edit(tree, map[int]string{2: "c20 8mbit"}, nil), nil},
		"class 1:100 (c100) is below root and shall be below 1:10":  {edit(tree, map[int]string{0: "c100 20mbit c10"}, nil), nil},
		"class 1:30 (c30) is below root and shall be below 1:10":    {edit(tree, map[int]string{3: "c30 80mbit c10"}, nil), []tc.Op{remove(class(0x100, tc.Root))}},
	} {
		k := installed(t, tree.plan(t))
		meddle(t, k, test.meddle...)
		c := reconcile(t, k, test.s.plan(t), diff.Options{})
		if !strings.HasPrefix(c.Rebuild, want) || c.Ops[0].Verb != tc.Delete || c.Ops[0].Hitless || c.Ops[1].Verb != tc.Add {
			t.Errorf("rebuild %q, want %q", c.Rebuild, want)
		}
	}
	s := base().plan(t)
	k := fakekernel.New(link)
	ops := install(t, s)
	root := ops[0].Object.(tc.Qdisc)
	root.HTB.R2Q = 5
	ops[0].Object = root
	apply(t, k, ops)
	if c := reconcile(t, k, s, diff.Options{}); !strings.HasPrefix(c.Rebuild, "r2q is 5 and shall be 10") {
		t.Errorf("rebuild %q", c.Rebuild)
	}
}

// TestRepeatedHandle: nodes that share a handle are replaced first and deleted after, each, and those for one address one after the other.
func TestRepeatedHandle(t *testing.T) {
	k := installed(t, base().plan(t))
	for _, prefix := range []string{"10.0.0.7/32", "10.0.0.2/32"} {
		if err := k.ForceNode(node(12000, 0x802, 2, prefix, id(0x10))); err != nil {
			t.Fatal(err)
		}
	}
	c := reconcile(t, k, base().plan(t), diff.Options{})
	var verbs []string
	for _, op := range c.Ops {
		verbs = append(verbs, string(op.Verb)+" "+op.Object.Type())
	}
	if got := strings.Join(verbs, ", "); got != "add filter, change class, delete filter, delete filter, change class, delete filter" {
		t.Errorf("%s\n%s", got, text(c.Ops))
	}
}

// TestHashTablesGo: what a layout of hash tables left at our prefs is taken down, links first, then from the top.
func TestHashTablesGo(t *testing.T) {
	k := installed(t, base().plan(t))
	table := func(id uint32) tc.Filter {
		return tc.Filter{Parent: tc.MakeHandle(1, 0), Pref: 12000, Protocol: tc.ProtocolIP, Kind: tc.KindU32, Handle: tc.MakeU32Handle(id, 0, 0), Divisor: 16}
	}
	linked := func(table, number, to uint32) tc.Filter {
		f := node(12000, table, number, "10.0.0.0/16", 0)
		f.Link = tc.MakeU32Handle(to, 0, 0)
		return f
	}
	meddle(t, k, add(table(1)), add(table(2)), add(table(3)), add(table(4)), add(linked(0, 0x900, 3)), add(linked(3, 1, 2)), add(linked(1, 1, 4)), add(linked(4, 1, 1)),
		add(node(12000, 2, 1, "10.0.0.1/32", id(0x10))))
	c := reconcile(t, k, base().plan(t), diff.Options{})
	var got []string
	for _, op := range c.Ops {
		got = append(got, string(op.Verb)+" "+op.Object.(tc.Filter).Handle.String())
	}
	// 1 and 4 link to each other: the link to 1 is cut.
	if want := "delete 802::900, delete 3:, delete 2:, delete 4::1, delete 1:, delete 4:"; strings.Join(got, ", ") != want {
		t.Errorf("%s, want %s", strings.Join(got, ", "), want)
	}
	// Tables that a foreign filter links to stay, and are named.
	meddle(t, k, add(table(1)))
	foreign := linked(0, 1, 1)
	foreign.Pref = 5
	meddle(t, k, add(foreign))
	c = reconcile(t, k, base().plan(t), diff.Options{})
	if len(c.Ops) > 0 || strings.Join(c.Foreign, ", ") != "u32 filters of protocol ip at pref 5 (1), ahead of ours, hash tables at pref 12000, which a foreign filter links to" {
		t.Errorf("%s%q", text(c.Ops), c.Foreign)
	}
}
