package shaper

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/fakekernel"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
)

var bulk, unwanted = tc.MakeHandle(1, 0x20), tc.MakeHandle(1, 0x40)

// byHand is what somebody's script made: the classes of the incident and one more, with filters for two destinations.
func byHand(t *testing.T, k *fakekernel.Kernel) {
	t.Helper()
	root := tc.MakeHandle(1, 0)
	k.TakeRoot(tc.Qdisc{Handle: root, Kind: tc.KindHTB, HTB: tc.HTB{Default: 0x100, R2Q: 10}})
	var ops []tc.Op
	for _, minor := range []uint16{0x10, 0x20, 0x100, 0x40} {
		ops = append(ops, tc.Op{Verb: tc.Add, Object: tc.Class{ID: tc.MakeHandle(1, minor), Parent: tc.Root, Rate: 8e6, Ceil: 8e6, Buffer: 1000, Cbuffer: 1000, Quantum: 2000}})
	}
	for i, to := range []tc.Handle{bulk, unwanted} {
		ops = append(ops, tc.Op{Verb: tc.Add, Object: tc.Filter{Parent: root, Pref: uint16(49152 - i), Protocol: tc.ProtocolIP, Kind: tc.KindU32,
			Handle: tc.MakeU32Handle(0, 0, 0x800), ClassID: to, Sel: tc.MatchDestination(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(2 * i)}), 32))}})
	}
	for _, r := range k.Meddle(ops...) {
		if r.Err != nil {
			t.Fatalf("%s: %v", r.Op, r.Err)
		}
	}
}

func observed(t *testing.T, k *fakekernel.Kernel) tc.State {
	t.Helper()
	s, err := k.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// PROMISES.md: Somebody shapes the interface by hand-written tc
//
// TestLoopTakesOver a tree by hand whose queues hold packets: its filters are replaced at once, the queues when they are empty, and only
// then the tree is ours.
func TestLoopTakesOver(t *testing.T) {
	run(t, func(b *bench) {
		b.inputs.input.Config.Takeover = true
		byHand(t, b.kernel)
		b.kernel.SetBacklog(bulk, 40)
		b.kernel.SetBacklog(unwanted, 10)
	}, func(b *bench) {
		b.wait(time.Second)
		s := observed(t, b.kernel)
		if slices.ContainsFunc(s.Filters, func(f tc.Filter) bool { return f.Pref > 49000 }) {
			t.Error("the filters by hand stand")
		}
		if diff.Ownership(s).Kind != diff.Foreign || b.counts.get("add qdisc done") != 0 || b.counts.get("delete class done") != 0 {
			t.Errorf("queues were replaced with packets in them: %v", b.counts.n)
		}
		b.kernel.SetBacklog(bulk, 0)
		b.wait(time.Second)
		if b.counts.get("add qdisc done") != 0 {
			t.Error("the tree is ours, and a class that goes still drains")
		}
		b.kernel.SetBacklog(unwanted, 0)
		b.wait(time.Second)
		b.shaped()
		if b.counts.get("rebuilt") != 0 || len(b.counts.repairs()) != 0 || b.counts.get("delete class done") != 1 {
			t.Errorf("counted: %v", b.counts.n)
		}
		first := b.logs.All()[0].ContextMap()
		if told, ok := first["takeover"].(string); !ok || !strings.Contains(told, "1:20 (cross-cabinet)") {
			t.Errorf("log: %v", first)
		}
		if e := b.History.Events(); !slices.ContainsFunc(e, func(e Event) bool { return e.Takeover != "" }) {
			t.Errorf("history: %+v", e)
		}
	})
}

// PROMISES.md: Somebody shapes the interface by hand-written tc
//
// TestBringTakesOver waits for queues to drain, but not for ever.
func TestBringTakesOver(t *testing.T) {
	for name, drains := range map[string]time.Duration{"a queue that drains": time.Second, "a queue that is never empty": time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			k := fakekernel.New(testLink())
			byHand(t, k)
			k.SetBacklog(bulk, 40)
			go func() {
				time.Sleep(min(drains, 2*DrainWait))
				k.SetBacklog(bulk, 0)
			}()
			state := observed(t, k)
			want, err := Desire(benchInput(nil), "", FactsOf(state))
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			after, _, err := Bring(t.Context(), k, state, want.Plan, diff.Options{Takeover: true})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if took := time.Since(start); took < min(drains, DrainWait-DrainPoll) || took > min(drains, DrainWait)+time.Second {
				t.Errorf("%s: it took %s", name, took)
			}
			if changes, err := diff.Compute(after, want.Plan, diff.Options{}); err != nil || len(changes.Ops) > 0 {
				t.Errorf("%s: %+v, %v", name, changes, err)
			}
			if slices.ContainsFunc(after.Filters, func(f tc.Filter) bool { _, own := plan.OwnPref(f.Pref); return !own }) {
				t.Errorf("%s: filters by hand are left", name)
			}
			time.Sleep(2 * DrainWait) // the goroutine's end
		})
	}
}
