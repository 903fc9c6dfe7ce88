package shaper

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bulkshaper/shaper/config"
	"bulkshaper/shaper/override"
	"bulkshaper/shaper/tc"
)

// shelf is an OverrideStore in memory.
type shelf struct {
	mu   sync.Mutex
	list []override.Override
	err  error
	full error // of Remove
	wake chan struct{}
}

func (s *shelf) Load() ([]override.Override, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list), s.err
}

func (s *shelf) Remove(gone []override.Override) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full != nil {
		return s.full
	}
	s.list = slices.DeleteFunc(s.list, func(o override.Override) bool { return slices.ContainsFunc(gone, o.Same) })
	return nil
}

func (s *shelf) put(list ...override.Override) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = list
}

func crossAt(rate tc.BitRate, d time.Duration) override.Override {
	o := override.New("eth1", "cross-cabinet", config.Rate{Fixed: rate}, config.Rate{}, time.Now(), d)
	o.Why, o.By = "archive copy", "root"
	return o
}

// withShelf gives the bench overrides.
func withShelf(s *shelf) func(*bench) {
	return func(b *bench) {
		s.wake = make(chan struct{}, 1) // in the bubble of the test
		b.Overrides, b.OverridesChanged = s, s.wake
	}
}

const (
	crossRate = tc.BitRate(200_000_000)
	turned    = tc.BitRate(50_000_000)
)

func TestOverrideComesAndGoes(t *testing.T) {
	s := &shelf{}
	run(t, withShelf(s), func(b *bench) {
		if r := b.rateOf("cross-cabinet"); r != crossRate {
			t.Fatalf("configured %s", r)
		}
		s.put(crossAt(turned, 30*time.Minute))
		s.wake <- struct{}{}
		b.wait(0)
		if r := b.rateOf("cross-cabinet"); r != turned {
			t.Errorf("with the override %s", r)
		}
		snap := b.Snapshot()
		if len(snap.Overrides) != 1 || !snap.InSync {
			t.Fatalf("snapshot %+v", snap)
		}
		if o := snap.Overrides[0]; o.Class != "cross-cabinet" || o.Rate != uint64(turned) || o.Ceil != uint64(turned) || o.ConfiguredRate != uint64(crossRate) || o.Why != "archive copy" || o.By != "root" {
			t.Errorf("snapshot %+v", o)
		}
		// An edit of the files does not end it, a drift is put back to it.
		b.inputs.set(benchInput(map[string]string{"hadoop02": "b1"}), nil)
		b.files <- struct{}{}
		b.wait(0)
		if r := b.rateOf("cross-cabinet"); r != turned {
			t.Errorf("after a reload %s", r)
		}
		b.wait(29 * time.Minute)
		if r := b.rateOf("cross-cabinet"); r != turned {
			t.Errorf("a minute before its end %s", r)
		}
		b.wait(time.Minute + 2*beat)
		if r := b.rateOf("cross-cabinet"); r != crossRate || len(b.Snapshot().Overrides) != 0 || len(s.list) != 0 {
			t.Errorf("after its end %s, snapshot %v, stored %v", r, b.Snapshot().Overrides, s.list)
		}
		for _, message := range []string{"override set", "override ended"} {
			if n := b.logs.FilterMessage(message).Len(); n != 1 {
				t.Errorf("%q was logged %d times", message, n)
			}
		}
		var told []string
		for _, e := range b.History.Events() {
			told = append(told, string(e.Kind)+": "+e.Why)
		}
		text := strings.Join(told, "\n")
		for _, want := range []string{"override: override set: cross-cabinet at 50mbit until ", "by root (archive copy)", "changed: override set cross-cabinet at 50mbit",
			"override: override ended", "changed: override ended: cross-cabinet at 50mbit"} {
			if !strings.Contains(text, want) {
				t.Errorf("history lacks %q:\n%s", want, text)
			}
		}
	})
}

