package shaper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
)

// Outcome is what one pass from observation to read-back did.
type Outcome struct {
	// Before is what was compared, State the last one observed.
	Before, State tc.State
	// Changes is what was found to do at the start; its operations are those tried.
	Changes *diff.Changes
	Results []tc.Result
	// Converged says that the read-back left nothing to do.
	Converged bool
	// Draining are classes whose deletion waits for their queue to empty.
	Draining []tc.Handle
	Took     time.Duration
}

// Done is how many operations the kernel accepted.
func (o Outcome) Done() int {
	n := 0
	for _, r := range o.Results {
		if r.Err == nil {
			n++
		}
	}
	return n
}

// ErrNotConverged says that every operation was accepted and yet the kernel does not hold what was asked for: somebody
// else is changing it, or it is a kernel that the program does not understand.
var ErrNotConverged = errors.New("the kernel does not hold what it accepted")

// Converge brings the kernel from the observed state to the wanted one and reads it back. Classes in keep are not deleted
// yet. The error is that of the first operation that failed; the outcome is good in either case.
func Converge(ctx context.Context, k Kernel, state tc.State, want *plan.Plan, options diff.Options, keep func(tc.Handle) bool) (Outcome, error) {
	return converge(ctx, k, state, want, options, keep, maxRounds)
}

// converge is Converge in at most so many rounds.
func converge(ctx context.Context, k Kernel, state tc.State, want *plan.Plan, options diff.Options, keep func(tc.Handle) bool, rounds int) (Outcome, error) {
	start := time.Now()
	state, changes, err := compute(ctx, k, state, want, options)
	out := Outcome{Before: state, State: state}
	if err != nil {
		return out, err
	}
	out.Changes = changes
	ops, draining := withhold(changes.Ops, keep)
	out.Draining = draining
	if len(ops) == 0 {
		out.Converged = len(draining) == 0
		return out, nil
	}
	out.Results = Apply(ctx, k, state.Link, ops)
	out.Took = time.Since(start)
	failed := firstFailure(out.Results)
	after, err := k.Observe(ctx)
	if err != nil {
		return out, errors.Join(failed, fmt.Errorf("read back: %w", err))
	}
	out.State = after
	further := func() (Outcome, error) {
		again, err := converge(ctx, k, after, want, options, keep, rounds-1)
		again.Before, again.Results, again.Took = state, append(out.Results, again.Results...), time.Since(start)
		if again.Changes != nil {
			again.Changes.Rebuild = cmp.Or(changes.Rebuild, again.Changes.Rebuild)
			again.Changes.Takeover = cmp.Or(changes.Takeover, again.Changes.Takeover)
			again.Changes.Advice = cmp.Or(changes.Advice, again.Changes.Advice)
		}
		return again, err
	}
	if hidden := diff.HiddenTables(out.Results); len(hidden) > 0 && rounds > 1 {
		options.BannedTables = append(slices.Clone(options.BannedTables), hidden...)
		return further()
	}
	if failed != nil {
		return out, failed
	}
	left, err := diff.Compute(after, want, diff.Options{Owned: true, Takeover: options.Takeover})
	if err != nil {
		return out, fmt.Errorf("read back: %w", err)
	}
	rest, _ := withhold(left.Ops, keep)
	if len(rest) > 0 && len(options.BannedTables) > 0 && rounds > 1 {
		// The tables that were passed over have come to light with their pref, and can go now.
		options.BannedTables = nil
		return further()
	}
	if len(rest) > 0 {
		return out, fmt.Errorf("%w: after %d operations still to do: %s (%s)", ErrNotConverged, len(ops), rest[0], rest[0].Why)
	}
	out.Converged = len(draining) == 0
	return out, nil
}

// firstFailure is the error of the first operation that failed by itself: those before it may have been taken back for its sake.
func firstFailure(results []tc.Result) error {
	var failed error
	for _, r := range results {
		if r.Err != nil && (failed == nil || !errors.Is(r.Err, tc.ErrNotTried)) {
			failed = fmt.Errorf("%s: %w", r.Op, r.Err)
		}
		if r.Err != nil && !errors.Is(r.Err, tc.ErrNotTried) {
			break
		}
	}
	return failed
}

// A hash table that was unlinked cannot be deleted while packets may be in it: the kernel answers EBUSY for 20 to 45 ms, and
// as long again for each table below it.
const (
	tablePoll     = 5 * time.Millisecond
	tablePatience = 2 * time.Second
)

