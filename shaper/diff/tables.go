package diff

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"bulkshaper/shaper/tc"
)

// deleteTables deletes the hash tables at our prefs that are not to stay. The links to them from tables that stay are deleted before; of
// the others, those come first that no other links to, since a linked table is busy. Their nodes go with them, all at once: a packet
// inside sees all or none. The kernel frees an unlinked table some 20 ms later and answers EBUSY until then, so this may take more
// attempts.
func (c *comparison) deleteTables() {
	tables, below, links := map[uint32]tc.Filter{}, map[uint32][]tc.Filter{}, map[uint32]int{}
	for _, pref := range slices.Sorted(maps.Keys(c.byPref)) {
		for _, f := range c.byPref[pref] {
			switch id := f.Handle.Table(); {
			case id == c.roots[pref], c.standing[id]:
			case f.Divisor != 0:
				tables[id] = f
			case f.IsNode() && f.Link != 0:
				below[id] = append(below[id], f)
				links[f.Link.Table()]++
			}
		}
	}
	for _, nodes := range below {
		slices.SortStableFunc(nodes, func(a, b tc.Filter) int { return cmp.Compare(a.Handle, b.Handle) })
	}
	ids := slices.Sorted(maps.Keys(tables))
	var free []uint32
	for _, id := range ids {
		if links[id] == 0 {
			free = append(free, id)
		}
	}
	for len(tables) > 0 {
		if len(free) == 0 {
			// All link to each other: cut the links to the first.
			i := slices.IndexFunc(ids, func(id uint32) bool { _, ok := tables[id]; return ok })
			free = append(free, ids[i])
			for _, from := range ids {
				if _, ok := tables[from]; !ok {
					continue
				}
				below[from] = slices.DeleteFunc(below[from], func(f tc.Filter) bool {
					if f.Link.Table() != ids[i] {
						return false
					}
					c.tableDeletes = append(c.tableDeletes, tc.Op{Verb: tc.Delete, Object: f, Why: "link in a circle of hash tables that are not wanted"})
					return true
				})
			}
			links[ids[i]] = 0
		}
		id := free[0]
		free = free[1:]
		c.tableDeletes = append(c.tableDeletes, tc.Op{Verb: tc.Delete, Object: tables[id], Why: "hash table that is not wanted", Hitless: true})
		delete(tables, id)
		for _, f := range below[id] {
			to := f.Link.Table()
			if links[to]--; links[to] == 0 && tables[to].Divisor != 0 {
				free = append(free, to)
			}
		}
	}
}

// needsBarrier tells whether a packet that is on its way through the filters could pass the place of a new filter before that is
// there and reach the place of an old one after that is gone: the new one stands earlier and matches packets of the old one.
func (c *comparison) needsBarrier() bool {
	if c.wait || c.takeover { // our filters may stand before those that decided until now
		return true
	}
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