func TestOverrideClearedAndReplaced(t *testing.T) {
	s := &shelf{}
	run(t, withShelf(s), func(b *bench) {
		for _, step := range []struct {
			list []override.Override
			want tc.BitRate
		}{{[]override.Override{crossAt(turned, time.Hour)}, turned}, {[]override.Override{crossAt(turned/2, time.Hour)}, turned / 2}, {nil, crossRate}} {
			s.put(step.list...)
			s.wake <- struct{}{}
			b.wait(0)
			if r := b.rateOf("cross-cabinet"); r != step.want {
				t.Errorf("%s, want %s", r, step.want)
			}
		}
		if n := b.logs.FilterMessage("override cleared").Len(); n != 1 {
			t.Errorf("cleared was logged %d times", n)
		}
	})
}

// TestOverrideSurvivesRestart: it is in force from the first pass on, and has no more time than is left.
func TestOverrideSurvivesRestart(t *testing.T) {
	s := &shelf{}
	prepare := func(b *bench) {
		old := crossAt(turned/5, time.Minute)
		old.Since, old.Until = old.Since.Add(-time.Hour), old.Until.Add(-time.Hour)
		old.Class = "same-cabinet"
		s.put(crossAt(turned, time.Minute), old)
		withShelf(s)(b)
	}
	run(t, prepare, func(b *bench) {
		if r := b.rateOf("cross-cabinet"); r != turned || b.counts.get("applied") != 1 {
			t.Errorf("at the start %s after %d runs", r, b.counts.get("applied"))
		}
		if n := b.logs.FilterMessage("override had ended").Len(); n != 1 {
			t.Errorf("one that ended in the meantime was told %d times", n)
		}
		b.wait(time.Minute + 2*beat)
		if r := b.rateOf("cross-cabinet"); r != crossRate {
			t.Errorf("after its end %s", r)
		}
		if len(s.list) != 0 {
			t.Errorf("stored %v", s.list)
		}
	})
}

// TestOverrideIsToldOnce: a daemon that finds in the history that the one before followed an override does not tell of it as of something new.
func TestOverrideIsToldOnce(t *testing.T) {
	s := &shelf{}
	o := crossAt(turned, time.Minute)
	prepare := func(b *bench) {
		o = crossAt(turned, time.Minute)
		s.put(o)
		withShelf(s)(b)
		b.History = NewHistory(Event{Kind: EventOverride, Why: overrideStory("set", o)})
	}
	run(t, prepare, func(b *bench) {
		if r := b.rateOf("cross-cabinet"); r != turned {
			t.Errorf("at the start %s", r)
		}
		for message, want := range map[string]int{"override stands": 1, "override set": 0} {
			if n := b.logs.FilterMessage(message).Len(); n != want {
				t.Errorf("%q was logged %d times, want %d", message, n, want)
			}
		}
		set := 0
		for _, e := range b.History.Events() {
			if e.Why == overrideStory("set", o) {
				set++
			}
		}
		if set != 1 {
			t.Errorf("the history has it %d times", set)
		}
	})
}

// TestOverrideThatTheConfigForbids: an edit makes it impossible, so it is dropped and told, and the edit is followed.
func TestOverrideThatTheConfigForbids(t *testing.T) {
	s := &shelf{}
	run(t, withShelf(s), func(b *bench) {
		s.put(crossAt(turned, time.Hour))
		s.wake <- struct{}{}
		b.wait(0)
		next := benchInput(map[string]string{"hadoop02": "b1"})
		i := slices.IndexFunc(next.Config.Classes, func(c config.Class) bool { return c.Name == "cross-cabinet" })
		next.Config.Classes[i].Rate = config.Rate{Fixed: 20_000_000}
		b.inputs.set(next, nil)
		b.files <- struct{}{}
		b.wait(0)
		if r := b.rateOf("cross-cabinet"); r != 20_000_000 {
			t.Errorf("after the edit %s", r)
		}
		b.shaped()
		if r := b.Snapshot().LastReload; r.Result != ReloadSuccess {
			t.Errorf("last reload %+v", r)
		}
		dropped := b.logs.FilterMessage("override dropped, the config does not allow it any longer").All()
		if len(dropped) != 1 || !strings.Contains(dropped[0].ContextMap()["reason"].(string), "over its ceil 20mbit") {
			t.Errorf("log: %v", dropped)
		}
		if len(s.list) != 0 || len(b.Snapshot().Overrides) != 0 {
			t.Errorf("stored %v, snapshot %v", s.list, b.Snapshot().Overrides)
		}
		// It does not come back with the old config.
		b.inputs.set(benchInput(nil), nil)
		b.files <- struct{}{}
		b.wait(0)
		if r := b.rateOf("cross-cabinet"); r != crossRate {
			t.Errorf("after the config of before %s", r)
		}
	})
}

