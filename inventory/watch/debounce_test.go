package watch

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestDebouncer holds the two promises for any stream of events: a burst ends quiet after its last event, or patience*quiet
// after its first, whichever comes first, and never earlier.
func TestDebouncer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		quiet := time.Duration(rapid.IntRange(0, 1000).Draw(t, "quiet"))
		gaps := rapid.SliceOfN(rapid.IntRange(0, 1500), 1, 60).Draw(t, "gaps")
		d := debouncer{quiet: quiet}
		now := time.Unix(0, 0)
		var first, last time.Time
		for _, gap := range gaps {
			next := now.Add(time.Duration(gap))
			if d.pending && d.due(now) <= next.Sub(now) { // it fires before the next event
				fired := now.Add(d.due(now))
				want := last.Add(quiet)
				if limit := first.Add(patience * quiet); limit.Before(want) {
					want = limit
				}
				if !fired.Equal(want) {
					t.Fatalf("fired at %v, want %v", fired, want)
				}
				d.done()
			}
			now = next
			if !d.pending {
				first = now
			}
			last = now
			d.event(now)
			if d.due(now) > quiet {
				t.Fatalf("due in %v, more than %v", d.due(now), quiet)
			}
			if quiet == 0 && d.due(now) > 0 {
				t.Fatal("not due at once without a quiet time")
			}
		}
	})
}
