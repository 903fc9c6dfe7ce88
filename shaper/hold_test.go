package shaper

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bulkshaper/shaper/tc"
)

// TestHeldLoopSaysWhatStands: while an apply waits for its confirmation nothing is sent to the kernel, and yet it is told whose node this is,
// that the interface is up, or has gone down since, and which class an address would be in.
func TestHeldLoopSaysWhatStands(t *testing.T) {
	const why = "an apply on eth1 waits for confirmation until noon"
	var held atomic.Bool
	held.Store(true)
	run(t, func(b *bench) {
		b.Hold = func() string {
			if held.Load() {
				return why
			}
			return ""
		}
	}, func(b *bench) {
		s := b.Snapshot()
		if !s.InterfaceUp || s.Node != "hadoop01" || len(s.Classes) == 0 || s.InSync || s.Unconfirmed != why || !strings.Contains(s.Reason, why) {
			t.Errorf("%+v", s)
		}
		if f, ok := b.Find("10.0.0.2"); !ok || len(f.Answers) != 1 || f.Answers[0].Class == "" {
			t.Errorf("asked for an address: %v %+v", ok, f)
		}
		if age := time.Since(b.Heartbeat()); age < 0 || age > 2*beat {
			t.Errorf("the loop came around %s ago", age)
		}
		link := testLink()
		link.Up = false
		b.kernel.SetLink(link)
		b.wait(time.Minute)
		if s := b.Snapshot(); s.InterfaceUp {
			t.Error("it went down, and is still told to be up")
		}
		if n := len(b.logs.FilterMessage("not shaping yet").All()); n != 1 {
			t.Errorf("told %d times", n)
		}
		if state, err := b.kernel.Observe(t.Context()); err != nil || len(state.Classes) != 0 || b.counts.get("applied") != 0 {
			t.Errorf("%v, the kernel has %d classes", err, len(state.Classes))
		}
		b.kernel.SetLink(testLink())
		held.Store(false)
		b.wait(time.Minute)
		b.shaped()
		if s := b.Snapshot(); s.Unconfirmed != "" || !s.InterfaceUp {
			t.Errorf("afterwards: %+v", s)
		}
	})
}

// TestStartSaysWhatItChanged: the start of a daemon is told as one, with what it did; one that found all as it should be says that.
func TestStartSaysWhatItChanged(t *testing.T) {
	run(t, nil, func(b *bench) {
		if r := b.Snapshot().LastReload; !r.Start || r.Operations == 0 || len(r.Changed) == 0 {
			t.Errorf("after a start that set up all: %+v", r)
		}
		b.inputs.set(benchInput(map[string]string{"hadoop02": "b1"}), nil)
		b.files <- struct{}{}
		b.wait(0)
		if r := b.Snapshot().LastReload; r.Start || r.Operations != 1 {
			t.Errorf("after an edit: %+v", r)
		}
		// What drifts later is not what a reload did.
		b.kernel.Meddle(tc.Op{Verb: tc.Delete, Object: b.desired.Plan.Root})
		b.wait(time.Minute)
		if r := b.Snapshot().LastReload; r.Operations != 1 {
			t.Errorf("after a repair: %+v", r)
		}
	})
}
