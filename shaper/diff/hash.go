package diff

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"
	"syscall"

	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/u32/layout"
)

// compareHashed compares one of the prefs of layout hash. See layout.Steps for the order and why no packet goes astray.
func (c *comparison) compareHashed(want *plan.Hashed) error {
	want.Place.Parent = c.root.Handle // also where nothing is wanted, and no root
	have := c.byPref[want.Place.Pref]
	if len(have) == 0 && len(want.Items) == 0 {
		tagged := c.compareMirrors(want, nil, nil)
		c.deleteFilters(tagged.rest())
		return nil
	}
	have = c.detourHashed(have)
	old := layout.Read(have, want.Place)
	tree, err := old.Adapt(want.Items, layout.Options{Budget: want.Budget, Taken: c.tableTaken()})
	if err != nil {
		return err
	}
	var rebind func(tc.Handle) bool
	if len(c.made) > 0 {
		rebind = func(id tc.Handle) bool { return c.made[id] }
	}
	steps := tree.Steps(have, rebind)
	for id := range steps.Standing {
		c.standing[id] = true
	}
	c.prepare(want, steps)
	tagged := c.compareMirrors(want, old.Root(), tree.Root())
	live := append(steps.Live, tagged.live...)
	slices.SortStableFunc(live, func(a, b layout.Step) int { return cmp.Compare(b.Key, a.Key) })
	c.goLive(want, live)
	var deletes []tc.Op
	for _, f := range steps.Gone {
		if f.Handle.Table() == c.roots[f.Pref] {
			deletes = append(deletes, tagged.take(f.Handle.Node())...)
		}
		deletes = append(deletes, tc.Op{Verb: tc.Delete, Object: f, Why: "not wanted at our pref", Hitless: true})
		c.removed = append(c.removed, f)
	}
	c.deleteFilters(append(deletes, tagged.rest()...))
	return nil
}

// detourHashed leads the nodes away from classes that are about to be deleted and made again, and returns those that are left.
func (c *comparison) detourHashed(have []tc.Filter) []tc.Filter {
	if len(c.moved) == 0 {
		return have
	}
	nodes, times := slices.Clone(have), map[tc.U32Handle]int{}
	slices.SortStableFunc(nodes, func(a, b tc.Filter) int { return cmp.Compare(a.Handle, b.Handle) })
	for _, f := range have {
		times[f.Handle]++
	}
	return c.detourList(nodes, times)
}

// tableTaken tells which ids a new hash table cannot have: those of all tables that are to be seen, of those made in this run, and
// the banned ones.
func (c *comparison) tableTaken() func(uint32) bool {
	taken := map[uint32]bool{}
	for _, id := range c.banned {
		taken[id] = true
	}
	for _, f := range c.have.Filters {
		if f.Kind == tc.KindU32 && f.Divisor != 0 {
			taken[f.Handle.Table()] = true
		}
	}
	for _, op := range c.filters {
		if f, ok := op.Object.(tc.Filter); ok && f.Divisor != 0 {
			taken[f.Handle.Table()] = true
		}
	}
	return func(id uint32) bool { return taken[id] }
}

// prepare makes new tables and fills them. Only when all stand is anything put into them, and only when all is in them do links
// lead there: an id that is taken, or a node that the kernel refuses, ends the run before that.
func (c *comparison) prepare(want *plan.Hashed, steps layout.Steps) {
	if len(steps.Tables) == 0 {
		return
	}
	for _, f := range steps.Tables {
		c.filters = append(c.filters, tc.Op{Verb: tc.Add, Object: f, Why: "hash table " + f.Handle.String() + " is not there", Hitless: true})
	}
	c.filters = append(c.filters, c.barrier("what is put into new hash tables waits until they all stand"))
	for _, f := range steps.Aside {
		c.filters = append(c.filters, tc.Op{Verb: tc.Add, Object: f, Why: "filter for " + want.Name(f) + " is not there", Hitless: true})
	}
	c.filters = append(c.filters, c.barrier("links to new hash tables wait until those are filled"))
}

// goLive adds and changes nodes where packets come. A packet that has passed the place of a new node must not meet a shorter one that
// was added after it: so shorter ones wait.
func (c *comparison) goLive(want *plan.Hashed, steps []layout.Step) {
	var since []layout.Step // since the last barrier
	for len(steps) > 0 {
		n := 1
		for n < len(steps) && steps[n].Key == steps[0].Key {
			n++
		}
		if nested(since, steps[:n]) {
			c.filters = append(c.filters, c.barrier("what is for shorter prefixes waits for packets that are past the new filters for longer ones"))
			since = nil
		}
		since = append(since, steps[:n]...)
		for _, s := range steps[:n] {
			c.stepLive(want, s)
		}
		steps = steps[n:]
	}
}

func (c *comparison) stepLive(want *plan.Hashed, s layout.Step) {
	f := s.Filter
	if s.Changed {
		was := f
		was.ClassID = s.Old
		c.compareFilter(was, plan.Filter{Filter: f, Name: want.Name(f)})
		return
	}
	if f.Handle.Table() > layout.MaxTable {
		f.Handle &= tc.MakeU32Handle(0, 0xff, 0xfff) // the root table of its pref
	}
	c.filters = append(c.filters, tc.Op{Verb: tc.Add, Object: f, Why: "filter for " + want.Name(f) + " is not there", Hitless: true})
	c.wait = true
}

// nested tells whether any of longer lies, or may lie, in one of shorter, which are all of one length.
func nested(longer, shorter []layout.Step) bool {
	if len(longer) == 0 {
		return false
	}
	prefixes := map[netip.Prefix]bool{}
	for _, s := range shorter {
		p, ok := s.Filter.Destination()
		if !ok || s.Filter.Link != 0 {
			return true
		}
		prefixes[p] = true
	}
	for _, s := range longer {
		p, ok := s.Filter.Destination()
		if !ok || s.Filter.Link != 0 {
			return true
		}
		if p, err := p.Addr().Prefix(shorter[0].Key); err == nil && prefixes[p] {
			return true
		}
	}
	return false
}

// HiddenTables are the ids of hash tables that could not be added since the kernel has them, although they were not to be seen: a pref
// was deleted before its tables. As Options.BannedTables they are left alone.
func HiddenTables(results []tc.Result) []uint32 {
	var ids []uint32
	for _, r := range results {
		f, ok := r.Op.Object.(tc.Filter)
		if ok && f.Divisor != 0 && r.Op.Verb == tc.Add && errors.Is(r.Err, syscall.EEXIST) {
			ids = append(ids, f.Handle.Table())
		}
	}
	return ids
}

// barrier is a change of the control class to what it is. The kernel does it under the lock under which packets are classified, so
// that after it no packet is left that has seen the filters from before. It also parts the groups in which operations are sent: what
// is behind it is not tried if anything before it failed.
func (c *comparison) barrier(why string) tc.Op {
	class := c.wanted[tc.ControlClass].Class
	return tc.Op{Verb: tc.Change, Object: class, Why: why, Hitless: true, Barrier: true}
}