// TestOverrideStoreTrouble: what cannot be read changes nothing and is told once; what cannot be removed ends all the same.
//
// PROMISES.md: The overrides of the run folder cannot be read, or others could have written them
func TestOverrideStoreTrouble(t *testing.T) {
	s := &shelf{full: errors.New("read-only file system")}
	run(t, withShelf(s), func(b *bench) {
		s.put(crossAt(turned, time.Minute))
		s.wake <- struct{}{}
		b.wait(0)
		s.mu.Lock()
		s.err = errors.New("its mode 0666 lets others write it")
		s.mu.Unlock()
		for range 3 {
			s.wake <- struct{}{}
			b.wait(time.Second)
		}
		if r := b.rateOf("cross-cabinet"); r != turned {
			t.Errorf("with a file that cannot be read %s", r)
		}
		if n := b.logs.FilterMessage("overrides cannot be read, those in force stay until they end").Len(); n != 1 {
			t.Errorf("told %d times", n)
		}
		if text := b.Snapshot().OverridesError; !strings.Contains(text, "0666") {
			t.Errorf("the snapshot says %q", text)
		}
		if said := b.notes.list(); !strings.Contains(said[len(said)-1], "0666") {
			t.Errorf("the service manager was told %q", said)
		}
		b.wait(time.Minute)
		s.mu.Lock()
		s.err = nil
		s.mu.Unlock()
		for range 3 {
			s.wake <- struct{}{}
			b.wait(time.Minute)
		}
		if text := b.Snapshot().OverridesError; text != "" {
			t.Errorf("mended, the snapshot says %q", text)
		}
		if r := b.rateOf("cross-cabinet"); r != crossRate {
			t.Errorf("after its end %s", r)
		}
		if n := b.logs.FilterMessage("overrides that have ended cannot be removed; they have no effect").Len(); n != 1 {
			t.Errorf("told %d times", n)
		}
	})
}

// TestOverrideClocks: it ends by the wall clock when that jumps ahead, and when it has lasted its time where that was set back.
func TestOverrideClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := crossAt(turned, time.Hour)
		now := time.Now()
		a := activeOverride{o, now.Add(time.Hour)}
		wall := func(monotonic, set time.Duration) time.Time {
			// A time whose wall clock was set by that much: the monotonic reading stays with Add, the wall clock is that of o.
			a.Override.Since, a.Override.Until = o.Since.Add(-set), o.Until.Add(-set)
			return now.Add(monotonic)
		}
		for _, c := range []struct {
			passed, set time.Duration
			ended       bool
		}{{59 * time.Minute, 0, false}, {time.Hour, 0, true}, {time.Minute, time.Hour, true}, {time.Minute, 30 * time.Minute, false},
			{31 * time.Minute, 30 * time.Minute, true}, {59 * time.Minute, -24 * time.Hour, false}, {time.Hour, -24 * time.Hour, true}} {
			if got := a.ended(wall(c.passed, c.set)); got != c.ended {
				t.Errorf("%s later, with a clock set by %s: ended %v", c.passed, c.set, got)
			}
		}
	})
}
