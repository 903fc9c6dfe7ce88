package shaper

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/words"
)

// slower is what somebody makes of the class cross-cabinet.
func (b *bench) slower() tc.Op {
	for _, c := range b.desired.Plan.Classes {
		if c.Name == "cross-cabinet" {
			class := c.Class
			class.Rate /= 2
			return tc.Op{Verb: tc.Change, Object: class}
		}
	}
	b.t.Fatal("no class cross-cabinet")
	return tc.Op{}
}

// TestContentionSaysOverWhat: which object, what was wrong with it, how often, since when; in the snapshot, the history and the log. When
// it is over nothing is said any longer.
func TestContentionSaysOverWhat(t *testing.T) {
	run(t, nil, func(b *bench) {
		b.wait(10 * time.Minute) // so that the beginning of the fight is not that of the daemon
		began := time.Now()
		meddle := func() {
			b.t.Helper()
			b.kernel.Meddle(b.slower())
		}
		for range 5 {
			meddle()
			b.wait(100 * time.Millisecond)
		}
		s := b.Snapshot()
		c := s.Contention
		if !s.Contended || c == nil {
			t.Fatalf("contended %v, %+v", s.Contended, c)
		}
		if c.Repairs != freeRepairs+1 || c.Since.Before(began) || c.Since.Sub(began) > time.Second || !c.Next.After(time.Now()) {
			t.Errorf("%d repairs since %s, next at %s, and it began at %s", c.Repairs, c.Since, c.Next, began)
		}
		if len(c.Objects) != 1 || !strings.Contains(c.Objects[0].Object, "cross-cabinet") || c.Objects[0].Times != c.Repairs || !strings.Contains(c.Objects[0].Why, "rate is") {
			t.Errorf("objects %+v", c.Objects)
		}
		if s.InSync || !strings.Contains(s.Reason, "cross-cabinet") {
			t.Errorf("while the repair waits the reason is %q", s.Reason)
		}
		told := false
		for _, e := range b.History.Events() {
			told = told || e.Kind == EventContended && strings.Contains(e.Why, "cross-cabinet")
		}
		if !told {
			t.Errorf("the history does not say over what: %+v", b.History.Events())
		}
		b.wait(time.Until(c.Next) + time.Second) // the last repair
		c = b.Snapshot().Contention
		if c == nil || !b.Snapshot().InSync {
			t.Fatalf("after the last repair: %+v, %s", c, b.Snapshot().Reason)
		}
		if lines := c.Lines(time.Now()); !strings.HasSuffix(lines[len(lines)-1], "ends by itself at "+c.Ends.Format(time.TimeOnly)+" if nothing has to be repaired until then") {
			t.Errorf("lines %q", lines)
		}
		b.wait(time.Until(c.Ends) - time.Second)
		if !b.Snapshot().Contended {
			t.Error("it ended before it was said to")
		}
		b.wait(2 * time.Second)
		if s := b.Snapshot(); s.Contended || s.Contention != nil {
			t.Errorf("when it was to end: %+v", s.Contention)
		}
		b.wait(10 * time.Minute)
		if s := b.Snapshot(); s.Contended || s.Contention != nil {
			t.Errorf("after ten calm minutes: %+v", s.Contention)
		}
	})
}

