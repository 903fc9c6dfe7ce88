package diff

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/u32"
)

// sortFilters tells ours from foreign ones. Ours are the u32 filters at our prefs, but for hash tables that foreign filters link to. In a
// takeover all become ours, but for what we cannot have at our prefs.
func (c *comparison) sortFilters() {
	filters := sorted(c.have.Filters)
	isOurs := func(f *tc.Filter) bool {
		_, own := plan.OwnPref(f.Pref)
		return f.Parent == c.root.Handle && (fitsOwnPref(f) || !own && c.takeover)
	}
	c.roots = u32.RootTables(c.have.Filters)
	lent := lentTables(filters, isOurs)
	sizes := map[uint16]int{}
	for _, f := range filters {
		sizes[f.Pref]++
	}
	type group struct {
		pref     uint16
		protocol tc.Protocol
		kind     string
	}
	counts := map[group]int{}
	var order []group
	for _, f := range filters {
		if isOurs(f) && !lent[f.Handle.Table()] {
			if c.byPref[f.Pref] == nil {
				c.byPref[f.Pref] = make([]tc.Filter, 0, sizes[f.Pref])
			}
			c.byPref[f.Pref] = append(c.byPref[f.Pref], *f)
			continue
		}
		if _, own := plan.OwnPref(f.Pref); own && f.Parent == c.root.Handle && !isOurs(f) && c.alien == nil {
			c.alien = f
		}
		c.outside[f.ClassID] = true
		g := group{f.Pref, f.Protocol, f.Kind}
		if _, seen := counts[g]; !seen {
			order, counts[g] = append(order, g), 0
		}
		if isFilter(f) {
			counts[g]++
		}
	}
	for _, g := range order {
		if isOurs(&tc.Filter{Parent: c.root.Handle, Pref: g.pref, Protocol: g.protocol, Kind: g.kind}) {
			c.foreign = append(c.foreign, fmt.Sprintf("hash tables at pref %d, which a foreign filter links to", g.pref))
			continue
		}
		text := fmt.Sprintf("%s filters of protocol %s at pref %d (%d)", g.kind, g.protocol, g.pref, counts[g])
		if g.pref < plan.PrefARP {
			text += ", ahead of ours"
		}
		c.foreign = append(c.foreign, text)
	}
}

// fitsOwnPref tells whether f stands at a pref of ours and is what we put there.
func fitsOwnPref(f *tc.Filter) bool {
	protocol, own := plan.OwnPref(f.Pref)
	return own && f.Kind == tc.KindU32 && f.Protocol == protocol
}

// isFilter tells filters from hash tables, and from the entry of the pref itself, which other kinds than u32 show as well.
func isFilter(f *tc.Filter) bool { return f.IsNode() || f.Kind != tc.KindU32 && f.Handle != 0 }

// sorted is filters by pref and handle; those of one handle stay in their order. Those at the prefs of layout hash, of which there may
// be very many, come first and as they are: package layout sorts them.
func sorted(filters []tc.Filter) []*tc.Filter {
	pointers := make([]*tc.Filter, 0, len(filters))
	var rest []*tc.Filter
	for i := range filters {
		if f := &filters[i]; isHashPref(f.Pref) {
			pointers = append(pointers, f)
		} else {
			rest = append(rest, f)
		}
	}
	slices.SortStableFunc(rest, func(a, b *tc.Filter) int { return cmp.Or(cmp.Compare(a.Pref, b.Pref), cmp.Compare(a.Handle, b.Handle)) })
	return append(pointers, rest...)
}

func isHashPref(pref uint16) bool { return pref == plan.PrefHashIPv4 || pref == plan.PrefHashIPv6 }

// lentTables are the hash tables that filters which are not ours link to, and the tables that those link to.
func lentTables(filters []*tc.Filter, isOurs func(*tc.Filter) bool) map[uint32]bool {
	lent := map[uint32]bool{}
	for grown := true; grown; {
		grown = false
		for _, f := range filters {
			to := f.Link.Table()
			if f.Kind == tc.KindU32 && to != 0 && !lent[to] && (!isOurs(f) || lent[f.Handle.Table()]) {
				lent[to], grown = true, true
			}
		}
	}
	return lent
}

