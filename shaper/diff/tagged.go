package diff

import (
	"cmp"
	"maps"
	"slices"

	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/u32/layout"
)

// In layout hash packets with a VLAN tag have prefs of their own with the nodes of the root table once more, by the same ids; the hash
// tables behind the links serve both. Such a mirror is changed in step with the root table: each node comes right after the one that it
// mirrors and goes right before it. So what is right for the packets without a tag is right for those with one, and a run that is cut
// off never leaves a node whose id the other may get for something else.
//
// A mirror that comes does so when all else is done, and one that goes does so before anything else: in the middle of a run there may be
// something in the tables that packets with a tag neither had nor shall have. One of which a part stands, since a run was cut off, is made
// whole first.

// mirrors is what becomes of the prefs for packets with a tag outside of the common order.
type mirrors struct {
	first []tc.Op // deletions of those that are not wanted
	last  []tc.Op // additions of those that do not stand
}

// inStep is what becomes of mirrors together with the root table.
type inStep struct {
	live []layout.Step
	gone map[uint32][]tc.Op // deletions by the id of the node
}

// take is the deletions of the mirrors of a node, once.
func (s *inStep) take(node uint32) []tc.Op {
	ops := s.gone[node]
	delete(s.gone, node)
	return ops
}

// rest is the deletions that are left: of nodes that mirror nothing, the last one first.
func (s *inStep) rest() []tc.Op {
	var ops []tc.Op
	for _, node := range slices.Backward(slices.Sorted(maps.Keys(s.gone))) {
		ops = append(ops, s.gone[node]...)
	}
	return ops
}

// compareMirrors compares the prefs that mirror the root table of one of the prefs of layout hash: its nodes as they stand, and as they
// shall be.
func (c *comparison) compareMirrors(want *plan.Hashed, standing, nodes []layout.Step) inStep {
	together := inStep{gone: map[uint32][]tc.Op{}}
	root := tc.Filter{Pref: want.Place.Pref, Protocol: want.Place.Protocol}
	for _, tag := range plan.Tags() {
		pref := plan.BehindTag(root, tag).Pref
		if !slices.Contains(c.want.Tags, tag) {
			c.dropTagged(pref, tag)
			continue
		}
		have := c.rootNodes(pref)
		switch {
		case len(have) == 0 && len(standing) > 0 && !c.hasLists(tag):
			before := len(c.filters)
			c.goLive(want, behindTag(nodes, tag))
			c.mirrors.last = append(c.mirrors.last, c.filters[before:]...)
			c.filters = c.filters[:before:before]
		default:
			if len(have) > 0 {
				have = c.completeMirror(want, have, behindTag(standing, tag), c.roots[pref])
			}
			steps, clashes, deletes := compareMirror(have, behindTag(nodes, tag))
			c.filters = append(c.filters, clashes...)
			for _, s := range steps {
				if !s.Changed || s.Old != s.Filter.ClassID || c.made[s.Old] {
					together.live = append(together.live, s)
				}
			}
			for _, op := range deletes {
				f := op.Object.(tc.Filter)
				together.gone[f.Handle.Node()] = append(together.gone[f.Handle.Node()], op)
				c.removed = append(c.removed, f)
			}
		}
	}
	return together
}

// hasLists tells whether lists for packets with a tag stand: then the layout is about to change, and these get their class from them.
func (c *comparison) hasLists(tag tc.Protocol) bool {
	for pref, filters := range c.byPref {
		if protocol, _ := plan.OwnPref(pref); protocol == tag && pref >= plan.PrefIPv4 && slices.ContainsFunc(filters, tc.Filter.IsNode) {
			return true
		}
	}
	return false
}

// rootNodes are the nodes that stand in the root table of a pref; what is in tables there is of another hand, and goes with them.
func (c *comparison) rootNodes(pref uint16) []tc.Filter {
	return c.detourHashed(slices.DeleteFunc(slices.Clone(c.byPref[pref]), func(f tc.Filter) bool {
		return !f.IsNode() || f.Handle.Table() != c.roots[pref]
	}))
}