// Another process of ours that sets up the same interface makes root, class and leaf in one go, but the kernel lets others read in
// between. A root that looks as if it were just being made is looked at again for so long.
const (
	newRootPoll     = 20 * time.Millisecond
	newRootPatience = 200 * time.Millisecond
)

// compute is diff.Compute, with patience for a root that is being made. It returns the state that was compared.
func compute(ctx context.Context, k Kernel, state tc.State, want *plan.Plan, options diff.Options) (tc.State, *diff.Changes, error) {
	for end := time.Now().Add(newRootPatience); ; {
		changes, err := diff.Compute(state, want, options)
		var foreign *diff.ForeignRootError
		if !errors.As(err, &foreign) || !beingMade(state, foreign.Root) || time.Now().After(end) {
			return state, changes, err
		}
		time.Sleep(newRootPoll)
		if state, err = k.Observe(ctx); err != nil {
			return state, nil, err
		}
	}
}

// beingMade tells whether root may be ours with the mark, the leaf of its first class, still to come.
func beingMade(state tc.State, root tc.Qdisc) bool {
	return root.Kind == tc.KindHTB && root.Handle == tc.MakeHandle(tc.Major, 0) && len(state.Classes) <= 1 && len(state.Filters) == 0
}

// maxRounds bounds how often a pass begins again since hash tables are in the way that the kernel has and does not show: those of a
// pref that somebody deleted before its tables. A round finds at least one.
const maxRounds = 256

// Apply does the operations in order, and has patience with tables.
func Apply(ctx context.Context, k Kernel, link tc.Link, ops []tc.Op) []tc.Result {
	var results []tc.Result
	for len(ops) > 0 {
		n := 0
		tables := deletesTable(ops[0])
		for n < len(ops) && deletesTable(ops[n]) == tables {
			n++
		}
		var done []tc.Result
		if tables {
			done = deleteTables(ctx, k, link, ops[:n])
		} else {
			done = k.Apply(ctx, link, ops[:n])
		}
		results, ops = append(results, done...), ops[n:]
		if slices.ContainsFunc(done, func(r tc.Result) bool { return r.Err != nil }) {
			break
		}
	}
	for _, op := range ops {
		results = append(results, tc.Result{Op: op, Err: tc.ErrNotTried})
	}
	return results
}

func deletesTable(op tc.Op) bool {
	f, ok := op.Object.(tc.Filter)
	return ok && op.Verb == tc.Delete && f.Divisor != 0
}

// deleteTables tries again and again what is busy.
func deleteTables(ctx context.Context, k Kernel, link tc.Link, ops []tc.Op) []tc.Result {
	var done []tc.Result
	for end := time.Now().Add(tablePatience); ; {
		var busy []tc.Op
		var waiting []tc.Result
		for _, r := range k.Apply(ctx, link, ops) {
			if errors.Is(r.Err, unix.EBUSY) || errors.Is(r.Err, tc.ErrNotTried) {
				busy, waiting = append(busy, r.Op), append(waiting, r)
				continue
			}
			done = append(done, r)
		}
		if len(busy) == 0 || ctx.Err() != nil || time.Now().After(end) {
			return append(done, waiting...)
		}
		ops = busy
		time.Sleep(tablePoll)
	}
}

// withhold takes out the deletions of classes that keep names, but for those of classes that are added again. What drains classes is taken
// out, all of it, where anything else is or where one of these is kept.
func withhold(ops []tc.Op, keep func(tc.Handle) bool) ([]tc.Op, []tc.Handle) {
	if keep == nil {
		return ops, nil
	}
	again := map[tc.Handle]bool{}
	for _, op := range ops {
		if c, ok := op.Object.(tc.Class); ok && op.Verb == tc.Add {
			again[c.ID] = true
		}
	}
	var now, drains []tc.Op
	var held []tc.Handle
	for _, op := range ops {
		if op.Drains != tc.Unspec {
			if drains = append(drains, op); !again[op.Drains] && keep(op.Drains) {
				held = append(held, op.Drains)
			}
			continue
		}
		if c, ok := op.Object.(tc.Class); ok && op.Verb == tc.Delete && !again[c.ID] && keep(c.ID) {
			held = append(held, c.ID)
			continue
		}
		now = append(now, op)
	}
	if len(held) == 0 { // they are the last ones
		now = append(now, drains...)
	}
	return now, held
}
