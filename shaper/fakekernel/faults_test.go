package fakekernel_test

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"bulkshaper/shaper/fakekernel"
	"bulkshaper/shaper/tc"
)

func TestGroups(t *testing.T) {
	k := fakekernel.New(testLink)
	bad := node(11, 0, 1, "10.0.0.2/32", id(0x10))
	bad.Link = tc.MakeU32Handle(9, 0, 0)
	ops := []tc.Op{add(root()), add(class(0x10, tc.Root)), add(leaf(0x10)), add(node(10, 0, 1, "10.0.0.1/32", id(0x10))), add(bad),
		add(node(12, 0, 1, "10.0.0.3/32", id(0x10))), add(class(0x100, tc.Root))}
	results := k.Apply(t.Context(), testLink, ops)
	for i, want := range []bool{true, true, true, true, false, true, false} {
		if (results[i].Err == nil) != want {
			t.Errorf("%s: %v", results[i].Op, results[i].Err)
		}
	}
	if !errors.Is(results[6].Err, tc.ErrNotTried) || errors.Is(results[4].Err, tc.ErrNotTried) || len(k.Applied()) != 5 {
		t.Errorf("%v", results)
	}
}

func TestFirstGroupIsWhole(t *testing.T) {
	boom := errors.New("boom")
	ops := []tc.Op{add(root()), add(class(0x10, tc.Root)), add(leaf(0x10)), add(class(0x20, tc.Root))}
	for n, stands := range []bool{false, false, false, true} {
		k := fakekernel.New(testLink)
		k.Fail(n, boom)
		if results := k.Apply(t.Context(), testLink, ops); !errors.Is(results[n].Err, boom) {
			t.Errorf("operation %d: %v", n, results[n].Err)
		}
		if got := observe(t, k).Qdiscs[0].Handle != 0; got != stands {
			t.Errorf("operation %d failed: the root stands: %v", n, got)
		}
	}
}

func TestLinkComesAndGoes(t *testing.T) {
	k := fakekernel.New(testLink)
	run(t, k, step{add(root()), 0, ""})
	k.RemoveLink()
	if _, err := k.Observe(t.Context()); !errors.Is(err, tc.ErrNoInterface) {
		t.Errorf("Observe: %v", err)
	}
	if _, err := k.Stats(t.Context()); !errors.Is(err, tc.ErrNoInterface) {
		t.Errorf("Stats: %v", err)
	}
	if err := k.Apply(t.Context(), testLink, []tc.Op{add(root())})[0].Err; !errors.Is(err, tc.ErrNoInterface) {
		t.Errorf("Apply: %v", err)
	}
	again := testLink
	again.Index = 8
	k.SetLink(again)
	if err := k.Apply(t.Context(), testLink, []tc.Op{add(root())})[0].Err; !errors.Is(err, tc.ErrNoInterface) {
		t.Errorf("Apply with the old index: %v", err)
	}
	if s := observe(t, k); s.Link.Index != 8 || s.Qdiscs[0].Handle != 0 {
		t.Errorf("the new interface: %+v", s)
	}
	again.Up = false
	k.Meddle(add(root()))
	k.SetLink(again)
	if s := observe(t, k); s.Link.Up || s.Qdiscs[0].Handle == 0 {
		t.Errorf("down: %+v", s)
	}
}

func TestWatch(t *testing.T) {
	k := fakekernel.New(testLink)
	ctx, cancel := context.WithCancel(t.Context())
	events, err := k.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	run(t, k, step{add(root()), 0, ""})
	k.Meddle(add(class(0x10, tc.Root)), add(class(0x10, tc.Root)))
	k.TakeRoot(tc.Qdisc{Handle: tc.MakeHandle(0x42, 0), Kind: tc.KindHTB})
	k.RemoveLink()
	for _, want := range []tc.Event{{Kind: tc.EventQdisc, Own: true}, {Kind: tc.EventClass}, {Kind: tc.EventQdisc}, {Kind: tc.EventLink}} {
		if got := <-events; got != want {
			t.Errorf("event %+v, want %+v", got, want)
		}
	}
	for range 100 {
		k.Emit(tc.Event{Kind: tc.EventAddress})
	}
	cancel()
	var last tc.Event
	for e := range events { // ends, since the channel is closed
		last = e
	}
	if last.Kind != tc.EventLost {
		t.Errorf("the last of too many events is %+v", last)
	}
	if _, err := k.Watch(ctx); err == nil {
		t.Error("a watch begins in an ended context")
	}
	events, _ = k.Watch(t.Context())
	if k.Close(); len(events) != 0 {
		t.Error("events after Close")
	}
	if _, open := <-events; open {
		t.Error("open after Close")
	}
}

