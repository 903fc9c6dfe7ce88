package layout

import (
	"cmp"
	"slices"

	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/u32"
)

// Read finds the tree in what was read from the kernel, in any order; filters that are not at the place are ignored. What is not as
// this package makes it is no part of the tree: nodes with other matches or in the wrong order, those with a handle that occurs
// twice, second links to a table, tables that no link leads to.
func Read(filters []tc.Filter, place Place) *Tree {
	r := reader{tree: &Tree{place: place, stale: map[tc.U32Handle][]uint32{}, seen: map[uint32]bool{}}, tables: group(filters, place)}
	r.tree.rootID = u32.RootTables(filters)[place.Pref]
	for _, f := range filters {
		if f.Kind == tc.KindU32 && f.Divisor != 0 {
			r.tree.seen[f.Handle.Table()] = true
		}
	}
	if root := r.tables[r.tree.rootID]; root != nil && r.tree.rootID != 0 {
		root.used = true
		r.tree.root = r.bucket(root.nodes, 0, 0)
	}
	return r.tree
}

type reader struct {
	tree   *Tree
	tables map[uint32]*rawTable
}

// rawTable is a table as it was read.
type rawTable struct {
	divisor uint32
	nodes   []*tc.Filter // sorted by handle
	used    bool
}

// group sorts the filters at place into tables, by id.
func group(filters []tc.Filter, place Place) map[uint32]*rawTable {
	var counts [1 << 12]int
	here := func(f *tc.Filter) bool {
		return f.Pref == place.Pref && f.Kind == tc.KindU32 && f.Protocol == place.Protocol && f.Parent == place.Parent
	}
	for i := range filters {
		if here(&filters[i]) {
			counts[filters[i].Handle.Table()]++
		}
	}
	tables := map[uint32]*rawTable{}
	for id, n := range counts {
		if n > 0 {
			tables[uint32(id)] = &rawTable{nodes: make([]*tc.Filter, 0, n)}
		}
	}
	for i := range filters {
		f := &filters[i]
		if !here(f) {
			continue
		}
		t := tables[f.Handle.Table()]
		if f.Divisor != 0 {
			t.divisor = f.Divisor
		} else if f.IsNode() {
			t.nodes = append(t.nodes, f)
		}
	}
	byHandle := func(a, b *tc.Filter) int { return cmp.Compare(a.Handle, b.Handle) }
	for _, t := range tables {
		if !slices.IsSortedFunc(t.nodes, byHandle) {
			slices.SortStableFunc(t.nodes, byHandle)
		}
	}
	return tables
}

// bucket reads the nodes of one bucket. key is the least length of what belongs there.
func (r *reader) bucket(nodes []*tc.Filter, key uint8, depth int) bucket {
	var b bucket
	kept := make([]bool, len(nodes))
	last := uint32(0)
	for i, f := range nodes {
		if l := r.link(nodes, i, key, depth); l != nil && (len(b.links) == 0 || l.key < b.links[len(b.links)-1].key) {
			raw := r.tables[f.Link.Table()]
			raw.used = true
			r.fill(l.table, raw, l.key, depth+1)
			b.links = append(b.links, l)
			kept[i], last = true, l.node
		}
	}
	for i, f := range nodes {
		x, ok := r.leaf(nodes, i)
		// One that stands where a longer one inside it comes later is taken out; that one would never be met.
		hidden := func(y leaf) bool { return y.covers(x.item) }
		if ok && f.Handle.Node() > last && !slices.ContainsFunc(b.leaves, hidden) {
			b.leaves = append(b.leaves, x)
			kept[i] = true
		}
	}
	for i, f := range nodes {
		if !kept[i] {
			bucket := f.Handle &^ 0xfff
			r.tree.stale[bucket] = append(r.tree.stale[bucket], f.Handle.Node())
		}
	}
	return b
}

// cutter gives the nodes of each bucket, for which it has to be asked in ascending order.
func (t *rawTable) cutter() func(index uint32) []*tc.Filter {
	rest := t.nodes
	return func(index uint32) []*tc.Filter {
		from := 0
		for from < len(rest) && rest[from].Handle.Bucket() < index {
			from++
		}
		to := from
		for to < len(rest) && rest[to].Handle.Bucket() == index {
			to++
		}
		nodes := rest[from:to]
		rest = rest[to:]
		return nodes
	}
}

// fill reads the buckets of a table.
func (r *reader) fill(t *table, raw *rawTable, key uint8, depth int) {
	cut := raw.cutter()
	for i := range t.buckets {
		if nodes := cut(uint32(i)); len(nodes) > 0 {
			t.buckets[i] = r.bucket(nodes, key, depth)
		}
	}
}

// once tells whether nodes[i] is the only one with its handle.
func once(nodes []*tc.Filter, i int) bool {
	h := nodes[i].Handle
	return (i == 0 || nodes[i-1].Handle != h) && (i == len(nodes)-1 || nodes[i+1].Handle != h)
}

// link is nodes[i] as a link, nil if it is none of ours.
func (r *reader) link(nodes []*tc.Filter, i int, key uint8, depth int) *link {
	f := nodes[i]
	if f.Link == 0 || f.ClassID != 0 || depth >= maxDepth || !once(nodes, i) {
		return nil
	}
	raw := r.tables[f.Link.Table()]
	if raw == nil || raw.used {
		return nil
	}
	w, ok := windowOf(f.Sel, raw.divisor, r.tree.place.width())
	if !ok {
		return nil
	}
	t := newTable(w)
	t.id = f.Link.Table()
	return &link{node: f.Handle.Node(), key: max(key, w.end()), table: t}
}

// leaf is nodes[i] as a leaf, false if it is none of ours.
func (r *reader) leaf(nodes []*tc.Filter, i int) (leaf, bool) {
	f := nodes[i]
	if f.Link != 0 || f.Sel.HMask != 0 || f.Sel.HOff != 0 || !once(nodes, i) {
		return leaf{}, false
	}
	p, ok := f.Destination()
	if !ok || f.Sel.Flags != tc.U32Terminal || f.Sel.OffShift != 0 || f.Sel.OffMask != 0 || f.Sel.Off != 0 || f.Sel.OffOff != 0 || f.Sel.Extra {
		return leaf{}, false
	}
	return leaf{item{makeAddress(p.Addr()), uint8(p.Bits()), f.ClassID}, f.Handle.Node()}, true
}
