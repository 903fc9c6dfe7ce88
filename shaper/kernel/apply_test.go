package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"bulkshaper/shaper/kernel/kerneltest"
	"bulkshaper/shaper/tc"
)

func results(ops ...tc.Op) []tc.Result {
	var rs []tc.Result
	for _, op := range ops {
		rs = append(rs, tc.Result{Op: op})
	}
	return rs
}

func TestGroups(t *testing.T) {
	many := make([]tc.Op, 1200)
	for i := range many {
		many[i] = add(filter(uint32(i+1), "10.0.0.0/24", 0x10))
	}
	class, leaf, f := class(0x10, mbit), leaf(0x10), filter(1, "10.0.0.1/32", 0x10)
	for _, c := range []struct {
		name string
		ops  []tc.Op
		want string
	}{
		{"root to first leaf", tree(), "foundation 3, single 1, single 1, single 1, single 1, filters 4"},
		{"all classes before the leaves", []tc.Op{add(root()), add(class), add(class), add(leaf), add(leaf)}, "foundation 4, single 1"},
		{"rebuild", []tc.Op{remove(root()), add(root()), add(class), add(leaf)}, "foundation 4"},
		{"takeover", []tc.Op{replace(root()), add(class), add(leaf), add(f)}, "foundation 3, filters 1"},
		{"root without leaf", []tc.Op{add(root()), add(class), add(f)}, "foundation 1, single 1, filters 1"},
		{"clear", []tc.Op{remove(root())}, "single 1"},
		{"clear and more", []tc.Op{remove(root()), add(class)}, "single 1, single 1"},
		{"deletions apart", []tc.Op{add(f), change(f), remove(f), remove(f), add(f)}, "filters 2, filters 2, filters 1"},
		{"many filters", many, "filters 500, filters 500, filters 200"},
		{"leaf replaced", []tc.Op{replace(leaf), change(class)}, "single 1, single 1"},
	} {
		var got []string
		for rest := results(c.ops...); len(rest) > 0; {
			kind, n := groupOf(rest)
			got = append(got, fmt.Sprintf("%s %d", [...]string{"single", "foundation", "filters"}[kind], n))
			rest = rest[n:]
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %s, want %s", c.name, strings.Join(got, ", "), c.want)
		}
	}
}

func TestKernelTextIsPassedOn(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	mustApply(t, k, tree()...)
	missing := filter(7, "10.9.9.9/32", 0x10)
	missing.Handle = tc.MakeU32Handle(5, 0, 7) // no such table
	for _, c := range []struct {
		op    tc.Op
		errno error
		text  string
	}{
		{remove(class(0x10, mbit)), unix.EBUSY, ""},                                                              // a filter is bound to it
		{add(missing), unix.EINVAL, "Specified hash table not found"},                                            // raw batch
		{add(class(0x10, mbit)), unix.EEXIST, ""},                                                                // go-tc
		{change(class(0x66, mbit)), unix.ENOENT, ""},                                                             // raw
		{change(root()), unix.EINVAL, ""},                                                                        // HTB has no change
		{add(tc.Qdisc{Handle: 0xb0770000, Parent: 0x10077, Kind: tc.KindPFIFO, Limit: 1}), unix.ENOENT, "class"}, // go-tc, no such class
	} {
		err := applyErrors(t, k, c.op)[0]
		if !errors.Is(err, c.errno) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %v with %q", c.op, err, c.errno, c.text)
		}
	}
}

// One bad message does not hinder the others of its batch, and its error is its own.
func TestBatchErrorsAreMatched(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	mustApply(t, k, tree()[:7]...)
	ops := make([]tc.Op, 0, 700)
	for i := range 700 {
		ops = append(ops, add(filter(uint32(i+1), fmt.Sprintf("10.1.%d.%d/32", i/256, i%256), 0x10)))
	}
	bad := map[int]bool{0: true, 41: true, 42: true, 499: true}
	for i := range bad {
		f := ops[i].Object.(tc.Filter)
		f.Handle = tc.MakeU32Handle(0x77, 0, uint32(i+1))
		ops[i].Object = f
	}
	for i, err := range applyErrors(t, k, ops...) {
		switch {
		case bad[i] && (err == nil || !strings.Contains(err.Error(), "Specified hash table not found")):
			t.Errorf("bad filter %d: %v", i, err)
		case !bad[i] && i < 500 && err != nil:
			t.Errorf("filter %d: %v", i, err)
		case i >= 500 && !errors.Is(err, tc.ErrNotTried):
			t.Errorf("filter %d behind a failed group: %v", i, err)
		}
	}
	if got := len(nodes(observe(t, k))); got != 496 {
		t.Errorf("%d filters stand, want 496", got)
	}
}

