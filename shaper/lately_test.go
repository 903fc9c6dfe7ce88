package shaper

import (
	"strings"
	"testing"
	"time"

	"bulkshaper/shaper/override"
	"bulkshaper/shaper/tc"
)

// TestLately: what went by within the hour and shows nowhere else is told, what is older or was done by a person on purpose is not.
func TestLately(t *testing.T) {
	s := &shelf{}
	run(t, withShelf(s), func(b *bench) {
		lately := func() (texts []string) {
			for _, h := range Lately(b.History.Events(), time.Now()) {
				if h.Times > 0 && !h.Time.IsZero() {
					texts = append(texts, string(h.Kind)+": "+h.Text)
				}
			}
			return texts
		}
		if got := lately(); len(got) != 0 {
			t.Errorf("after the start: %q", got)
		}
		b.kernel.Meddle(tc.Op{Verb: tc.Delete, Object: b.desired.Plan.Root})
		b.wait(5 * time.Minute)
		if got := lately(); len(got) != 1 || !strings.HasPrefix(got[0], "repaired: add qdisc") {
			t.Errorf("after a repair: %q", got)
		}
		put := func(list ...override.Override) {
			s.put(list...)
			s.wake <- struct{}{}
			b.wait(0)
		}
		put(crossAt(turned, time.Hour))
		put() // cleared by a person
		put(crossAt(turned, 10*time.Minute))
		b.wait(10*time.Minute + 2*beat)
		got := lately()
		if len(got) != 2 || !strings.HasPrefix(got[1], "override: ended: cross-cabinet at 50mbit until ") || !strings.Contains(got[1], "by root") {
			t.Errorf("after an override's end: %q", got)
		}
		put(crossAt(turned, time.Hour))
		gone := benchInput(nil)
		gone.Config.Classes[1].Name, gone.Config.Rules = "elsewhere", nil
		b.inputs.set(gone, nil)
		b.files <- struct{}{}
		b.wait(0)
		if got := lately(); len(got) != 3 || !strings.HasPrefix(got[1], "override: dropped: cross-cabinet at 50mbit") || !strings.Contains(got[1], "does not exist") {
			t.Errorf("after its class went: %q; %+v", got, b.Snapshot().LastReload)
		}
		b.wait(LatelySpan + time.Second)
		if got := lately(); len(got) != 0 {
			t.Errorf("an hour later: %q", got)
		}
	})
}
