package shaper

import "time"

// Named intervals of the loop, each with its reason.
const (
	// settle is how long kernel events are gathered before the kernel is read: one tc command makes several.
	settle = 10 * time.Millisecond
	// retryFirst and retryMost bound the wait after a failed or incomplete pass; it doubles in between.
	retryFirst = 100 * time.Millisecond
	retryMost  = 30 * time.Second
	// freeRepairs is how many repairs in a row are done at once; then they are spaced out, doubling to contendMost.
	freeRepairs = 3
	contendMin  = time.Second
	contendMost = time.Minute
	// answerPause is the least time between two answers to a SIGHUP that brought nothing new.
	answerPause = 10 * time.Second
	// quiet without a repair ends a contention.
	quiet = time.Minute
)

// DrainWait is how long a class that is no longer wanted may take to send what it holds; DrainPoll is how often to look.
const (
	DrainWait = 5 * time.Second
	DrainPoll = 50 * time.Millisecond
)

// retry is a wait that doubles until it is reset.
type retry struct{ next time.Duration }

func (r *retry) step() time.Duration {
	d := max(r.next, retryFirst)
	r.next = min(2*d, retryMost)
	return d
}

func (r *retry) reset() { r.next = 0 }
