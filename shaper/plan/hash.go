package plan

import (
	"cmp"
	"net/netip"
	"slices"

	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/u32/layout"
)

// The layouts.
const (
	LayoutList = "list"
	LayoutHash = "hash"
)

// Hashed is the destinations of one family in layout hash, sorted by prefix.
type Hashed struct {
	Place layout.Place
	Items []layout.Item
	// Budget is how many hash tables they may take.
	Budget  int
	filters []Filter // of the same destinations, in the order of Items
}

// Hashed is what the prefs of layout hash shall hold: nothing in layout list.
func (p *Plan) Hashed() [2]Hashed {
	result := [2]Hashed{
		{Place: layout.Place{Parent: p.Root.Handle, Pref: PrefHashIPv4, Protocol: tc.ProtocolIP}},
		{Place: layout.Place{Parent: p.Root.Handle, Pref: PrefHashIPv6, Protocol: tc.ProtocolIPv6}},
	}
	for i := range result {
		h := &result[i]
		byPref := func(f Filter, pref uint16) int { return cmp.Compare(f.Pref, pref) }
		from, _ := slices.BinarySearchFunc(p.Filters, h.Place.Pref, byPref)
		to, _ := slices.BinarySearchFunc(p.Filters, h.Place.Pref+1, byPref)
		h.filters = p.Filters[from:to]
		h.Items = make([]layout.Item, len(h.filters))
		for j := range h.filters {
			prefix, _ := h.filters[j].Destination()
			h.Items[j] = layout.Item{Prefix: prefix, ClassID: h.filters[j].ClassID}
		}
	}
	result[0].Budget, result[1].Budget = layout.Budgets(len(result[0].Items), len(result[1].Items))
	return result
}

// Name is what filter f of the layout is for.
func (h *Hashed) Name(f tc.Filter) string {
	prefix, ok := f.Destination()
	if !ok || f.Link != 0 {
		return "hash table " + f.Link.String()
	}
	i, ok := slices.BinarySearchFunc(h.Items, prefix, func(x layout.Item, p netip.Prefix) int { return comparePrefixes(x.Prefix, p) })
	if !ok {
		return prefix.String()
	}
	return h.filters[i].Name
}

// Trees are the hash tables of a first installation, none in layout list.
func (p *Plan) Trees() ([]*layout.Tree, error) { return trees(p.Hashed()) }

func trees(hashed [2]Hashed) ([]*layout.Tree, error) {
	var trees []*layout.Tree
	taken := map[uint32]bool{}
	for _, h := range hashed {
		if len(h.Items) == 0 {
			continue
		}
		tree, err := layout.Build(h.Items, h.Place, layout.Options{Budget: h.Budget, Taken: func(id uint32) bool { return taken[id] }})
		if err != nil {
			return nil, err
		}
		for _, id := range tree.TableIDs() {
			taken[id] = true
		}
		trees = append(trees, tree)
	}
	return trees, nil
}

// Costs is what the hash tables among filters, which were read from the kernel, cost a packet: IPv4, then IPv6. In layout list there
// are none, and the cost is zero.
func (p *Plan) Costs(filters []tc.Filter) [2]layout.Cost {
	var costs [2]layout.Cost
	for i, h := range p.Hashed() {
		costs[i] = layout.Read(filters, h.Place).Cost()
	}
	return costs
}
