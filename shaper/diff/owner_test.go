package diff_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/fakekernel"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
)

func rootOf(kind string, major uint16) tc.Qdisc {
	return tc.Qdisc{Handle: tc.MakeHandle(major, 0), Parent: tc.Root, Kind: kind, HTB: tc.HTB{Default: 0x100, R2Q: 10}}
}

func TestOwnership(t *testing.T) {
	ours := rootOf(tc.KindHTB, 1)
	marked := class(0x10, tc.Root)
	marked.Leaf = tc.LeafHandle(0x10)
	other := class(0x10, tc.Root)
	other.Leaf = tc.MakeHandle(0x8001, 0)
	second := class(0x11, tc.Root)
	second.Leaf = tc.LeafHandle(0x11)
	// 1:b000 would have leaf 0:, which is what a class without a leaf of its own shows.
	reserved := class(0xb000, tc.Root)
	for _, test := range []struct {
		name  string
		state tc.State
		want  diff.OwnerKind
		maker string
	}{
		{"nothing", tc.State{}, diff.None, ""},
		{"the kernel's own", tc.State{Qdiscs: []tc.Qdisc{{Parent: tc.Root, Kind: "mq"}}}, diff.Kernel, ""},
		{"ours, by the class", tc.State{Qdiscs: []tc.Qdisc{ours}, Classes: []tc.Class{other, marked, second}}, diff.Ours, ""},
		{"ours, by a class and a filter", tc.State{Qdiscs: []tc.Qdisc{ours}, Classes: []tc.Class{marked}, Filters: []tc.Filter{node(plan.PrefIPv4, 0x800, 1, "10.0.0.1/32", id(0x10))}}, diff.Ours, ""},
		{"a number that the kernel came by", tc.State{Qdiscs: []tc.Qdisc{ours}, Classes: []tc.Class{other, marked}, Filters: []tc.Filter{node(1, 0x800, 1, "10.0.0.1/32", id(0x10))}}, diff.Foreign, "by hand"},
		{"ours, by the qdisc", tc.State{Qdiscs: []tc.Qdisc{leaf(0x20), leaf(0x21), ours}, Classes: []tc.Class{class(0x20, tc.Root), class(0x21, tc.Root)}}, diff.Ours, ""},
		{"control alone", tc.State{Qdiscs: []tc.Qdisc{leaf(0xffff), ours}, Classes: []tc.Class{class(0xffff, tc.Root)}}, diff.Ours, ""},
		{"no leaf of ours", tc.State{Qdiscs: []tc.Qdisc{ours}, Classes: []tc.Class{other}}, diff.Foreign, "wondershaper"},
		{"no class", tc.State{Qdiscs: []tc.Qdisc{ours}}, diff.Foreign, "by hand"},
		{"reserved class", tc.State{Qdiscs: []tc.Qdisc{ours}, Classes: []tc.Class{reserved}}, diff.Foreign, "by hand"},
		{"marked, in another root", tc.State{Qdiscs: []tc.Qdisc{rootOf(tc.KindHTB, 2)}, Classes: []tc.Class{marked}}, diff.Foreign, "another program"},
		{"YARN", tc.State{Qdiscs: []tc.Qdisc{rootOf(tc.KindHTB, 0x42)}}, diff.Foreign, "YARN's TrafficController"},
		{"hfsc", tc.State{Qdiscs: []tc.Qdisc{rootOf("hfsc", 1)}}, diff.Foreign, "another shaper"},
		{"cake", tc.State{Qdiscs: []tc.Qdisc{rootOf("cake", 0x8003)}}, diff.Foreign, "sqm-scripts"},
		{"tbf", tc.State{Qdiscs: []tc.Qdisc{rootOf("tbf", 1)}}, diff.Foreign, "CNI"},
		{"mq", tc.State{Qdiscs: []tc.Qdisc{rootOf("mq", 0x8001)}}, diff.Foreign, "driver"},
		{"no handle given", tc.State{Qdiscs: []tc.Qdisc{rootOf("fq_codel", 0x8001)}}, diff.Foreign, "without a handle given"},
	} {
		got := diff.Ownership(test.state)
		if got.Kind != test.want || !strings.Contains(got.Maker, test.maker) || (got.Maker != "") != (test.want == diff.Foreign) {
			t.Errorf("%s: %s, %q", test.name, got.Kind, got.Maker)
		}
	}
}

