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
	// maxReads bounds how often the tables are read until a reading counts.
	maxReads = 10
	// stillReads is how many readings may be disturbed before two in a row that agree are enough.
	stillReads = 6
	// firstPause is the wait after the first reading that does not count; it doubles, to about half a second in all.
	firstPause = time.Millisecond
)

// seen is the last state that counted, with the sum of its fingerprints.
type seen struct {
	sum   uint64
	state tc.State
}

// Observe reads the link, its qdiscs, classes and filters. The kernel does not mark a dump during which filters came or went, and leaves
// out others then; so a reading counts if the kernel told of no change meanwhile, or if it says what the last call's did. Where somebody
// changes something all the time, two readings in a row that agree have to be enough.
// The lists belong to other states, too, and may not be changed. The error is tc.ErrNoInterface while there is no such interface.
//
// Classes and filters are read below an htb root only: those of other qdiscs are not ours and may be many. Qdiscs are the root and
// what hangs below it by its handle; the children that mq makes for itself are left out.
func (k *Kernel) Observe(ctx context.Context) (tc.State, error) {
	k.read.mu.Lock()
	defer k.read.mu.Unlock()
	var torn error
	before, alike, pause := uint64(0), false, firstPause
	decode := k.applied.Swap(false) || k.seen == nil
	for reads := 0; reads < maxReads; reads++ {
		if err := ctx.Err(); err != nil {
			return tc.State{}, err
		}
		state, sum, still, err := k.readState(decode)
		known := k.seen != nil && sum == k.seen.sum
		alike = alike && sum == before
		switch {
		case errors.Is(err, errTorn):
			alike, torn = false, err
		case err != nil:
			return tc.State{}, err
		case known:
			state.Filters = k.seen.state.Filters
			return k.count(state, sum), nil
		case decode && (still || alike && reads >= stillReads):
			return k.count(state, sum), nil
		case !decode:
			before, alike, decode = sum, true, true
			continue // to have it decoded, at once
		default:
			before, alike, torn = sum, true, errTorn
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

// count makes a reading the one that counts.
func (k *Kernel) count(s tc.State, sum uint64) tc.State {
	s.AutoLeaf = k.findAutoLeaf(s)
	k.seen = &seen{sum: sum, state: s}
	return s
}

// readState reads everything once, and says whether it stood still.
func (k *Kernel) readState(decode bool) (s tc.State, sum uint64, still bool, err error) {
	link, err := k.readLink()
	if err != nil {
		return s, 0, false, err
	}
	still, err = k.listener.during(link.Index, func() (err error) {
		s, sum, err = k.readTables(link, decode)
		return err
	})
	return s, sum, still, err
}

// readTables reads what hangs at the link, of the filters without decode the counters only; the sum is the same for two readings that agree.
func (k *Kernel) readTables(link tc.Link, decode bool) (tc.State, uint64, error) {
	var h maphash.Hash
	var err error
	h.SetSeed(k.seed)
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
	var order prefOrder
	counts := false
	err = k.read.dump(unix.RTM_GETTFILTER, link.Index, root.Handle, func(o wire.Object) error {
		if o.Index != link.Index || o.Chain != 0 {
			return nil
		}
		if err := order.take(o); err != nil {
			return err
		}
		if o.Kind == tc.KindU32 && o.Handle == 0 { // the pref itself: its root table says as much
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

// prefOrder follows the order of a dump of filters: each pref once, the lower first, and before what stands at it the pref itself. Where
// others' prefs come and go while it is made the kernel begins one again, or goes on in the midst of another.
type prefOrder struct{ last uint32 }

func (p *prefOrder) take(o wire.Object) error {
	pref := o.Info >> 16
	itself := o.Handle == 0 && o.Options == nil // a root table that got no number has options
	if itself && pref <= p.last || !itself && pref != p.last {
		return errTorn
	}
	p.last = pref
	return nil
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
