package plan

import (
	"net/netip"

	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/u32/layout"
)

// The layouts.
const (
	LayoutList = "list"
	LayoutHash = "hash"
)

// Hashed is the destinations of one family in layout hash.
type Hashed struct {
	Place layout.Place
	Items []layout.Item
	// Budget is how many hash tables they may take.
	Budget int
	// Names says what each destination is for.
	Names map[netip.Prefix]string
}

// Hashed is what the prefs of layout hash shall hold: nothing in layout list.
func (p *Plan) Hashed() [2]Hashed {
	result := [2]Hashed{
		{Place: layout.Place{Parent: p.Root.Handle, Pref: PrefHashIPv4, Protocol: tc.ProtocolIP}},
		{Place: layout.Place{Parent: p.Root.Handle, Pref: PrefHashIPv6, Protocol: tc.ProtocolIPv6}},
	}
	for i := range result {
		h := &result[i]
		h.Names = map[netip.Prefix]string{}
		for _, f := range p.Filters {
			if f.Pref != h.Place.Pref {
				continue
			}
			prefix, _ := f.Destination()
			h.Items = append(h.Items, layout.Item{Prefix: prefix, ClassID: f.ClassID})
			h.Names[prefix] = f.Name
		}
	}
	result[0].Budget, result[1].Budget = layout.Budgets(len(result[0].Items), len(result[1].Items))
	return result
}

// Name is what filter f of the layout is for.
func (h *Hashed) Name(f tc.Filter) string {
	if prefix, ok := f.Destination(); ok && f.Link == 0 {
		return h.Names[prefix]
	}
	return "hash table " + f.Link.String()
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