// compareFilters compares each of our prefs.
func (c *comparison) compareFilters() error {
	wanted := map[uint16][]plan.Filter{}
	prefs := map[uint16]bool{plan.PrefHashIPv4: true, plan.PrefHashIPv6: true}
	for _, f := range c.want.Filters {
		if !isHashPref(f.Pref) {
			wanted[f.Pref] = append(wanted[f.Pref], f)
			prefs[f.Pref] = true
		}
	}
	for pref := range c.byPref {
		prefs[pref] = true
	}
	for _, tag := range plan.Tags() { // compared together with what they mirror
		for pref, protocol := range map[uint16]tc.Protocol{plan.PrefHashIPv4: tc.ProtocolIP, plan.PrefHashIPv6: tc.ProtocolIPv6} {
			delete(prefs, plan.BehindTag(tc.Filter{Pref: pref, Protocol: protocol}, tag).Pref)
		}
	}
	hashed := c.want.Hashed()
	for _, pref := range slices.Sorted(maps.Keys(prefs)) {
		if i := slices.IndexFunc(hashed[:], func(h plan.Hashed) bool { return h.Place.Pref == pref }); i >= 0 {
			if err := c.compareHashed(&hashed[i]); err != nil {
				return err
			}
			continue
		}
		if protocol, _ := plan.OwnPref(pref); protocol.IsTag() && !slices.Contains(c.want.Tags, protocol) {
			c.dropTagged(pref, protocol)
			continue
		}
		if _, own := plan.OwnPref(pref); !own {
			c.dropPref(pref)
			continue
		}
		from := len(c.filters)
		c.compareList(c.byPref[pref], wanted[pref])
		c.waitForLonger(from)
	}
	c.deleteTables()
	return nil
}

// lastNode is the highest node id. Those above plan.MaxNodes are room to add before deleting.
const lastNode = 0xfff

// compareList compares the filters of one pref. Within it no wanted filter overlaps another, so the order, and with it the node id,
// does not matter.
func (c *comparison) compareList(have []tc.Filter, want []plan.Filter) {
	var nodes []tc.Filter // of the root table, ascending
	times := map[tc.U32Handle]int{}
	for _, f := range have {
		if !f.IsNode() {
			continue
		}
		if f.Handle.Table() == c.roots[f.Pref] {
			nodes = append(nodes, f)
			times[f.Handle]++
		} else {
			c.detour(f)
		}
	}
	nodes = c.detourList(nodes, times)
	// The lowest node of those with one match is the one that counts for the kernel. A handle that occurs twice cannot be changed
	// with certainty, and a link has another meaning: both are replaced.
	standing := map[string]tc.Filter{}
	for _, f := range slices.Backward(nodes) {
		if times[f.Handle] == 1 && f.Link == 0 && f.Handle.Bucket() == 0 {
			standing[f.Sel.MatchID()] = f
		}
	}
	kept := map[tc.U32Handle]bool{}
	var missing []plan.Filter
	for _, w := range want {
		f, ok := standing[w.Sel.MatchID()]
		if !ok {
			missing = append(missing, w)
			continue
		}
		kept[f.Handle] = true
		c.compareFilter(f, w)
	}
	// From the last to the first: what goes must not uncover one behind it that goes, too.
	var unwanted []tc.Filter
	for _, f := range slices.Backward(nodes) {
		if !kept[f.Handle] {
			unwanted = append(unwanted, f)
		}
	}
	c.addFilters(nodes, missing, unwanted)
}

// compareFilter lets f, which matches what w matches, lead where w leads.
func (c *comparison) compareFilter(f tc.Filter, w plan.Filter) {
	op := tc.Op{Verb: tc.Change, Object: redirected(f, w.ClassID), Hitless: true,
		Why: fmt.Sprintf("filter for %s leads to %s, wanted %s", w.Name, c.name(f.ClassID), c.name(w.ClassID))}
	if f.ClassID == w.ClassID {
		op.Why = fmt.Sprintf("bind to class %s made again", c.name(w.ClassID))
	}
	switch {
	case f.ClassID == w.ClassID && !c.made[w.ClassID]:
	case c.made[w.ClassID] && c.isDefault(w.ClassID):
		c.last = append(c.last, op)
	default:
		c.filters = append(c.filters, op)
	}
}

