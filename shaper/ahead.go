package shaper

import (
	"context"

	"bulkshaper/shaper/tc"
)

// observation is a reading of the kernel that was begun before a pass needed it.
type observation struct {
	state tc.State
	err   error
}

// lookAhead begins to read the kernel beside the making of a plan: with 100,000 filters each takes as long as the other. The next pass
// takes what was read. It is as old as the plan took; what somebody changes after it shows in the read-back, as it does after any reading.
func (l *Loop) lookAhead(ctx context.Context) {
	ahead := make(chan observation, 1)
	l.ahead = ahead
	go func() {
		pass, cancel := context.WithTimeout(context.WithoutCancel(ctx), passTimeout)
		defer cancel()
		state, err := l.Kernel.Observe(pass)
		ahead <- observation{state, err}
	}()
}

// observe is what was read ahead, or else a reading.
func (l *Loop) observe(ctx context.Context) (tc.State, error) {
	if l.ahead == nil {
		return l.Kernel.Observe(ctx)
	}
	o := <-l.ahead
	l.ahead = nil
	return o.state, o.err
}

// lookNoMore waits for what was begun and nobody took, and drops it.
func (l *Loop) lookNoMore() {
	if l.ahead != nil {
		<-l.ahead
		l.ahead = nil
	}
}