// dropTagged deletes what stands at a pref for packets with a tag that none leave with any more, in the opposite order of that in which
// packets meet it.
func (c *comparison) dropTagged(pref uint16, tag tc.Protocol) {
	var deletes []tc.Op
	for _, f := range slices.Backward(c.rootNodes(pref)) {
		deletes = append(deletes, tc.Op{Verb: tc.Delete, Object: f, Why: "no packets leave with a tag of " + tag.String(), Hitless: true})
	}
	c.mirrors.first = append(deletes, c.mirrors.first...)
}

func behindTag(nodes []layout.Step, tag tc.Protocol) []layout.Step {
	nodes = slices.Clone(nodes)
	for i := range nodes {
		nodes[i].Filter = plan.BehindTag(nodes[i].Filter, tag)
	}
	return nodes
}

// completeMirror adds what is missing of what shall be mirrored of the root table as it stands, and returns what stands then.
func (c *comparison) completeMirror(want *plan.Hashed, have []tc.Filter, nodes []layout.Step, root uint32) []tc.Filter {
	steps, clashes, _ := compareMirror(have, nodes)
	steps = slices.DeleteFunc(steps, func(s layout.Step) bool { return s.Changed && s.Old == s.Filter.ClassID })
	if len(steps) == 0 {
		return have
	}
	c.filters = append(c.filters, clashes...)
	c.goLive(want, steps)
	c.filters = append(c.filters, c.barrier("packets with a tag get what the others have, before that is changed"))
	have = slices.DeleteFunc(have, func(f tc.Filter) bool {
		return slices.ContainsFunc(steps, func(s layout.Step) bool { return s.Filter.Handle.Node() == f.Handle.Node() })
	})
	for _, s := range steps {
		s.Filter.Handle = tc.MakeU32Handle(root, 0, s.Filter.Handle.Node())
		have = append(have, s.Filter)
	}
	slices.SortStableFunc(have, func(a, b tc.Filter) int { return cmp.Compare(a.Handle, b.Handle) })
	return have
}

// compareMirror finds which of nodes stand, what of have is to be deleted, and what has to go first, since it stands at the id of another:
// that was put there by another hand.
func compareMirror(have []tc.Filter, nodes []layout.Step) (steps []layout.Step, clashes, deletes []tc.Op) {
	wanted := map[uint32]*layout.Step{}
	for i := range nodes {
		wanted[nodes[i].Filter.Handle.Node()] = &nodes[i]
	}
	times := map[tc.U32Handle]int{}
	for _, f := range have {
		times[f.Handle]++
	}
	for _, f := range slices.Backward(have) {
		w := wanted[f.Handle.Node()]
		switch {
		case w == nil:
			deletes = append(deletes, tc.Op{Verb: tc.Delete, Object: f, Why: "not wanted at our pref", Hitless: true})
		case times[f.Handle] == 1 && sameNode(f, w.Filter):
			w.Filter.Handle, w.Changed, w.Old = f.Handle, true, f.ClassID
		default:
			clashes = append(clashes, tc.Op{Verb: tc.Delete, Object: f, Why: "not what is wanted there"})
		}
	}
	return nodes, clashes, deletes
}

// sameNode tells whether f matches what w matches and leads to the same table; only its class can be changed.
func sameNode(f, w tc.Filter) bool {
	return f.Handle.Bucket() == 0 && f.Link == w.Link && f.Sel.HMask == w.Sel.HMask && f.Sel.HOff == w.Sel.HOff && f.Sel.MatchID() == w.Sel.MatchID()
}

// begin is what comes before all other changes of filters.
func (m *mirrors) begin(c *comparison) []tc.Op {
	if len(m.first) == 0 {
		return nil
	}
	return append(c.oneAfterTheOther(m.first), c.barrier("packets with a tag that are under way finish with the filters they met before those are changed"))
}