func TestFailObserve(t *testing.T) {
	k := fakekernel.New(testLink, fakekernel.WithFQCodel(), fakekernel.WithRootKind("mq"))
	boom := errors.New("boom")
	k.FailObserve(boom)
	if _, err := k.Observe(t.Context()); !errors.Is(err, boom) {
		t.Error(err)
	}
	if s := observe(t, k); s.AutoLeaf != tc.KindFQCodel || s.Qdiscs[0].Kind != "mq" {
		t.Errorf("%+v", s)
	}
	run(t, k, step{add(root()), 0, ""}, step{add(class(0x10, tc.Root)), 0, ""}, step{add(leaf(0x10)), 0, ""})
	if s := observe(t, k); s.AutoLeaf != tc.KindPFIFO {
		t.Errorf("a leaf of ours stands, and auto is %s", s.AutoLeaf)
	}
}

// TestBacklog: packets that wait are told in the statistics.
func TestBacklog(t *testing.T) {
	k := fakekernel.New(testLink)
	run(t, k, step{add(root()), 0, ""}, step{add(class(0x10, tc.Root)), 0, ""})
	k.SetBacklog(id(0x10), 7)
	if s, err := k.Stats(t.Context()); err != nil || s.Classes[0].BacklogPackets != 7 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestForceNode: two nodes of one handle are both in the dump, and a deletion takes the first.
func TestForceNode(t *testing.T) {
	k := fakekernel.New(testLink)
	run(t, k, step{add(root()), 0, ""}, step{add(node(10, 0, 1, "10.0.0.1/32", id(1))), 0, ""})
	if err := k.ForceNode(node(10, 0x801, 1, "10.0.0.2/32", id(1))); err == nil {
		t.Error("a node in a table that does not exist")
	}
	if err := k.ForceNode(node(10, 0x800, 1, "10.0.0.2/32", id(1))); err != nil {
		t.Error(err)
	}
	run(t, k, step{remove(node(10, 0x800, 1, "10.0.0.2/32", id(1))), 0, ""})
	if s := observe(t, k); len(s.Filters) != 2 || s.Filters[1].Sel.Keys[0].Value != 0x0a000002 {
		t.Errorf("%v", s.Filters)
	}
}

// TestGrace: a table stays busy for a while after its last link went, and then the ones below it.
func TestGrace(t *testing.T) {
	k := fakekernel.New(testLink, fakekernel.WithGrace(2))
	table := func(id uint32) tc.Filter {
		f := node(10, 0, 0, "0.0.0.0/0", 0)
		f.Handle, f.Divisor, f.Sel = tc.MakeU32Handle(id, 0, 0), 1, tc.Selector{}
		return f
	}
	leads := func(from, number, to uint32) tc.Filter {
		f := node(10, from, number, "10.0.0.0/24", 0)
		f.Link = tc.MakeU32Handle(to, 0, 0)
		return f
	}
	for _, op := range []tc.Op{add(root()), add(class(0x10, tc.Root)), add(leaf(0x10)), add(node(10, 0, 9, "10.0.0.1/32", id(0x10))), add(table(1)), add(table(2)),
		add(leads(1, 1, 2)), add(leads(0, 1, 1)), remove(leads(0x800, 1, 1))} {
		if err := k.Apply(t.Context(), testLink, []tc.Op{op})[0].Err; err != nil {
			t.Fatalf("%s: %v", op, err)
		}
	}
	for _, step := range []struct {
		id   uint32
		busy bool
	}{{1, true}, {1, false}, {2, true}, {2, false}} {
		err := k.Apply(t.Context(), testLink, []tc.Op{remove(table(step.id))})[0].Err
		if errors.Is(err, syscall.EBUSY) != step.busy || err != nil && !step.busy {
			t.Errorf("table %d: %v", step.id, err)
		}
	}
}