func TestForeignRoot(t *testing.T) {
	p := base().plan(t)
	for _, root := range []tc.Qdisc{rootOf(tc.KindHTB, 0x42), rootOf(tc.KindHTB, 1), rootOf(tc.KindPFIFO, 0x8001)} {
		k := fakekernel.New(link)
		k.TakeRoot(root)
		_, err := diff.Compute(observe(t, k), p, diff.Options{})
		var foreign *diff.ForeignRootError
		if !errors.As(err, &foreign) || foreign.Root.Handle != root.Handle {
			t.Errorf("%s: %v", root.Handle, err)
		}
		if _, err := diff.Clear(observe(t, k)); !errors.As(err, &foreign) || strings.Contains(err.Error(), "takeover") || !strings.Contains(err.Error(), "nothing of ours stands") {
			t.Errorf("Clear: %v", err)
		}
		for _, opts := range []diff.Options{{Takeover: true}, {Owned: true}} {
			k.TakeRoot(root)
			c := reconcile(t, k, p, opts)
			if root.Kind == tc.KindHTB && root.Handle == id(0) && opts.Takeover {
				if c.Rebuild != "" || !strings.Contains(c.Takeover, "htb 1: (probably tc rules written by hand") || slices.ContainsFunc(c.Ops, isRootAdd) {
					t.Errorf("%q, %q, %s", c.Rebuild, c.Takeover, text(c.Ops))
				}
				continue
			}
			if c.Takeover != "" || c.Rebuild == "" || c.Ops[0].Verb != tc.Delete || c.Ops[0].Hitless || !strings.Contains(c.Ops[0].Why, "not ours") {
				t.Errorf("%q, %s", c.Rebuild, text(c.Ops[:1]))
			}
		}
	}
	err := &diff.ForeignRootError{Interface: "eth1", Root: rootOf(tc.KindHTB, 0x42), Maker: "YARN's TrafficController"}
	want := `shape eth1: the root qdisc is htb 42:, which is not ours (probably YARN's TrafficController): set yarn.nodemanager.resource.network.enabled to false ` +
		`and restart the node manager, or it wipes ours as well; then remove it with "tc qdisc del dev eth1 root", or take it over with --takeover (takeover: true); ` +
		`"bulkshaper plan --takeover" shows what that does`
	if err.Error() != want {
		t.Errorf("%s", err)
	}
	err.Root = rootOf("mq", 0x8001)
	if !strings.Contains(err.Error(), "mq 8001:, which is not ours") || !strings.Contains(err.Error(), "the kernel's own") {
		t.Errorf("%s", err)
	}
}

func TestForeignFilterAtOurPref(t *testing.T) {
	for want, f := range map[string]tc.Filter{
		`pref 12000 is ours, for u32 filters of protocol ip, and a basic filter of protocol ip stands there: remove it with "tc filter del dev eth1 parent 1: protocol ip pref 12000"`:   {Pref: 12000, Protocol: tc.ProtocolIP, Kind: "basic", Handle: 1},
		`pref 12007 is ours, for u32 filters of protocol ip, and a u32 filter of protocol ipv6 stands there: remove it with "tc filter del dev eth1 parent 1: protocol ipv6 pref 12007"`: {Pref: 12007, Protocol: tc.ProtocolIPv6, Kind: tc.KindU32, Handle: 1},
	} {
		s := base()
		s.destinations = nil
		k := installed(t, s.plan(t))
		f.Parent = id(0)
		meddle(t, k, add(f))
		_, err := diff.Compute(observe(t, k), base().plan(t), diff.Options{Takeover: true, Owned: true})
		var foreign *diff.ForeignFilterError
		if !errors.As(err, &foreign) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestRebuildKeepsStrangers: what is foreign below our root is lost in a rebuild only if that is allowed.
func TestRebuildKeepsStrangers(t *testing.T) {
	k := installed(t, base().plan(t))
	meddle(t, k, add(node(5, 0, 1, "10.0.0.1/32", id(0x777))), add(class(0x777, tc.Root)))
	s := base()
	s.classes[0], s.classes[2] = s.classes[2], s.classes[0] // another default class
	_, err := diff.Compute(observe(t, k), s.plan(t), diff.Options{Owned: true})
	var foreign *diff.ForeignObjectsError
	if !errors.As(err, &foreign) {
		t.Fatal(err)
	}
	for _, want := range []string{"the default class is 1:100 (c100) and shall be 1:20 (c20)", "u32 filters of protocol ip at pref 5 (1), ahead of ours", "class 1:777, which is not ours", "--takeover"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if c := reconcile(t, k, s.plan(t), diff.Options{Takeover: true}); c.Rebuild != foreign.Rebuild {
		t.Errorf("%q", c.Rebuild)
	}
}

func TestClear(t *testing.T) {
	k := fakekernel.New(link)
	if ops, err := diff.Clear(observe(t, k)); err != nil || len(ops) > 0 {
		t.Errorf("where nothing stands: %v, %v", ops, err)
	}
	apply(t, k, install(t, base().plan(t)))
	ops, err := diff.Clear(observe(t, k))
	if err != nil || len(ops) != 1 || ops[0].String() != "delete qdisc 1:" {
		t.Fatalf("%s, %v", text(ops), err)
	}
	apply(t, k, ops)
	if diff.Ownership(observe(t, k)).Kind != diff.Kernel {
		t.Error("the root still stands")
	}

	// With strangers on the root, they and the root stay.
	apply(t, k, install(t, base().plan(t)))
	meddle(t, k, add(class(0x777, tc.Root)), add(node(5, 0, 1, "10.0.0.1/32", id(0x777))), add(node(6, 0, 1, "10.0.0.1/32", id(0x20))))
	before := foreignObjects(observe(t, k), base().plan(t))
	ops, err = diff.Clear(observe(t, k))
	if err != nil {
		t.Fatal(err)
	}
	apply(t, k, ops)
	s := observe(t, k)
	if after := foreignObjects(s, base().plan(t)); strings.Join(after, "\n") != strings.Join(before, "\n") {
		t.Errorf("%q, before %q", after, before)
	}
	if len(s.Classes) != 3 || s.Classes[0].ID != id(0x20) || s.Classes[2].ID != id(tc.ControlMinor) {
		t.Errorf("left: %+v", s.Classes) // 1:20 is held by the filter at pref 6, the control class marks the root as ours
	}
	if c, err := diff.Compute(s, base().plan(t), diff.Options{}); err != nil || c.Rebuild != "" {
		t.Errorf("the root is not taken up again: %v", err)
	}
	if again, err := diff.Clear(s); err != nil || len(again) > 0 {
		t.Errorf("cleared again: %s, %v", text(again), err)
	}
	for _, f := range s.Filters {
		if f.IsNode() && f.Pref > 6 {
			t.Errorf("left: %s", f.Ident())
		}
	}
}
