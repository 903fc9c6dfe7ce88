package shaper

import (
	"context"
	"time"

	"go.uber.org/zap"

	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/tc"
)

// hold waits before the first pass for as long as Options.Hold says. Meanwhile it looks, so that whoever asks is told what stands and
// what is wanted, and changes nothing.
func (l *Loop) hold(ctx context.Context, events <-chan tc.Event) {
	if l.Hold == nil {
		return
	}
	told, stale, looked := false, true, time.Time{}
	for why := l.Hold(); why != ""; why = l.Hold() {
		if since := time.Since(looked); stale && since >= beat/4 || since >= holdLook {
			l.lookHeld(ctx, why)
			stale, looked = false, time.Now()
		}
		if !told {
			told = true
			l.Log.Warn("not shaping yet", zap.String("reason", why))
			l.tell()
		}
		l.heartbeat.Store(int64(time.Since(l.began)))
		select {
		case <-ctx.Done():
			return
		case _, ok := <-events:
			if !ok {
				events = nil
			}
			stale = true
			time.Sleep(settle) // one change makes several events
		case <-time.After(beat / 4):
		}
	}
	l.publish(func(s *Snapshot) { s.Unconfirmed = "" })
}

// holdLook is how often the kernel is read while the first pass has to wait and nothing is heard of it.
const holdLook = 10 * beat

// lookHeld publishes what stands and what is wanted, while nothing may be changed for the reason why.
func (l *Loop) lookHeld(ctx context.Context, why string) {
	pass, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	l.readOverrides() // the reason for a pass that it may give is of no use yet
	state, err := l.Kernel.Observe(pass)
	if err == nil {
		l.publish(func(s *Snapshot) { s.InterfaceUp = state.Link.Up })
		err = l.plan(state)
	}
	reason := "not shaping yet: " + why
	if err != nil {
		reason += "; and then: " + err.Error()
	} else if changes, err := diff.Compute(state, l.desired.Plan, diff.Options{Takeover: l.input.Config.Takeover}); err != nil {
		reason += "; and then: " + err.Error()
	} else {
		l.publish(func(s *Snapshot) { s.Foreign, s.Filters = changes.Foreign, CostsOf(l.desired.Plan, state.Filters) })
	}
	l.publish(func(s *Snapshot) { s.InSync, s.Reason, s.Unconfirmed = false, reason, why })
}
