package shaper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
)

const (
	// bringTries is how often Bring goes on after somebody changed the kernel under it, or while a class drains, with some to spare for when
	// it has drained or may no longer wait.
	bringTries = int(DrainWait/DrainPoll) + 20
	// raceTries is how often it looks again at what stands when another one is at work.
	raceTries = 10
)

// Bring makes the kernel, which was observed as state, hold want: once, for those who are no loop. It gives the state at the end and
// how many operations were done, also where it fails.
func Bring(ctx context.Context, k Kernel, state tc.State, want *plan.Plan, options diff.Options) (after tc.State, done int, err error) {
	drained := time.Now().Add(DrainWait)
	for try := 1; ; try++ {
		waiting := map[tc.Handle]bool{} // one answer a try: what was put off is then not missed in the read-back
		keep := func(id tc.Handle) bool {
			if _, asked := waiting[id]; !asked {
				waiting[id] = time.Now().Before(drained) && backlogged(ctx, k, id)
			}
			return waiting[id]
		}
		out, err := Converge(ctx, k, state, want, options, keep)
		done += out.Done()
		switch {
		case raced(err) && try < raceTries:
			time.Sleep(rand.N(DrainPoll))
		case err != nil:
			return out.State, done, err
		case out.Converged:
			return out.State, done, nil
		case try == bringTries:
			return out.State, done, fmt.Errorf("%s: %w", want.Interface, ErrNotConverged)
		default:
			time.Sleep(DrainPoll)
		}
		if state, err = k.Observe(ctx); err != nil {
			return state, done, err
		}
	}
}

// raced tells whether the kernel was not as it had been observed a moment before. ENOSPC is how a list answers where another took the
// number of a filter.
func raced(err error) bool {
	for _, sign := range []error{ErrNotConverged, syscall.EEXIST, syscall.ENOENT, syscall.EBUSY, syscall.ENOSPC} {
		if errors.Is(err, sign) {
			return true
		}
	}
	return false
}

func backlogged(ctx context.Context, k Kernel, id tc.Handle) bool {
	stats, err := k.Stats(ctx)
	if err != nil {
		return false
	}
	for _, c := range stats.Classes {
		if c.Class.ID == id {
			return c.BacklogPackets > 0
		}
	}
	return false
}
