package fakekernel_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"bulkshaper/shaper/fakekernel"
	"bulkshaper/shaper/tc"
)

var testLink = tc.Link{Index: 7, Name: "eth1", MTU: 1500, TxQueueLen: 1000, Up: true, TxQueues: 1}

func root() tc.Qdisc {
	return tc.Qdisc{Handle: tc.MakeHandle(1, 0), Parent: tc.Root, Kind: tc.KindHTB, HTB: tc.HTB{Default: 0x100, R2Q: 10}}
}

func id(minor uint16) tc.Handle { return tc.MakeHandle(1, minor) }

func class(minor uint16, parent tc.Handle) tc.Class {
	return tc.Class{ID: id(minor), Parent: parent, Rate: 8e6, Ceil: 8e6, Buffer: 1000, Cbuffer: 1000, Quantum: 2000}
}

func leaf(minor uint16) tc.Qdisc {
	return tc.Qdisc{Handle: tc.LeafHandle(minor), Parent: id(minor), Kind: tc.KindPFIFO, Limit: 100}
}

func node(pref uint16, table, number uint32, prefix string, to tc.Handle) tc.Filter {
	return tc.Filter{Parent: tc.MakeHandle(1, 0), Pref: pref, Protocol: tc.ProtocolIP, Kind: tc.KindU32, Handle: tc.MakeU32Handle(table, 0, number),
		ClassID: to, Sel: tc.MatchDestination(netip.MustParsePrefix(prefix))}
}

func add(o tc.Object) tc.Op     { return tc.Op{Verb: tc.Add, Object: o} }
func change(o tc.Object) tc.Op  { return tc.Op{Verb: tc.Change, Object: o} }
func replace(o tc.Object) tc.Op { return tc.Op{Verb: tc.Replace, Object: o} }
func remove(o tc.Object) tc.Op  { return tc.Op{Verb: tc.Delete, Object: o} }

// step is an operation and the error it must have, 0 for none.
type step struct {
	op   tc.Op
	want syscall.Errno
	text string
}

func run(t *testing.T, k *fakekernel.Kernel, steps ...step) {
	t.Helper()
	for _, s := range steps {
		err := k.Apply(t.Context(), testLink, []tc.Op{s.op})[0].Err
		switch {
		case s.want == 0 && err != nil:
			t.Errorf("%s: %v", s.op, err)
		case s.want != 0 && (!errors.Is(err, s.want) || !strings.Contains(err.Error(), s.text)):
			t.Errorf("%s: %v, want %v %s", s.op, err, s.want, s.text)
		}
	}
}

