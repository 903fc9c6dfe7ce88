package diff_test

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/kernel"
	"bulkshaper/shaper/kernel/kerneltest"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
)

// onKernel is a real kernel, with the fake's start replayed on it.
type onKernel struct {
	*kernel.Kernel
	t    *testing.T
	link tc.Link
}

func openKernel(t *testing.T) (*kerneltest.Namespace, onKernel) {
	n := kerneltest.New(t, kerneltest.WithAddresses(netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("2001:db8:ffff::1/64")))
	k, err := kernel.Open(kernel.Options{Namespace: n.FD(), Interface: kerneltest.Interface})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	s, err := k.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n, onKernel{k, t, s.Link}
}

func (k onKernel) observe(t failer) tc.State {
	s, err := k.Observe(k.t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (k onKernel) compute(t failer, p *plan.Plan) []tc.Op {
	c, err := diff.Compute(k.observe(t), p, diff.Options{Takeover: true})
	if err != nil {
		t.Fatal(err)
	}
	return c.Ops
}

// apply is done again while a hash table whose last link has just gone is still busy.
func (k onKernel) apply(t failer, p *plan.Plan) []tc.Op {
	first := k.compute(t, p)
	deadline := time.Now().Add(5 * time.Second)
	for ops := first; len(ops) > 0; ops = k.compute(t, p) {
		for _, r := range k.Apply(k.t.Context(), k.link, ops) {
			busy := errors.Is(r.Err, syscall.EBUSY) && r.Op.Object.Type() == "filter" || errors.Is(r.Err, tc.ErrNotTried)
			if r.Err != nil && (!busy || time.Now().After(deadline)) {
				t.Fatalf("%s (%s): %v\nof %s", r.Op, r.Op.Why, r.Err, text(ops))
			}
			if r.Err != nil {
				break
			}
		}
	}
	checkHolds(t, k.observe(t), p)
	return first
}

// TestRealKernelFollows: from plan to plan, and from what another hand makes of it, the real kernel takes every operation and holds
// what is wanted.
func TestRealKernelFollows(t *testing.T) {
	_, k := openKernel(t)
	rapid.Check(t, func(r *rapid.T) {
		k.Apply(t.Context(), k.link, []tc.Op{remove(tc.Qdisc{Parent: tc.Root})})
		for range 3 {
			k.apply(r, plans().Draw(r, "plan").plan(r))
			// Not in the way: tables and nodes at our prefs, a class made by hand, a leaf and filters gone.
			s := k.observe(r)
			table := tc.Filter{Parent: id(0), Pref: 12000, Protocol: tc.ProtocolIP, Kind: tc.KindU32, Handle: tc.MakeU32Handle(1, 0, 0), Divisor: 4}
			below := node(12000, 0, 0x70, "10.0.0.0/24", 0)
			below.Link, below.Sel.HMask, below.Sel.HOff = table.Handle, 3, 16
			hand := []tc.Op{add(table), add(below), add(node(12000, 0, 0x71, "10.0.0.1/32", id(0x100))), add(node(12008, 0, 0x71, "10.0.0.0/24", id(0x5))),
				add(class(0x777, tc.Root)), add(node(5, 0, 1, "10.9.0.0/16", id(0x777))), remove(leaf(0x10)), remove(rapid.SampledFrom(s.Classes).Draw(r, "class"))}
			for _, f := range s.Filters {
				if f.IsNode() && rapid.IntRange(0, 3).Draw(r, "delete") == 0 {
					hand = append(hand, remove(f))
				}
			}
			for _, op := range hand {
				if rapid.Bool().Draw(r, "do") {
					k.Apply(t.Context(), k.link, []tc.Op{op}) // what the kernel refuses does not matter
				}
			}
		}
	})
}

// TestTablesThatTheKernelNumbered: tables without an id get one of the kernel's, like root tables. At our prefs they go, with their
// nodes, and are not taken for the list.
func TestTablesThatTheKernelNumbered(t *testing.T) {
	n, k := openKernel(t)
	p := base().plan(t)
	k.apply(t, p)
	n.TC("filter", "add", "dev", "eth1", "parent", "1:", "protocol", "ip", "pref", "12000", "u32", "divisor", "1")
	id := uint32(0)
	for _, f := range k.observe(t).Filters {
		if f.Pref == 12000 && f.Divisor != 0 {
			id = max(id, f.Handle.Table())
		}
	}
	table := tc.MakeU32Handle(id, 0, 0).String()
	if err := n.TCBatch("filter add dev eth1 parent 1: protocol ip pref 12000 handle " + table + ":1 u32 ht " + table + " match ip dst 10.0.0.7/32 flowid 1:10\n" +
		"filter add dev eth1 parent 1: protocol ip pref 12000 handle ::9 u32 match ip dst 10.0.0.0/24 link " + table + "\n"); err != nil {
		t.Fatal(err)
	}
	s := base()
	s.destinations = append(s.destinations, "10.0.0.7/32 c10") // as in the table, where it does not count
	k.apply(t, s.plan(t))
	for _, f := range k.observe(t).Filters {
		if f.Handle.Table() == id || f.Link != 0 {
			t.Errorf("left: %s", f.Ident())
		}
	}
}

// TestRealPacketsFollow: real packets are counted in the class that the plan gives their address, before and after a change, and
// counters go on.
func TestRealPacketsFollow(t *testing.T) {
	n, k := openKernel(t)
	sent := map[tc.Handle]uint64{}
	for _, s := range []spec{base(), edit(base(), nil, map[int]string{0: "10.0.0.1/32 c20", 2: "10.0.0.0/25 c10"})} {
		p := s.plan(t)
		k.apply(t, p)
		for _, address := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.200", "10.0.9.9", "10.99.0.1", "2001:db8::1", "2001:db8::2"} {
			a := netip.MustParseAddr(address)
			n.Send(t, a, 5)
			sent[wantedVerdict(p, a)] += 5
		}
		deadline := time.Now().Add(5 * time.Second)
		for {
			stats, err := k.Stats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			wrong := ""
			for _, c := range stats.Classes {
				if c.SentPackets != sent[c.Class.ID] {
					wrong += c.Class.ID.String() + " "
				}
			}
			if wrong == "" && stats.DirectPackets == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("wrong counts: %s: %+v, wanted %v", wrong, stats, sent)
			}
		}
	}
}
