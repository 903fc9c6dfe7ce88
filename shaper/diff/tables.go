package diff

import (
	"maps"
	"net/netip"
	"slices"

	"bulkshaper/shaper/tc"
)

// deleteTables deletes the hash tables at our prefs. The links to them from the lists are deleted before; of the tables, those come
// first that no other links to, since a linked table is busy. Their nodes go with them, all at once: a packet inside sees all or
// none. The kernel frees an unlinked table some 20 ms later and answers EBUSY until then, so this may take a second attempt.
func (c *comparison) deleteTables() {
	tables, nodes := map[uint32]tc.Filter{}, []tc.Filter{}
	for _, pref := range slices.Sorted(maps.Keys(c.byPref)) {
		for _, f := range c.byPref[pref] {
			switch id := f.Handle.Table(); {
			case id == c.roots[pref]:
			case f.Divisor != 0:
				tables[id] = f
			case f.IsNode():
				nodes = append(nodes, f)
			}
		}
	}
	for len(tables) > 0 {
		linked := map[uint32]bool{}
		for _, f := range nodes {
			linked[f.Link.Table()] = true
		}
		ids := slices.Sorted(maps.Keys(tables))
		i := slices.IndexFunc(ids, func(id uint32) bool { return !linked[id] })
		if i < 0 {
			// All link to each other: cut the links to the first.
			i = 0
			for _, f := range nodes {
				if f.Link.Table() == ids[0] {
					c.filterDeletes = append(c.filterDeletes, tc.Op{Verb: tc.Delete, Object: f, Why: "link in a circle of hash tables that are not wanted"})
				}
			}
		}
		id := ids[i]
		c.filterDeletes = append(c.filterDeletes, tc.Op{Verb: tc.Delete, Object: tables[id], Why: "hash table that is not wanted", Hitless: true})
		delete(tables, id)
		nodes = slices.DeleteFunc(nodes, func(f tc.Filter) bool { return f.Handle.Table() == id || f.Link.Table() == id })
	}
}

// needsBarrier tells whether a packet that is on its way through the filters could pass the place of a new filter before that is
// there and reach the place of an old one after that is gone: the new one stands earlier and matches packets of the old one.
func (c *comparison) needsBarrier() bool {
	earlier := map[netip.Prefix]bool{}
	others := map[uint16]bool{}
	lengths := map[int]bool{}
	for _, f := range c.removed {
		p, ok := f.Destination()
		if !ok || f.Link != 0 {
			others[f.Pref] = true // whatever it matched
			continue
		}
		earlier[p] = true
		lengths[p.Bits()] = true
	}
	for _, f := range c.added {
		p, ok := f.Destination()
		if !ok {
			if others[f.Pref] {
				return true
			}
			continue
		}
		for pref := range others {
			if f.Pref <= pref {
				return true
			}
		}
		for bits := range lengths {
			if bits > p.Bits() {
				continue
			}
			if shorter, err := p.Addr().Prefix(bits); err == nil && earlier[shorter] {
				return true
			}
		}
	}
	return false
}

// barrier is a change of the control class to what it is. The kernel does it under the lock under which packets are classified, so
// that after it no packet is left that has seen the filters from before.
func (c *comparison) barrier() tc.Op {
	class := c.wanted[tc.MakeHandle(tc.Major, tc.ControlMinor)].Class
	return tc.Op{Verb: tc.Change, Object: class, Why: "nothing of it: packets under way finish with the filters they met before those are deleted", Hitless: true, Barrier: true}
}
