package layout

import (
	"fmt"
	"slices"

	"bulkshaper/shaper/tc"
)

// Options says what a layout may use.
type Options struct {
	// Budget is how many tables it may have, about; 0 stands for DefaultBudget. Half of the ids are left free, so that the
	// whole can be built anew beside what stands.
	Budget int
	// Taken tells which table ids cannot be had, apart from those in the tree and in what it was read from; nil for none.
	Taken func(id uint32) bool
}

// DefaultBudget is for one family alone.
const DefaultBudget = 1000

// Budgets shares the tables between numbers of destinations of two families.
func Budgets(n, m int) (int, int) {
	const least = DefaultBudget / 10
	if n+m == 0 {
		return DefaultBudget / 2, DefaultBudget / 2
	}
	budget := min(max(DefaultBudget*n/(n+m), least), DefaultBudget-least)
	return budget, DefaultBudget - budget
}

// CrowdedError says that destinations cannot be told apart by tables, and are too many for a bucket.
type CrowdedError struct {
	Place  Place
	Bucket tc.U32Handle
	Nodes  int
}

// Error names the bucket and what to do.
func (e *CrowdedError) Error() string {
	return fmt.Sprintf("lay out the %s destinations (pref %d): %d of them come together in bucket %s, which takes %d: name fewer destinations "+
		"(give servers of one class a common prefix)", e.Place.Protocol, e.Place.Pref, e.Nodes, e.Bucket, MaxNodes)
}

// Build lays out items where nothing stands.
func Build(items []Item, place Place, opts Options) (*Tree, error) {
	return (&Tree{place: place}).Adapt(items, opts)
}

const (
	// splitAbove is from how many leaves on a bucket that stands is divided: later than one that is made anew, so that a
	// server that comes and goes does not make and break tables.
	splitAbove = 12
	// longList is divided even if that takes more tables than planned.
	longList = 512
	// rounds bounds how often the tree is gone through for places to improve.
	rounds = 8
)

// Adapt is the tree for items that has as much as possible in common with t, which is not changed. Nodes and tables that stay have
// the handles they had; others have handles that nothing in t has. With the items that t has it is t again, or, if that was poor, a
// better one, of which Adapt makes no other.
func (t *Tree) Adapt(items []Item, opts Options) (*Tree, error) {
	list, err := makeItems(items, t.place.width())
	if err != nil {
		return nil, err
	}
	a := adapter{tree: &Tree{place: t.place, rootID: t.rootID, stale: t.stale, seen: t.seen}, budget: opts.Budget,
		chooser: newChooser(t.place.width(), basePrice)}
	if a.budget == 0 {
		a.budget = DefaultBudget
	}
	a.tree.root = route(&t.root, list)
	if t.root.empty() {
		a.tree.root = a.fresh(list, 0, 0, a.budget)
	}
	a.used = a.tree.root.tables()
	for range rounds {
		a.changed = false
		a.improve(&a.tree.root, 0, 0)
		a.renew(&a.tree.root)
		if !a.changed {
			break
		}
	}
	ids := newNumberer(a.tree, t, opts.Taken)
	if err := ids.bucket(&a.tree.root, a.tree.rootID, 0); err != nil {
		return nil, err
	}
	return a.tree, nil
}

// route puts items into the tables of old. Tables that get nothing are left out.
func route(old *bucket, items []item) bucket {
	var b bucket
	for _, l := range old.links {
		var in []item
		if in, items = splitByLength(items, l.key); len(in) == 0 {
			continue
		}
		t := newTable(l.table.window)
		t.id = l.table.id
		for i, part := range partition(in, t.window) {
			if len(part) > 0 {
				t.buckets[i] = route(&l.table.buckets[i], part)
			}
		}
		b.links = append(b.links, &link{node: l.node, key: l.key, table: t})
	}
	b.leaves = match(old.leaves, items)
	return b
}

// match gives each of items the node that it has in old, if it has one.
func match(old []leaf, items []item) []leaf {
	leaves := make([]leaf, len(items))
	var index map[item]uint32
	if len(old) > 16 {
		index = make(map[item]uint32, len(old))
		for _, x := range old {
			x.class = 0
			index[x.item] = x.node
		}
	}
	for i, x := range items {
		leaves[i].item = x
		if index != nil {
			x.class = 0
			leaves[i].node = index[x]
			continue
		}
		if j := slices.IndexFunc(old, func(y leaf) bool { return y.samePrefix(x) }); j >= 0 {
			leaves[i].node = old[j].node
		}
	}
	return leaves
}

// adapter is the work of one Adapt.
type adapter struct {
	tree    *Tree
	chooser *chooser // at the base price
	budget  int      // tables
	used    int      // tables
	changed bool
}

// fresh lays out items anew, in at most budget tables if that can be: the price goes up until it is so. Since a dearer table may by
// chance lead to better windows, somewhat higher prices are tried too.
func (a *adapter) fresh(items []item, key uint8, depth, budget int) bucket {
	var best bucket
	var found weight
	for c, more := a.chooser, 2; ; c = newChooser(c.width, 2*c.price) {
		b := c.build(slices.Clone(items), key, depth, true)
		w := b.weigh()
		if w.tables > max(budget, 0) {
			continue
		}
		if found.items == 0 || w.cost < found.cost {
			best, found = b, w
		}
		if more--; c == a.chooser || more < 0 {
			return best
		}
	}
}

// improve divides lists that have become long, and makes poor parts anew, as far as tables are left.
func (a *adapter) improve(b *bucket, key uint8, depth int) {
	for _, l := range b.links {
		for i := range l.table.buckets {
			if s := &l.table.buckets[i]; len(s.links) > 0 || len(s.leaves) > splitAbove {
				a.improve(s, l.key, depth+1)
			}
		}
	}
	if len(b.leaves) > splitAbove {
		a.split(b, key, depth)
	}
}

// split divides the leaves of b.
func (a *adapter) split(b *bucket, key uint8, depth int) {
	room := a.budget - a.used
	if len(b.leaves) > longList {
		room = max(room, 64)
	}
	if room <= 0 {
		return
	}
	items := make([]item, len(b.leaves))
	for i, x := range b.leaves {
		items[i] = x.item
	}
	n := a.fresh(items, key, depth, room)
	if tables := n.tables(); tables > 0 {
		a.used, a.changed = a.used+tables, true
		b.links = append(b.links, n.links...)
		b.leaves = rematch(b.leaves, n.leaves)
	}
}

// rematch gives leaves the nodes they have in old.
func rematch(old, leaves []leaf) []leaf {
	items := make([]item, len(leaves))
	for i, x := range leaves {
		items[i] = x.item
	}
	return match(old, items)
}

// renew lays the whole out anew if that is clearly better for the packets or takes far fewer tables.
func (a *adapter) renew(b *bucket) {
	w := b.weigh()
	isPoor := w.cost > 2*a.chooser.estimate(w.items)
	isEmpty := w.tables > 64 && w.items < 16*w.tables
	if w.tables == 0 || !isPoor && !isEmpty {
		return
	}
	n := a.fresh(b.items(nil), 0, 0, a.budget)
	m := n.weigh()
	better := isPoor && 3*m.cost < 2*w.cost
	smaller := isEmpty && 3*m.tables < w.tables && 10*m.cost <= 11*w.cost
	if better || smaller {
		n.leaves = rematch(b.leaves, n.leaves)
		a.used, a.changed = m.tables, true
		*b = n
	}
}