func observe(t *testing.T, k *fakekernel.Kernel) tc.State {
	t.Helper()
	s, err := k.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func find(s tc.State, minor uint16) tc.Class {
	i := slices.IndexFunc(s.Classes, func(c tc.Class) bool { return c.ID == id(minor) })
	if i < 0 {
		return tc.Class{}
	}
	return s.Classes[i]
}

func TestQdiscs(t *testing.T) {
	k := fakekernel.New(testLink)
	other := root()
	other.Handle = tc.MakeHandle(2, 0)
	bfifo := leaf(0x10)
	bfifo.Kind = tc.KindBFIFO
	moved := leaf(0x10)
	moved.Parent = id(0x20)
	auto := tc.Qdisc{Parent: id(0x20), Kind: tc.KindPFIFO}
	run(t, k,
		step{remove(tc.Qdisc{Parent: tc.Root}), 0, ""}, // the kernel's own: ENOENT, which is done
		step{add(tc.Qdisc{Parent: tc.Root, Handle: id(0), Kind: "nosuch"}), syscall.ENOENT, "kind is unknown"},
		step{add(root()), 0, ""},
		step{add(root()), syscall.EEXIST, "Exclusivity flag on"},
		step{change(root()), syscall.EINVAL, "Change operation not supported"},
		step{replace(root()), syscall.EINVAL, "Change operation not supported"},
		step{add(other), syscall.EEXIST, "NLM_F_REPLACE needed"},
		step{remove(other), 0, ""}, // not there: done
		step{add(leaf(0x10)), syscall.ENOENT, "class not found"},
		step{add(class(0x10, tc.Root)), 0, ""}, step{add(class(0x20, tc.Root)), 0, ""},
		step{change(leaf(0x10)), syscall.ENOENT, "To create specify NLM_F_CREATE"},
		step{add(leaf(0x10)), 0, ""},
		step{add(leaf(0x10)), syscall.EEXIST, "Exclusivity flag on"},
		step{change(bfifo), syscall.EINVAL, "must match existing qdisc"},
		step{replace(bfifo), 0, ""}, // the kernel package swaps them
		step{replace(leaf(0x10)), 0, ""},
		step{add(moved), syscall.EINVAL, "Cannot move an existing qdisc"},
		step{replace(moved), syscall.EINVAL, "Cannot move an existing qdisc"},
		step{remove(moved), 0, ""}, // not there: done
		step{add(auto), 0, ""},
		step{add(leaf(0x20)), syscall.EEXIST, "NLM_F_REPLACE"},
		step{replace(leaf(0x20)), 0, ""},
		step{remove(leaf(0x20)), 0, ""},
		step{remove(tc.Qdisc{Parent: id(0x20)}), 0, ""},
	)
	s := observe(t, k)
	if len(s.Qdiscs) != 2 || s.Qdiscs[1].Handle != tc.LeafHandle(0x10) || find(s, 0x20).Leaf != 0 {
		t.Errorf("left: %+v", s)
	}
	run(t, k, step{replace(other), 0, ""})
	if s := observe(t, k); len(s.Classes) != 0 || len(s.Qdiscs) != 1 || s.Qdiscs[0].Handle != other.Handle {
		t.Errorf("after another root: %+v", s)
	}
}

// TestSwapIsThePackages: the kernel itself does not replace a leaf by one of another kind and the same handle.
func TestSwapIsThePackages(t *testing.T) {
	k := fakekernel.New(testLink)
	bfifo := leaf(0x10)
	bfifo.Kind = tc.KindBFIFO
	results := k.Meddle(add(root()), add(class(0x10, tc.Root)), add(leaf(0x10)), replace(bfifo))
	if err := results[3].Err; !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
}

func TestClasses(t *testing.T) {
	k := fakekernel.New(testLink)
	child := class(0x11, id(0x10))
	wrong := class(0x11, tc.Root)
	wrong.Prio, wrong.Rate = 9, 8_000_001
	none := class(0x30, tc.Root)
	none.Rate = 7
	parent := class(0x10, tc.Root)
	parent.Prio, parent.Quantum, parent.Rate = 3, 9000, 16e6
	defaultQuantum := class(0x40, id(0x99))
	defaultQuantum.Quantum = 0
	run(t, k,
		step{add(class(0x10, tc.Root)), syscall.ENOENT, ""},
		step{add(root()), 0, ""},
		step{add(class(0x10, tc.Root)), 0, ""}, step{add(leaf(0x10)), 0, ""},
		step{add(class(0x10, tc.Root)), syscall.EEXIST, ""},
		step{change(class(0x12, tc.Root)), syscall.ENOENT, ""},
		step{add(none), syscall.EINVAL, ""},
		step{add(child), 0, ""},                   // the parent's leaf goes
		step{add(leaf(0x10)), syscall.EINVAL, ""}, // inner
		step{change(parent), 0, ""},               // prio and quantum of an inner class stay
		step{change(wrong), 0, ""},                // the parent given is ignored
		step{remove(parent), syscall.EBUSY, "in use"},
		step{add(defaultQuantum), 0, ""}, // below a missing parent: a root class
	)
	s := observe(t, k)
	if c := find(s, 0x10); c.Level != 7 || c.Leaf != 0 || c.Prio != 0 || c.Quantum != 2000 || c.Rate != 16e6 {
		t.Errorf("parent: %+v", c)
	}
	if c := find(s, 0x11); c.Level != 0 || c.Parent != id(0x10) || c.Prio != 7 || c.Rate != 8_000_000 {
		t.Errorf("child: %+v", c)
	}
	if c := find(s, 0x40); c.Parent != tc.Root || c.Quantum != 100_000 {
		t.Errorf("class below a missing parent: %+v", c)
	}
	run(t, k, step{remove(child), 0, ""}, step{remove(child), 0, ""}, step{add(leaf(0x10)), 0, ""})
	if c := find(observe(t, k), 0x10); c.Level != 0 || c.Leaf != tc.LeafHandle(0x10) {
		t.Errorf("parent without children: %+v", c)
	}
}

func TestDepth(t *testing.T) {
	k := fakekernel.New(testLink)
	run(t, k, step{add(root()), 0, ""}, step{add(class(1, tc.Root)), 0, ""})
	for minor := uint16(2); minor <= 8; minor++ {
		run(t, k, step{add(class(minor, id(minor-1))), 0, ""})
	}
	run(t, k, step{add(class(9, id(8))), syscall.EINVAL, ""})
}

func TestFilters(t *testing.T) {
	k := fakekernel.New(testLink)
	run(t, k, step{add(root()), 0, ""}, step{add(class(0x10, tc.Root)), 0, ""}, step{add(class(0x20, tc.Root)), 0, ""})
	n := node(10, 0, 1, "10.0.0.1/32", id(0x10))
	full := node(10, 0x800, 1, "10.0.0.1/32", id(0x20))
	v6 := n
	v6.Protocol = tc.ProtocolIPv6
	foreign := tc.Filter{Parent: id(0), Pref: 10, Protocol: tc.ProtocolIP, Kind: "flower", Handle: 1}
	lost := node(12, 0, 1, "10.0.0.3/32", id(0x30))
	run(t, k,
		step{change(full), syscall.ENOENT, "NLM_F_CREATE"},
		step{add(n), 0, ""},
		step{add(n), syscall.ENOSPC, ""},
		step{add(full), syscall.EEXIST, "Filter already exists"},
		step{add(v6), syscall.EINVAL, "Protocol mismatch"},
		step{add(foreign), syscall.EINVAL, "kind does not match"},
		step{remove(class(0x10, tc.Root)), syscall.EBUSY, "in use"},
		step{change(full), 0, ""},
		step{remove(class(0x10, tc.Root)), 0, ""},
		step{remove(class(0x20, tc.Root)), syscall.EBUSY, "in use"},
		step{add(node(11, 0, 1, "10.0.0.2/32", id(0x20))), 0, ""},
		step{remove(node(11, 0x800, 9, "10.0.0.2/32", 0)), 0, ""}, // not there: done
		step{remove(node(11, 0x801, 0, "10.0.0.2/32", 0)), syscall.EINVAL, "root node"},
		step{remove(node(11, 0x801, 1, "10.0.0.2/32", 0)), 0, ""},
		step{add(lost), 0, ""}, // to a missing class
		step{add(class(0x30, tc.Root)), 0, ""},
		step{remove(class(0x30, tc.Root)), 0, ""}, // not bound
		step{add(class(0x30, tc.Root)), 0, ""},
		step{change(node(12, 0x802, 1, "10.0.0.3/32", id(0x30))), 0, ""},
		step{remove(class(0x30, tc.Root)), syscall.EBUSY, "in use"},
	)
	s := observe(t, k)
	var got []string
	for _, f := range s.Filters {
		got = append(got, f.Ident())
	}
	want := []string{"filter ip pref 10 800:", "filter ip pref 10 800::1 dst 10.0.0.1/32", "filter ip pref 11 801:", "filter ip pref 12 802:", "filter ip pref 12 802::1 dst 10.0.0.3/32"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestLastNodeTakesThePref(t *testing.T) {
	k := fakekernel.New(testLink)
	run(t, k, step{add(root()), 0, ""}, step{add(node(10, 0, 1, "10.0.0.1/32", id(1))), 0, ""}, step{add(node(11, 0, 1, "10.0.0.1/32", id(1))), 0, ""},
		step{remove(node(10, 0x800, 1, "10.0.0.1/32", 0)), 0, ""})
	if s := observe(t, k); len(s.Filters) != 3 {
		t.Errorf("an empty pref beside another goes: %v", s.Filters)
	}
	run(t, k, step{remove(tc.Filter{Parent: id(0), Pref: 10, Protocol: tc.ProtocolIP, Kind: tc.KindU32}), 0, ""},
		step{remove(node(11, 0x801, 1, "10.0.0.1/32", 0)), 0, ""})
	if s := observe(t, k); len(s.Filters) != 0 {
		t.Errorf("the last pref stays without nodes: %v", s.Filters)
	}
	run(t, k, step{add(node(12, 0, 1, "10.0.0.1/32", id(1))), 0, ""})
	if s := observe(t, k); s.Filters[0].Handle.Table() != 0x800 {
		t.Errorf("root ids do not begin again: %v", s.Filters)
	}
}

func TestTables(t *testing.T) {
	k := fakekernel.New(testLink)
	table := tc.Filter{Parent: id(0), Pref: 10, Protocol: tc.ProtocolIP, Kind: tc.KindU32, Handle: tc.MakeU32Handle(2, 0, 0), Divisor: 256}
	odd := table
	odd.Divisor = 3
	inTable := node(10, 2, 1, "10.0.0.5/32", id(0x10))
	inTable.Handle = tc.MakeU32Handle(2, 5, 1)
	link := node(10, 0, 1, "10.0.0.0/24", 0)
	link.Sel.Flags, link.Sel.HMask, link.Sel.HOff, link.Link = 0, 0xff, 16, tc.MakeU32Handle(2, 0, 0)
	toRoot, toNode, toNothing := link, link, link
	toRoot.Link, toNode.Link, toNothing.Link = tc.MakeU32Handle(0x800, 0, 0), tc.MakeU32Handle(2, 0, 1), tc.MakeU32Handle(3, 0, 0)
	run(t, k, step{add(root()), 0, ""}, step{add(class(0x10, tc.Root)), 0, ""}, step{add(class(0x100, tc.Root)), 0, ""},
		step{add(odd), syscall.EINVAL, "power of 2"}, step{add(table), 0, ""}, step{add(table), syscall.EEXIST, ""},
		step{add(inTable), 0, ""},
		step{add(toRoot), syscall.EINVAL, "root node"}, step{add(toNode), syscall.EINVAL, "must be a hash table"}, step{add(toNothing), syscall.EINVAL, "not found"},
		step{add(link), 0, ""},
		step{remove(table), syscall.EBUSY, "in-use"},
	)
	for address, want := range map[string]tc.Handle{"10.0.0.5": id(0x10), "10.0.0.6": id(0x100)} {
		if got := k.Send(netip.MustParseAddr(address), 3); got != want {
			t.Errorf("%s goes to %s, want %s", address, got, want)
		}
	}
	// A pref that is deleted while another u32 pref stands leaves its tables behind: unseen, and holding the class.
	run(t, k, step{add(node(11, 0, 1, "10.9.9.9/32", id(0x100))), 0, ""},
		step{remove(tc.Filter{Parent: id(0), Pref: 10, Protocol: tc.ProtocolIP, Kind: tc.KindU32}), 0, ""})
	if s := observe(t, k); len(s.Filters) != 2 || s.Filters[0].Pref != 11 {
		t.Errorf("left: %v", s.Filters)
	}
	run(t, k, step{remove(class(0x10, tc.Root)), syscall.EBUSY, "in use"})
	table.Pref = 11
	run(t, k, step{remove(table), 0, ""}, step{remove(class(0x10, tc.Root)), 0, ""})
}

// TestDirect: without a default class, unmatched packets and those whose filter's class is missing go out directly.
func TestDirect(t *testing.T) {
	k := fakekernel.New(testLink)
	send := func(address string, want tc.Handle) {
		t.Helper()
		if got := k.Send(netip.MustParseAddr(address), 1); got != want {
			t.Errorf("%s goes to %s, want %s", address, got, want)
		}
	}
	send("10.0.0.1", fakekernel.Direct)
	run(t, k, step{add(root()), 0, ""}, step{add(class(0x10, tc.Root)), 0, ""}, step{add(node(10, 0, 1, "10.0.0.1/32", id(0x10))), 0, ""},
		step{add(node(10, 0, 2, "10.0.0.2/32", id(0x20))), 0, ""}, step{add(node(10, 0, 3, "10.0.0.3/32", id(0))), 0, ""})
	send("10.0.0.1", id(0x10))
	send("10.0.0.2", fakekernel.Direct)
	send("10.0.0.9", fakekernel.Direct)
	run(t, k, step{add(class(0x100, tc.Root)), 0, ""})
	send("10.0.0.2", id(0x100))
	send("10.0.0.3", fakekernel.Direct)
	send("10.0.0.9", id(0x100))
	run(t, k, step{add(class(0x11, id(0x10))), 0, ""})
	send("10.0.0.1", id(0x100)) // inner now
	stats, err := k.Stats(t.Context())
	if err != nil || stats.DirectPackets != 3 || len(stats.Classes) != 3 || stats.Classes[2].SentPackets != 3 || stats.Classes[2].SentBytes != 3*46 {
		t.Errorf("%+v, %v", stats, err)
	}
}