// Every message of a batch fails, and every error comes back.
func TestBatchInWhichAllFails(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	mustApply(t, k, tree()[:7]...)
	var ops []tc.Op
	for i := range filtersAtOnce {
		f := filter(uint32(i+1), "10.1.0.0/24", 0x10)
		f.Handle = tc.MakeU32Handle(0x77, 0, uint32(i+1))
		ops = append(ops, add(f))
	}
	for i, err := range applyErrors(t, k, ops...) {
		if !errors.Is(err, unix.EINVAL) {
			t.Fatalf("filter %d: %v", i, err)
		}
	}
	// The socket serves on.
	mustApply(t, k, add(filter(1, "10.1.1.1/32", 0x10)))
}

// Answers that do not fit into the socket's buffer are not taken for success, and the socket serves on.
func TestLostAnswers(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	mustApply(t, k, tree()[:7]...)
	for _, option := range []int{unix.SO_RCVBUF} {
		if err := unix.SetsockoptInt(k.write.fd, unix.SOL_SOCKET, option, 1); err != nil { // the kernel makes it the least there is
			t.Fatal(err)
		}
	}
	var ops []tc.Op
	for i := range filtersAtOnce {
		f := filter(uint32(i+1), "10.1.0.0/24", 0x10)
		f.Handle = tc.MakeU32Handle(0x77, 0, uint32(i+1))
		ops = append(ops, add(f))
	}
	lost := 0
	for i, err := range applyErrors(t, k, ops...) {
		switch {
		case errors.Is(err, errLost):
			lost++
		case !errors.Is(err, unix.EINVAL):
			t.Fatalf("filter %d: %v", i, err)
		}
	}
	if lost == 0 {
		t.Error("no answer was lost: the test proves nothing")
	}
	mustApply(t, k, add(filter(1, "10.1.1.1/32", 0x10)))
}

func TestManyFilters(t *testing.T) {
	const count = 5000
	n := kerneltest.New(t)
	k := open(t, n)
	mustApply(t, k, tree()[:7]...)
	ops := make([]tc.Op, count)
	for i := range ops {
		f := filter(uint32(i%2500+1), fmt.Sprintf("10.%d.%d.%d/32", i/65536, i/256%256, i%256), []uint16{0x10, 0x20}[i%2])
		f.Pref += uint16(i / 2500) // two root tables of 2500
		ops[i] = add(f)
	}
	mustApply(t, k, ops...)
	got := nodes(observe(t, k))
	if len(got) != count {
		t.Fatalf("%d filters stand, want %d", len(got), count)
	}
	var changes, deletions []tc.Op
	for i := range ops {
		want := ops[i].Object.(tc.Filter)
		d, _ := want.Destination()
		have := got[d.String()]
		if have.ClassID != want.ClassID || have.Handle.Node() != want.Handle.Node() || have.Pref != want.Pref {
			t.Fatalf("filter for %s is %+v", d, have)
		}
		have.ClassID = tc.MakeHandle(1, 0x100)
		changes, deletions = append(changes, change(have)), append(deletions, remove(have))
	}
	mustApply(t, k, changes...)
	for d, f := range nodes(observe(t, k)) {
		if f.ClassID != tc.MakeHandle(1, 0x100) {
			t.Fatalf("filter for %s leads to %s", d, f.ClassID)
		}
	}
	mustApply(t, k, deletions[:count-1]...)
	if got := len(nodes(observe(t, k))); got != 1 {
		t.Errorf("%d filters are left, want 1", got)
	}
	if got := strings.Count(n.TC("filter", "show", "dev", "eth1"), "flowid"); got != 1 {
		t.Errorf("tc shows %d filters, want 1", got)
	}
}

func TestDeleteWhatIsGone(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	mustApply(t, k, tree()...)
	f := nodes(observe(t, k))["10.241.28.15/32"]
	mustApply(t, k, remove(f), remove(f), remove(leaf(0x10)), remove(class(0x10, mbit)), remove(class(0x10, mbit)), remove(leaf(0x10)))
	mustApply(t, k, remove(root()), remove(root()))
	if got := n.TC("qdisc", "show", "dev", "eth1"); !strings.HasPrefix(got, "qdisc noqueue 0: root") {
		t.Errorf("tc shows %s", got)
	}
}

func TestRefusedBeforeSending(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	mustApply(t, k, tree()...)
	before := fmt.Sprint(observe(t, k))
	f := nodes(observe(t, k))["10.241.28.15/32"]
	with := func(edit func(*tc.Filter)) tc.Filter {
		g := f
		edit(&g)
		return g
	}
	for name, op := range map[string]tc.Op{
		"delete handle 0, which is the pref":          remove(with(func(f *tc.Filter) { f.Handle = 0 })),
		"delete pref 0, which is all":                 remove(with(func(f *tc.Filter) { f.Pref = 0 })),
		"delete without a table":                      remove(filter(1, "10.241.28.15/32", 0x10)),
		"change without a table":                      change(filter(1, "10.241.28.15/32", 0x10)),
		"add without a handle":                        add(filter(0, "10.241.28.15/32", 0x10)),
		"add another kind":                            add(with(func(f *tc.Filter) { f.Kind = "flower" })),
		"too many keys":                               add(with(func(f *tc.Filter) { f.Sel.Keys = make([]tc.Key, 256) })),
		"replace a filter":                            replace(f),
		"replace a class":                             replace(class(0x10, mbit)),
		"no verb":                                     {Verb: "renew", Object: class(0x10, mbit)},
		"a limit for a kind of which it is not known": replace(tc.Qdisc{Handle: 0xb0100000, Parent: 0x10010, Kind: "prio", Limit: 3}),
	} {
		// A good one before it in the same batch is not sent either.
		errs := applyErrors(t, k, op)
		if errs[0] == nil {
			t.Errorf("%s: no error", name)
		}
		if after := fmt.Sprint(observe(t, k)); after != before {
			t.Errorf("%s changed\n%s to\n%s", name, before, after)
		}
	}
}

