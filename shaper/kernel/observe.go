package kernel

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"bulkshaper/shaper/kernel/wire"
	"bulkshaper/shaper/tc"
)

const (
	// maxReads bounds how often the tables are read until two readings in a row agree.
	maxReads = 10
	// firstPause is the wait after the first disagreement; it doubles, to about half a second in all.
	firstPause = time.Millisecond
)

// seen is the last state that two readings agreed on, with the sum of its fingerprints.
type seen struct {
	sum   uint64
	state tc.State
}

// Observe reads the link, its qdiscs, classes and filters. It reads until two readings in a row agree, since the kernel
// does not mark a dump during which filters were deleted; the last call's counts, so where nothing changed one reading is enough.
// The lists belong to other states, too, and may not be changed. The error is tc.ErrNoInterface while there is no such interface.
//
// Classes and filters are read below an htb root only: those of other qdiscs are not ours and may be many. Qdiscs are the root and
// what hangs below it by its handle; the children that mq makes for itself are left out.
func (k *Kernel) Observe(ctx context.Context) (tc.State, error) {
	k.read.mu.Lock()
	defer k.read.mu.Unlock()
	agreed, before := k.seen != nil, uint64(0)
	if agreed {
		before = k.seen.sum
	}
	var torn error
	decode, pause := k.seen == nil, firstPause
	for reads := 0; reads < maxReads; reads++ {
		if err := ctx.Err(); err != nil {
			return tc.State{}, err
		}
		state, sum, err := k.readState(decode)
		switch {
		case errors.Is(err, errTorn):
			agreed, torn = false, err
		case err != nil:
			return tc.State{}, err
		case agreed && sum == before:
			if !decode {
				state.Filters = k.seen.state.Filters
			}
			state.AutoLeaf = k.findAutoLeaf(state)
			k.seen = &seen{sum: sum, state: state}
			return state, nil
		case !agreed, reads == 0:
			agreed, before, decode = true, sum, true
			continue // the second reading follows at once
		default:
			before, torn = sum, errTorn
		}
		decode = true
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			pause *= 2
		}
	}
	return tc.State{}, fmt.Errorf("read traffic control of %s: %w, %d times", k.name, torn, maxReads)
}

// readState reads everything once, of the filters without decode the counters only; the sum is the same for two readings that agree.
func (k *Kernel) readState(decode bool) (tc.State, uint64, error) {
	var h maphash.Hash
	h.SetSeed(k.seed)
	link, err := k.readLink()
	if err != nil {
		return tc.State{}, 0, err
	}
	fmt.Fprint(&h, link)
	s := tc.State{Link: link}
	if s.Qdiscs, err = readQdiscs(k.read, link.Index, &h); err != nil {
		return s, 0, fmt.Errorf("read qdiscs of %s: %w", k.name, err)
	}
	root, ok := s.RootQdisc()
	if !ok || root.Kind != tc.KindHTB || root.Handle == tc.Unspec {
		return s, h.Sum64(), nil
	}
	err = k.read.dump(unix.RTM_GETTCLASS, link.Index, root.Handle, func(o wire.Object) error {
		if o.Index != link.Index || o.Kind != tc.KindHTB || tc.Handle(o.Handle).Major() != root.Handle.Major() {
			return nil
		}
		o.Fingerprint(&h)
		c, err := o.Class()
		s.Classes = append(s.Classes, c)
		return err
	})
	if err != nil {
		return s, 0, fmt.Errorf("read classes of %s: %w", k.name, err)
	}
	if decode && k.seen != nil {
		s.Filters = slices.Grow(s.Filters, len(k.seen.state.Filters))
	}
	var hits []uint64
	counts := false
	err = k.read.dump(unix.RTM_GETTFILTER, link.Index, root.Handle, func(o wire.Object) error {
		pref := o.Kind == tc.KindU32 && o.Handle == 0 // the pref itself: its root table says as much
		if o.Index != link.Index || o.Chain != 0 || pref {
			return nil
		}
		if place := o; o.Kind != tc.KindU32 { // of other kinds only that is read, and what is in them may change all the time
			place.Options = nil
			place.Fingerprint(&h)
		} else {
			o.Fingerprint(&h)
		}
		n, counted, err := o.Hits()
		if counted && !counts { // tables come first, and have none
			counts, hits = true, slices.Grow(hits, cap(s.Filters))
		}
		if hits = append(hits, n); err != nil || !decode {
			return err
		}
		f, err := o.Filter()
		s.Filters = append(s.Filters, f)
		return err
	})
	if err != nil {
		return s, 0, fmt.Errorf("read filters of %s: %w", k.name, err)
	}
	if len(s.Filters) == 0 {
		s.Filters = nil
	}
	if counts {
		s.Hits = hits
	}
	return s, h.Sum64(), nil
}

// readQdiscs reads the root and what hangs below it by its handle.
func readQdiscs(c *conn, index int, h *maphash.Hash) ([]tc.Qdisc, error) {
	var all []tc.Qdisc
	err := c.dump(unix.RTM_GETQDISC, index, tc.Unspec, func(o wire.Object) error {
		if o.Index != index {
			return nil
		}
		o.Fingerprint(h)
		q, err := o.Qdisc()
		all = append(all, q)
		return err
	})
	if err != nil {
		return nil, err
	}
	root, ok := tc.State{Qdiscs: all}.RootQdisc()
	var kept []tc.Qdisc
	for _, q := range all {
		below := ok && root.Handle != tc.Unspec && q.Parent.Major() == root.Handle.Major()
		if q.Parent == tc.Root || below {
			kept = append(kept, q)
		}
	}
	return kept, nil
}