// TestContentionOverTheRootNamesIt, who probably made the other and how to end that, and not what went with the root.
func TestContentionOverTheRootNamesIt(t *testing.T) {
	for name, c := range map[string]struct {
		take        func(b *bench)
		why, remedy string
	}{
		"YARN's": {func(b *bench) {
			b.kernel.TakeRoot(tc.Qdisc{Handle: tc.MakeHandle(0x42, 0), Parent: tc.Root, Kind: tc.KindHTB})
		}, "replaced by htb 42: (probably YARN's TrafficController", "set yarn.nodemanager.resource.network.enabled to false"},
		"an unknown one": {func(b *bench) {
			b.kernel.TakeRoot(tc.Qdisc{Handle: tc.MakeHandle(0x77, 0), Parent: tc.Root, Kind: "prio"})
		}, "replaced by prio 77: (probably another program", "stop what changes it"},
		"none": {func(b *bench) {
			state, _ := b.kernel.Observe(b.t.Context())
			root, _ := state.RootQdisc()
			b.kernel.Meddle(tc.Op{Verb: tc.Delete, Object: root})
		}, "removed, and with it all", "stop what changes it"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, nil, func(b *bench) {
				for range freeRepairs + 1 {
					c.take(b)
					b.wait(100 * time.Millisecond)
				}
				told := b.Snapshot().Contention
				if told == nil || len(told.Objects) != 1 {
					b.t.Fatalf("told %+v", told)
				}
				text := told.Words(time.UTC)
				if want := ", of the root qdisc: " + c.why; !strings.Contains(text, want) || !strings.Contains(text, fmt.Sprintf(" (%d times)", told.Repairs)) || strings.Contains(text, "cabinet") {
					b.t.Error(text)
				}
				if remedy := told.Remedy("eth1"); !strings.HasPrefix(remedy, c.remedy) || !strings.HasSuffix(remedy, "`bulkshaper clear`") {
					b.t.Error(remedy)
				}
			})
		})
	}
}

// TestContentionTellsTheLastReasonAsTheLast: what was wrong once is not said to have been wrong each time. What others hang on comes first.
func TestContentionTellsTheLastReasonAsTheLast(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var c contention
	for range 7 {
		c.repaired(now)
		c.note(now, Meddled{Object: "cross-cabinet 1:20", Why: "rate is 1mbit", kind: words.Class})
		c.note(now, Meddled{Object: "a filter", Why: "not there", kind: words.Destination})
	}
	c.repaired(now)
	for range 8 {
		c.note(now, Meddled{Object: rootObject, Why: "removed", kind: words.Root})
	}
	c.note(now, Meddled{Object: "cross-cabinet 1:20", Why: "not there", kind: words.Class})
	c.note(now, Meddled{Object: "a filter", Why: "not there", kind: words.Destination})
	text := c.told(now).Words(time.UTC)
	if want := ", of the root qdisc: removed (8 times); cross-cabinet 1:20: not there (that is the last of 8 times); a filter: not there (8 times)"; !strings.HasSuffix(text, want) {
		t.Errorf("%q does not end with %q", text, want)
	}
}

// TestContentionNamesTheChangers, the latest first and not those of long ago, and stays small whatever happens.
func TestContentionNamesTheChangers(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var c contention
	c.noticed(now.Add(-time.Hour), "process 1 (cron)")
	for i := range 200 {
		now = now.Add(time.Second)
		c.noticed(now, fmt.Sprintf("process %d (tc)", 100+i))
		c.noticed(now, "")
		c.repaired(now)
		c.note(now, Meddled{Object: fmt.Sprintf("object %d", i), Why: "gone"})
		c.note(now, Meddled{Object: "cross-cabinet 1:20", Why: "rate is 1mbit"})
	}
	told := c.told(now)
	if told == nil || len(told.By) != mostChangers || told.By[0] != "process 299 (tc)" {
		t.Fatalf("%+v", told)
	}
	if len(told.Objects) != mostMeddled || told.Objects[0].Object != "cross-cabinet 1:20" || told.Objects[0].Times != 200 {
		t.Errorf("%+v", told.Objects)
	}
	if len(c.by) > maxMeddled || len(c.meddled) > maxMeddled {
		t.Errorf("%d changers and %d objects are kept", len(c.by), len(c.meddled))
	}
	if text := told.Words(time.UTC); !strings.Contains(text, "200 repairs since ") || !strings.Contains(text, "cross-cabinet 1:20: rate is 1mbit (200 times)") || !strings.Contains(text, "process 299 (tc)") {
		t.Error(text)
	}
	long := shorter("rate is 1mbit, wanted 204800kbit, ceil is 1mbit, wanted 204800kbit, burst is 1600 bytes, wanted 1585, quantum is 12500")
	if long != "rate is 1mbit, wanted 204800kbit, ceil is 1mbit, wanted 204800kbit and more" && long != "rate is 1mbit, wanted 204800kbit, ceil is 1mbit and more" {
		t.Errorf("shorter: %s", long)
	}
	if c.told(now.Add(time.Hour)) != nil {
		t.Error("it is told an hour later")
	}
}
