package watch

import "time"

// patience is how many quiet times a constant stream of events is waited out.
const patience = 10

// debouncer says when a burst of events is over: quiet after its last event, and patience*quiet after its first if it does not
// end. It has no clock of its own.
type debouncer struct {
	quiet       time.Duration
	pending     bool
	first, last time.Time
}

// event takes down an event at now.
func (d *debouncer) event(now time.Time) {
	if !d.pending {
		d.pending, d.first = true, now
	}
	d.last = now
}

// due is how long it is from now until the burst counts as over, 0 or less if it does. Only meaningful while pending.
func (d *debouncer) due(now time.Time) time.Duration {
	end := d.last.Add(d.quiet)
	if limit := d.first.Add(patience * d.quiet); limit.Before(end) {
		end = limit
	}
	return end.Sub(now)
}

// done ends the burst.
func (d *debouncer) done() { d.pending = false }
