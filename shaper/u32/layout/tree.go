package layout

import (
	"cmp"
	"net/netip"
	"slices"

	"bulkshaper/shaper/tc"
)

const (
	// maxBits is the widest window: a table has at most 256 buckets.
	maxBits = 8
	// maxDepth is how many links may follow each other (TC_U32_MAXDEPTH).
	maxDepth = 8
	// MaxNodes is how many nodes a bucket may have. The kernel has 4095 ids; the rest is room for change.
	MaxNodes = 4000
	// MaxTable is the highest id of a table: from 800 on the kernel numbers root tables.
	MaxTable = 0x7ff
)

// Place is the pref that a layout stands at.
type Place struct {
	// Parent is the qdisc.
	Parent   tc.Handle
	Pref     uint16
	Protocol tc.Protocol
}

func (p Place) width() int {
	if p.Protocol == tc.ProtocolIPv6 {
		return 128
	}
	return 32
}

// Tree is the nodes and tables of one pref.
type Tree struct {
	place  Place
	rootID uint32 // of the root table; 0 while it is not known
	root   bucket
	// stale is the ids of nodes that stand in a table of the tree and are no part of it, by the handle of the bucket.
	stale map[tc.U32Handle][]uint32
	// seen is the ids of all tables that were read, whatever they belong to.
	seen map[uint32]bool
}

type bucket struct {
	links  []*link // greatest key first
	leaves []leaf  // in the order of their nodes
}

func (b *bucket) empty() bool { return len(b.links) == 0 && len(b.leaves) == 0 }

// leaf is an item and the id of its node, 0 while it has none.
type leaf struct {
	item
	node uint32
}

type link struct {
	node  uint32 // 0 while it has none
	key   uint8
	table *table
}

type table struct {
	id      uint32 // 0 while it has none
	window  window
	buckets []bucket
}

func newTable(w window) *table { return &table{window: w, buckets: make([]bucket, w.divisor())} }

// tables is how many tables b leads to.
func (b *bucket) tables() int {
	n := 0
	for _, l := range b.links {
		n++
		for i := range l.table.buckets {
			n += l.table.buckets[i].tables()
		}
	}
	return n
}

// items is all items of b and of the tables it leads to, appended to items.
func (b *bucket) items(items []item) []item {
	for _, l := range b.links {
		for i := range l.table.buckets {
			items = l.table.buckets[i].items(items)
		}
	}
	for _, x := range b.leaves {
		items = append(items, x.item)
	}
	return items
}

// Items is all destinations, sorted by prefix.
func (t *Tree) Items() []Item {
	items := t.root.items(nil)
	slices.SortFunc(items, func(i, j item) int { return cmp.Or(i.compare(j.address), cmp.Compare(i.length, j.length)) })
	result := make([]Item, len(items))
	for i, x := range items {
		result[i] = Item{x.prefix(t.place.width()), x.class}
	}
	return result
}

// Place is the pref that t stands at.
func (t *Tree) Place() Place { return t.place }

// Empty tells whether t has no nodes.
func (t *Tree) Empty() bool { return t.root.empty() }

// TableIDs are the ids of the tables, without the root's.
func (t *Tree) TableIDs() []uint32 { return t.root.tableIDs(nil) }

func (b *bucket) tableIDs(ids []uint32) []uint32 {
	for _, l := range b.links {
		ids = append(ids, l.table.id)
		for i := range l.table.buckets {
			ids = l.table.buckets[i].tableIDs(ids)
		}
	}
	return ids
}

// Visitor is told of a tree, in the order in which a packet meets it.
type Visitor struct {
	// Node is called for each node; key is the length of a leaf's prefix, and of a link the least length in its table.
	Node func(f tc.Filter, key int)
	// Table is called for a table, before its nodes. If it returns false, they are left out.
	Table func(f tc.Filter) bool
}

// Visit walks through t. A link comes before its table, and that before what stands behind the link.
func (t *Tree) Visit(v Visitor) { t.visit(v, &t.root, t.rootID, 0) }

func (t *Tree) visit(v Visitor, b *bucket, id, index uint32) {
	for _, l := range b.links {
		v.Node(t.linkFilter(l, id, index), int(l.key))
		if !v.Table(t.tableFilter(l.table)) {
			continue
		}
		for i := range l.table.buckets {
			t.visit(v, &l.table.buckets[i], l.table.id, uint32(i))
		}
	}
	for _, x := range b.leaves {
		v.Node(t.leafFilter(x, id, index), int(x.length))
	}
}

func (t *Tree) linkFilter(l *link, id, index uint32) tc.Filter {
	f := t.filter(tc.MakeU32Handle(id, index, l.node))
	f.Sel, f.Link = l.table.window.selector(t.place.width()), tc.MakeU32Handle(l.table.id, 0, 0)
	return f
}

func (t *Tree) tableFilter(b *table) tc.Filter {
	f := t.filter(tc.MakeU32Handle(b.id, 0, 0))
	f.Divisor = b.window.divisor()
	return f
}

func (t *Tree) leafFilter(x leaf, id, index uint32) tc.Filter {
	f := t.filter(tc.MakeU32Handle(id, index, x.node))
	f.Sel, f.ClassID = tc.MatchDestination(x.prefix(t.place.width())), x.class
	return f
}

func (t *Tree) filter(h tc.U32Handle) tc.Filter {
	return tc.Filter{Parent: t.place.Parent, Pref: t.place.Pref, Protocol: t.place.Protocol, Kind: tc.KindU32, Handle: h}
}

// Filters is t as the kernel would hold it, in the order in which a packet meets it, each table behind the first link to it.
func (t *Tree) Filters() []tc.Filter {
	var filters []tc.Filter
	t.Visit(Visitor{
		Node:  func(f tc.Filter, _ int) { filters = append(filters, f) },
		Table: func(f tc.Filter) bool { filters = append(filters, f); return true },
	})
	return filters
}

// Lookup is what a packet to a gets: its class, false if no node matches, and the number of nodes it was held against.
func (t *Tree) Lookup(a netip.Addr) (class tc.Handle, matched bool, comparisons int) {
	if a.BitLen() != t.place.width() {
		return 0, false, 0
	}
	return t.root.lookup(makeAddress(a))
}

func (b *bucket) lookup(a address) (class tc.Handle, matched bool, comparisons int) {
	for _, l := range b.links {
		class, matched, n := l.table.buckets[l.table.window.of(a)].lookup(a)
		comparisons += n + 1
		if matched {
			return class, true, comparisons
		}
	}
	for _, x := range b.leaves {
		comparisons++
		if x.contains(x.length, a) {
			return x.class, true, comparisons
		}
	}
	return 0, false, comparisons
}