func TestLeafReplaced(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	mustApply(t, k, tree()...)
	q := leaf(0x10)
	for _, c := range []struct {
		kind  string
		limit uint32
		want  string
	}{
		{tc.KindPFIFO, 77, "qdisc pfifo b010: parent 1:10 limit 77p"},       // in place
		{tc.KindBFIFO, 70000, "qdisc bfifo b010: parent 1:10 limit 70000b"}, // same handle, other kind
		{"no_such_kind", 0, "qdisc bfifo b010: parent 1:10 limit 70000b"},   // fails and takes nothing away
		{tc.KindPFIFO, 78, "qdisc pfifo b010: parent 1:10 limit 78p"},
	} {
		q.Kind, q.Limit = c.kind, c.limit
		err := applyErrors(t, k, replace(q))[0]
		if (err != nil) != (c.kind == "no_such_kind") {
			t.Errorf("%s: %v", c.kind, err)
		}
		if got := n.TC("qdisc", "show", "dev", "eth1"); !strings.Contains(got, c.want) {
			t.Errorf("tc shows no %q in\n%s", c.want, got)
		}
	}
	if tcKnows(t, tc.KindFQCodel) {
		q.Kind, q.Limit = tc.KindFQCodel, 123
		mustApply(t, k, replace(q))
		if got := n.TC("qdisc", "show", "dev", "eth1"); !strings.Contains(got, "qdisc fq_codel b010: parent 1:10 limit 123p") || !slices.Contains(observe(t, k).Qdiscs, q) {
			t.Errorf("tc shows\n%s", got)
		}
		q.Kind = tc.KindPFIFO
		mustApply(t, k, replace(q))
	}
	q.Limit = 79
	mustApply(t, k, change(q))
	if got := observe(t, k).Qdiscs; !slices.Contains(got, q) {
		t.Errorf("got %+v, want %+v in it", got, q)
	}
}

// The lines that an operation prints do the same in tc.
func TestTCDoesTheSame(t *testing.T) {
	ours, theirs := kerneltest.New(t), kerneltest.New(t)
	k, other := open(t, ours), open(t, theirs)
	mustApply(t, k, tree()...)
	var lines strings.Builder
	for _, op := range tree() {
		fmt.Fprintln(&lines, op.TC(kerneltest.Interface))
	}
	if err := theirs.TCBatch(lines.String()); err != nil {
		t.Fatal(err)
	}
	a, b := observe(t, k), observe(t, other)
	for _, s := range []tc.State{a, b} {
		slices.SortFunc(s.Classes, func(c, d tc.Class) int { return cmp.Compare(c.ID, d.ID) })
	}
	if got, want := fmt.Sprint(a.Qdiscs, a.Classes, a.Filters), fmt.Sprint(b.Qdiscs, b.Classes, b.Filters); got != want {
		t.Errorf("we made %s\ntc made %s", got, want)
	}
}

func TestApplyEndsWithItsContext(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rs := k.Apply(ctx, observe(t, k).Link, tree())
	if !errors.Is(rs[0].Err, context.Canceled) || !errors.Is(rs[1].Err, tc.ErrNotTried) {
		t.Errorf("got %v, %v", rs[0].Err, rs[1].Err)
	}
	if _, err := k.Observe(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := k.Stats(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestClosed(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	link := observe(t, k).Link
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	if err := k.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if _, err := k.Observe(t.Context()); !errors.Is(err, errClosed) {
		t.Errorf("got %v", err)
	}
	if _, err := k.Stats(t.Context()); !errors.Is(err, errClosed) {
		t.Errorf("got %v", err)
	}
	if _, err := k.Watch(t.Context()); !errors.Is(err, errClosed) {
		t.Errorf("got %v", err)
	}
	for _, op := range []tc.Op{add(root()), add(class(0x10, mbit)), change(class(0x10, mbit))} {
		if rs := k.Apply(t.Context(), link, []tc.Op{op}); !errors.Is(rs[0].Err, errClosed) {
			t.Errorf("%s: got %v", op, rs[0].Err)
		}
	}
	if _, err := Open(Options{Namespace: n.FD()}); err == nil {
		t.Error("opened without an interface")
	}
}