// redirected is f leading to class. The link is sent as it is: a change without it would take it away.
func redirected(f tc.Filter, class tc.Handle) tc.Filter {
	f.ClassID = class
	return f
}

// detour leads f away from a class that is about to be deleted and made again, and back.
func (c *comparison) detour(f tc.Filter) {
	if c.moved[f.ClassID] {
		to := c.want.Default().Class.ID
		c.detours = append(c.detours, tc.Op{Verb: tc.Change, Object: redirected(f, to),
			Why: fmt.Sprintf("class %s gets another parent: to the default class %s until then", c.name(f.ClassID), c.name(to))})
		c.back = append(c.back, tc.Op{Verb: tc.Change, Object: redirected(f, f.ClassID), Why: fmt.Sprintf("class %s has its new parent", c.name(f.ClassID))})
	}
}

// detourList leads the nodes of a list away from classes that are about to be deleted and made again. Those of a handle that occurs
// twice cannot be changed with certainty, so they are deleted; the rest is returned.
func (c *comparison) detourList(nodes []tc.Filter, times map[tc.U32Handle]int) []tc.Filter {
	gone := map[tc.U32Handle]bool{}
	for _, f := range nodes {
		if times[f.Handle] == 1 {
			c.detour(f)
		} else if c.moved[f.ClassID] {
			gone[f.Handle] = true
		}
	}
	return slices.DeleteFunc(nodes, func(f tc.Filter) bool {
		if gone[f.Handle] {
			c.detours = append(c.detours, tc.Op{Verb: tc.Delete, Object: f, Why: "its handle occurs twice and its class gets another parent"})
		}
		return gone[f.Handle]
	})
}

// addFilters adds what is missing, at the lowest free node ids, and deletes what is not wanted.
func (c *comparison) addFilters(nodes []tc.Filter, missing []plan.Filter, unwanted []tc.Filter) {
	taken := map[uint32]bool{}
	for _, f := range nodes {
		taken[f.Handle.Node()] = true
	}
	fit := min(len(missing), lastNode-len(taken))
	id := uint32(0)
	add := func(w plan.Filter) tc.Op {
		for id++; taken[id]; id++ {
		}
		f := w.Filter
		f.Handle = tc.MakeU32Handle(0, 0, id)
		c.added = append(c.added, f)
		return tc.Op{Verb: tc.Add, Object: f, Why: "filter for " + w.Name + " is not there", Hitless: true}
	}
	for _, w := range missing[:fit] {
		c.filters = append(c.filters, add(w))
	}
	remove := func(f tc.Filter, why string) tc.Op {
		c.removed = append(c.removed, f)
		return tc.Op{Verb: tc.Delete, Object: f, Why: why, Hitless: true}
	}
	// Where old and new do not fit in together, some of the old goes first: when all lists but this have what is new, so that the
	// packets it was for already find what they shall.
	if missing = missing[fit:]; len(missing) > 0 {
		c.crowdedLists++
		for room := 0; room < len(missing); room++ {
			h := unwanted[0].Handle
			for len(unwanted) > 0 && unwanted[0].Handle == h {
				c.crowded = append(c.crowded, remove(unwanted[0], "not wanted, and its place is needed"))
				unwanted = unwanted[1:]
			}
			delete(taken, h.Node())
		}
		id = 0
		for _, f := range c.added {
			taken[f.Handle.Node()] = taken[f.Handle.Node()] || f.Pref == missing[0].Pref
		}
		for _, w := range missing {
			c.crowded = append(c.crowded, add(w))
		}
	}
	var deletes []tc.Op
	for _, f := range unwanted {
		deletes = append(deletes, remove(f, "not wanted at our pref"))
	}
	c.deleteFilters(deletes)
}

// deleteFilters plans the deletions of one pref. Prefs are gone through in the order in which packets meet them, and deleted from in
// the opposite one, so that nothing that goes uncovers something else that goes.
func (c *comparison) deleteFilters(deletes []tc.Op) {
	c.filterDeletes = append(deletes, c.filterDeletes...)
}
