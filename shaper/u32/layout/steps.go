package layout

import (
	"cmp"
	"slices"

	"bulkshaper/shaper/tc"
)

// Steps is what leads from what stands to a tree, by the order in which it has to happen so that each packet gets what either the old
// or the new tree gives it:
//
//  1. Tables and Aside. No packet comes there yet.
//  2. Live, in its order: what is long before what is short, links as long as the least of what they lead to. A packet that finds
//     something new finds the longest that it will ever find there.
//  3. Gone, in its order, the opposite of that in which packets meet the nodes: nothing that goes uncovers something else that goes.
//  4. The tables that nothing leads to any more, as wholes. They are not listed here.
type Steps struct {
	// Tables are new tables, and Aside the nodes in them; a table that a link of Aside leads to is in Tables.
	Tables, Aside []tc.Filter
	// Live are changes where packets come.
	Live []Step
	// Gone are the nodes to delete from tables that stay.
	Gone []tc.Filter
	// Standing are the ids of the tables that stay, the root's among them.
	Standing map[uint32]bool
}

// Step is a node to add, or one that gets another class.
type Step struct {
	Filter tc.Filter
	// Key is the length of a leaf's prefix, and the least length of what is behind a link.
	Key int
	// Changed says that the node stands, and leads to Old.
	Changed bool
	Old     tc.Handle
}

// Steps compares t with what was read from the kernel, in any order. t is an adaption of what Read finds there. Nodes that stand and
// have the right class are left out unless rebind asks for them.
func (t *Tree) Steps(have []tc.Filter, rebind func(class tc.Handle) bool) Steps {
	c := stepper{tree: t, rebind: rebind, tables: map[uint32]*table{}, standing: group(have, t.place)}
	c.Standing = map[uint32]bool{}
	c.collect(&t.root)
	root := c.standing[t.rootID]
	if root == nil || t.rootID == 0 {
		root = &rawTable{}
	} else {
		c.Standing[t.rootID] = true
	}
	c.live(&t.root, root.nodes, t.rootID, 0)
	c.gone(root.nodes)
	slices.SortStableFunc(c.Live, func(a, b Step) int { return cmp.Compare(b.Key, a.Key) })
	return c.Steps
}

// Root is the nodes of the root table, all of them, in the order of Live.
func (t *Tree) Root() []Step {
	var nodes []Step
	for _, l := range t.root.links {
		nodes = append(nodes, Step{Filter: t.linkFilter(l, t.rootID, 0), Key: int(l.key)})
	}
	for _, x := range t.root.leaves {
		nodes = append(nodes, Step{Filter: t.leafFilter(x, t.rootID, 0), Key: int(x.length)})
	}
	slices.SortStableFunc(nodes, func(a, b Step) int { return cmp.Compare(b.Key, a.Key) })
	return nodes
}

type stepper struct {
	Steps
	tree     *Tree
	rebind   func(tc.Handle) bool
	tables   map[uint32]*table    // of the tree, by id
	standing map[uint32]*rawTable // observed, by id
}

func (c *stepper) collect(b *bucket) {
	for _, l := range b.links {
		c.tables[l.table.id] = l.table
		for i := range l.table.buckets {
			c.collect(&l.table.buckets[i])
		}
	}
}

// live compares a bucket where packets come; nodes are those that stand there.
func (c *stepper) live(b *bucket, nodes []*tc.Filter, id, index uint32) {
	find := func(node uint32) (*tc.Filter, bool) {
		i, ok := slices.BinarySearchFunc(nodes, node, func(f *tc.Filter, id uint32) int { return cmp.Compare(f.Handle.Node(), id) })
		if !ok {
			return nil, false
		}
		return nodes[i], true
	}
	for _, l := range b.links {
		raw := c.standing[l.table.id]
		if raw == nil {
			c.aside(l.table)
		} else {
			c.Standing[l.table.id] = true
			cut := raw.cutter()
			for i := range l.table.buckets {
				c.live(&l.table.buckets[i], cut(uint32(i)), l.table.id, uint32(i))
			}
		}
		if _, ok := find(l.node); !ok {
			c.Live = append(c.Live, Step{Filter: c.tree.linkFilter(l, id, index), Key: int(l.key)})
		}
	}
	for _, x := range b.leaves {
		was, ok := find(x.node)
		if ok && was.ClassID == x.class && (c.rebind == nil || !c.rebind(x.class)) {
			continue
		}
		step := Step{Filter: c.tree.leafFilter(x, id, index), Key: int(x.length), Changed: ok}
		if ok {
			step.Old = was.ClassID
		}
		c.Live = append(c.Live, step)
	}
}

// aside lists a new table, after those that it leads to.
func (c *stepper) aside(t *table) {
	for i := range t.buckets {
		for _, l := range t.buckets[i].links {
			c.aside(l.table)
		}
	}
	c.Tables = append(c.Tables, c.tree.tableFilter(t))
	for i := range t.buckets {
		for _, l := range t.buckets[i].links {
			c.Aside = append(c.Aside, c.tree.linkFilter(l, t.id, uint32(i)))
		}
		for _, x := range t.buckets[i].leaves {
			c.Aside = append(c.Aside, c.tree.leafFilter(x, t.id, uint32(i)))
		}
	}
}

// gone lists what goes of nodes, which stand in a bucket that stays, and of the tables that stay behind them; the last node first.
func (c *stepper) gone(nodes []*tc.Filter) {
	for _, f := range slices.Backward(nodes) {
		id := f.Link.Table()
		if raw := c.standing[id]; f.Link != 0 && c.Standing[id] && raw != nil && !raw.used {
			raw.used = true
			cut := raw.cutter()
			for i := range uint32(1 << maxBits) {
				if below := cut(i); len(below) > 0 {
					c.gone(below)
				}
			}
		}
		if !c.wanted(f) {
			c.Gone = append(c.Gone, *f)
		}
	}
}

// wanted tells whether f is a node of the tree.
func (c *stepper) wanted(f *tc.Filter) bool {
	b := &c.tree.root
	if id := f.Handle.Table(); id != c.tree.rootID {
		t := c.tables[id]
		if t == nil || f.Handle.Bucket() >= t.window.divisor() {
			return false
		}
		b = &t.buckets[f.Handle.Bucket()]
	}
	node := f.Handle.Node()
	for _, l := range b.links {
		if l.node == node {
			return true
		}
	}
	_, ok := slices.BinarySearchFunc(b.leaves, node, func(x leaf, id uint32) int { return cmp.Compare(x.node, id) })
	return ok
}
