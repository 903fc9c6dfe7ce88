package layout

import (
	"cmp"
	"fmt"
	"slices"

	"bulkshaper/shaper/tc"
)

// numberer gives ids to tables and nodes that have none.
type numberer struct {
	tree   *Tree
	old    *Tree
	tables map[uint32]*table // of old, by id
	taken  func(id uint32) bool
	next   uint32
}

func newNumberer(tree, old *Tree, taken func(id uint32) bool) *numberer {
	n := &numberer{tree: tree, old: old, tables: map[uint32]*table{}, taken: taken}
	n.collect(&old.root)
	return n
}

func (n *numberer) collect(b *bucket) {
	for _, l := range b.links {
		n.tables[l.table.id] = l.table
		for i := range l.table.buckets {
			n.collect(&l.table.buckets[i])
		}
	}
}

// oldBucket is what stands at the place of a bucket, nil if nothing does.
func (n *numberer) oldBucket(id, index uint32) *bucket {
	if id == n.tree.rootID {
		return &n.old.root
	}
	if t := n.tables[id]; t != nil {
		return &t.buckets[index]
	}
	return nil
}

const (
	lastNode = 0xfff
	// firstLeaf is where the ids of leaves begin; those of links lie below. Each key and length has a stretch of its own, from
	// which it strays only when that is full, so that whatever comes finds its place between the others.
	firstLeaf = 0x200
)

// stretch is where the ids of links of a key, or of leaves of a length, begin.
func stretch(isLink bool, length, width int) uint32 {
	if isLink {
		return uint32(1 + (width-length)*(firstLeaf-1)/(width+1))
	}
	return uint32(firstLeaf + (width-length)*(lastNode+1-firstLeaf)/(width+1))
}

// bucket numbers one bucket and the tables that it leads to, and puts the leaves in the order of their nodes.
func (n *numberer) bucket(b *bucket, id, index uint32) error {
	if b.empty() {
		return nil
	}
	place := tc.MakeU32Handle(id, index, 0)
	if count := len(b.links) + len(b.leaves); count > MaxNodes {
		return &CrowdedError{Place: n.tree.place, Bucket: place, Nodes: count}
	}
	for _, l := range b.links {
		if l.table.id == 0 {
			if err := n.table(l.table); err != nil {
				return err
			}
		}
		for i := range l.table.buckets {
			if err := n.bucket(&l.table.buckets[i], l.table.id, uint32(i)); err != nil {
				return err
			}
		}
	}
	isNew := func(x leaf) bool { return x.node == 0 }
	if slices.ContainsFunc(b.leaves, isNew) || slices.ContainsFunc(b.links, func(l *link) bool { return l.node == 0 }) {
		slices.SortFunc(b.leaves, func(x, y leaf) int { return longestFirst(x.item, y.item) })
		u := newUsed(n.oldBucket(id, index), n.tree.stale[place])
		if !n.insert(b, u) && !n.renumber(b, u) {
			return &CrowdedError{Place: n.tree.place, Bucket: place, Nodes: len(b.links) + len(b.leaves)}
		}
	}
	slices.SortFunc(b.leaves, func(x, y leaf) int { return cmp.Compare(x.node, y.node) })
	return nil
}

// table gives t the lowest free id.
func (n *numberer) table(t *table) error {
	for n.next++; n.next <= MaxTable; n.next++ {
		if n.tables[n.next] == nil && !n.tree.seen[n.next] && (n.taken == nil || !n.taken(n.next)) {
			t.id = n.next
			return nil
		}
	}
	return fmt.Errorf("lay out the %s destinations: all %d ids of hash tables are taken", n.tree.place.Protocol, MaxTable)
}

// used is the ids of nodes in a bucket that cannot be had: also of those that are about to go, since they stand until then.
type used [(lastNode + 1) / 64]uint64

func newUsed(b *bucket, stale []uint32) *used {
	u := &used{}
	u.set(0)
	for _, id := range stale {
		u.set(id)
	}
	if b == nil {
		return u
	}
	for _, l := range b.links {
		u.set(l.node)
	}
	for _, x := range b.leaves {
		u.set(x.node)
	}
	return u
}

func (u *used) set(id uint32)      { u[id/64] |= 1 << (id % 64) }
func (u *used) has(id uint32) bool { return u[id/64]&(1<<(id%64)) != 0 }

// between takes a free id above low and below high, the first one from wish on if there is any.
func (u *used) between(low, high, wish uint32) (uint32, bool) {
	for id := max(low+1, wish); id < high; id++ {
		if !u.has(id) {
			u.set(id)
			return id, true
		}
	}
	for id := min(high, wish); id > low+1; id-- {
		if !u.has(id - 1) {
			u.set(id - 1)
			return id - 1, true
		}
	}
	return 0, false
}

// insert numbers the new nodes between the others: links in their order, before all leaves, and of two leaves that overlap the longer
// one first. False if there is no room for one.
func (n *numberer) insert(b *bucket, u *used) bool {
	width, ok := n.tree.place.width(), false
	low := uint32(0)
	for i, l := range b.links {
		if l.node == 0 {
			high := uint32(lastNode + 1)
			for _, m := range b.links[i+1:] {
				if m.node != 0 {
					high = min(high, m.node)
				}
			}
			for _, x := range b.leaves {
				if x.node != 0 {
					high = min(high, x.node)
				}
			}
			if l.node, ok = u.between(low, high, stretch(true, int(l.key), width)); !ok {
				return false
			}
		}
		low = l.node
	}
	for i := range b.leaves {
		x := &b.leaves[i]
		if x.node != 0 {
			continue
		}
		from, to := low, uint32(lastNode+1)
		for _, y := range b.leaves {
			switch {
			case y.node == 0:
			case x.covers(y.item):
				from = max(from, y.node)
			case y.covers(x.item):
				to = min(to, y.node)
			}
		}
		if x.node, ok = u.between(from, to, stretch(false, int(x.length), width)); !ok {
			return false
		}
	}
	return true
}

// renumber gives all nodes of b new ids, evenly spread over the free ones.
func (n *numberer) renumber(b *bucket, u *used) bool {
	var free []uint32
	for id := uint32(1); id <= lastNode; id++ {
		if !u.has(id) {
			free = append(free, id)
		}
	}
	count := len(b.links) + len(b.leaves)
	if count > len(free) {
		return false
	}
	for i := range count {
		id := free[(2*i+1)*len(free)/(2*count)]
		if i < len(b.links) {
			b.links[i].node = id
		} else {
			b.leaves[i-len(b.links)].node = id
		}
	}
	return true
}
