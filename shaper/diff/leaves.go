package diff

import (
	"fmt"
	"maps"
	"slices"

	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
)

// deleteMisplaced deletes qdiscs that have the handle of a wanted leaf and are somewhere else: the kernel does not move a qdisc, and
// a handle is there but once.
func (c *comparison) deleteMisplaced() {
	places := map[tc.Handle]tc.Handle{}
	for _, w := range c.want.Classes {
		if w.Leaf != nil {
			places[w.Leaf.Handle] = w.Leaf.Parent
		}
	}
	for _, parent := range slices.Sorted(maps.Keys(c.leaves)) {
		q := c.leaves[parent]
		if place, ok := places[q.Handle]; ok && place != parent {
			c.misplaced = append(c.misplaced, tc.Op{Verb: tc.Delete, Object: q, Why: fmt.Sprintf("handle %s belongs below class %s", q.Handle, c.name(place))})
			delete(c.leaves, parent)
		}
	}
}

// compareLeaf adds, changes or replaces the qdisc below a class that stands. Below an inner class there is none.
func (c *comparison) compareLeaf(w plan.Class) {
	if w.Leaf == nil {
		return
	}
	want := *w.Leaf
	have, ok := c.leaves[w.Class.ID]
	put := func(op tc.Op) {
		if c.takeover {
			c.attach(w, op)
			return
		}
		c.build = append(c.build, op)
	}
	switch {
	case !ok:
		// Not hitless: the kernel's own leaf may hold packets.
		put(tc.Op{Verb: tc.Add, Object: want, Why: "class " + w.Name + " has no queue of ours"})
	case have.Handle != want.Handle || have.Kind != want.Kind:
		put(tc.Op{Verb: tc.Replace, Object: want,
			Why: fmt.Sprintf("the queue of class %s is %s %s, wanted %s %s: packets in it are dropped", w.Name, have.Kind, have.Handle, want.Kind, want.Handle)})
	case limitDiffers(have, want):
		c.build = append(c.build, tc.Op{Verb: tc.Change, Object: want, Hitless: isFIFO(want.Kind) || want.Limit > have.Limit,
			Why: fmt.Sprintf("limit is %d, wanted %d", have.Limit, want.Limit)})
	}
}

// isFIFO: these keep what waits when their limit is lowered.
func isFIFO(kind string) bool { return kind == tc.KindPFIFO || kind == tc.KindBFIFO }

// limitDiffers compares limits where one is wanted and one was read. A FIFO always has one, and one of 0 drops everything (an
// interface with txqueuelen 0 gives it); other kinds that report none are left alone.
func limitDiffers(have, want tc.Qdisc) bool {
	return want.Limit != 0 && have.Limit != want.Limit && (have.Limit != 0 || isFIFO(want.Kind))
}
