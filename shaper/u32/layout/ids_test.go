package layout

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bulkshaper/shaper/tc"
)

// standing is a dump of a list with a node for each of leaves ("id prefix"), and before them links to tables of 16 buckets on the last
// bits, by node id.
func standing(t *testing.T, leaves []string, links map[uint32]uint32) []tc.Filter {
	t.Helper()
	tree := &Tree{place: place4, rootID: 0x800}
	head := tree.filter(tc.MakeU32Handle(0x800, 0, 0))
	head.Divisor = 1
	filters := []tc.Filter{head}
	for node, id := range links {
		w := window{28, 4}
		l := &link{node: node, key: 32, table: newTable(w)}
		l.table.id = id
		x := leaf{item{makeAddress(netip.MustParseAddr("10.7.0.1")), 32, classOf(0)}, 0x300}
		filters = append(filters, tree.tableFilter(l.table), tree.linkFilter(l, 0x800, 0), tree.leafFilter(x, id, 1))
	}
	for _, text := range leaves {
		var node uint32
		var prefix string
		if _, err := fmt.Sscan(text, &node, &prefix); err != nil {
			t.Fatal(err)
		}
		p := netip.MustParsePrefix(prefix)
		filters = append(filters, tree.leafFilter(leaf{item{makeAddress(p.Addr()), uint8(p.Bits()), classOf(1)}, node}, 0x800, 0))
	}
	return filters
}

func itemsOf(prefixes ...string) []Item {
	var items []Item
	for i, p := range prefixes {
		items = append(items, Item{netip.MustParsePrefix(p), classOf(i)})
	}
	return items
}

// TestNoRoom: where there is no id between those that it must stand between, the whole bucket gets new ones; nothing has the id of
// something else that still stands.
func TestNoRoom(t *testing.T) {
	for _, test := range []struct {
		name    string
		leaves  []string
		links   map[uint32]uint32
		items   []Item
		changed int // nodes that are added, 0 for any number
	}{
		{"room between", []string{"5 10.0.0.1/32", "7 10.0.0.0/24"}, nil, itemsOf("10.0.0.1/32", "10.0.0.0/24", "10.0.0.0/28"), 1},
		{"no room between", []string{"5 10.0.0.1/32", "6 10.0.0.0/24"}, nil, itemsOf("10.0.0.1/32", "10.0.0.0/24", "10.0.0.0/28"), 3},
		{"no room before", []string{"1 10.0.0.0/24"}, nil, itemsOf("10.0.0.0/24", "10.0.0.0/28"), 2},
		{"no room behind", []string{"4095 10.0.0.0/24"}, nil, itemsOf("10.0.0.0/24", "10.0.0.0/16"), 2},
		{"no room between a link and a leaf", []string{"2 10.0.0.0/24"}, map[uint32]uint32{1: 1}, itemsOf("10.7.0.1/32", "10.0.0.0/24", "10.0.0.0/28"), 3},
		{"the place of one that goes", []string{"5 10.0.0.1/32", "6 10.0.0.0/28", "7 10.0.0.0/24"}, nil, itemsOf("10.0.0.1/32", "10.0.0.0/24", "10.0.0.0/30"), 3},
		{"a wrong order", []string{"5 10.0.0.0/24", "6 10.0.0.1/32"}, nil, itemsOf("10.0.0.1/32", "10.0.0.0/24"), 1},
		{"a leaf before the link", []string{"1 10.0.0.0/24"}, map[uint32]uint32{2: 1}, itemsOf("10.7.0.1/32", "10.0.0.0/24"), 1},
		{"a link that goes", []string{"2 10.0.0.0/24"}, map[uint32]uint32{1: 1}, itemsOf("10.0.0.0/24", "10.0.0.0/28"), 2},
	} {
		have := standing(t, test.leaves, test.links)
		tree, err := Read(have, place4).Adapt(test.items, Options{})
		if err != nil {
			t.Fatal(err)
		}
		steps := tree.Steps(have, nil)
		added := 0
		for _, s := range steps.Live {
			if s.Changed {
				continue
			}
			added++
			for _, f := range have {
				if f.Handle == s.Filter.Handle {
					t.Errorf("%s: %s stands and is added", test.name, f.Handle)
				}
			}
		}
		if added != test.changed || len(steps.Tables)+len(steps.Aside) > 0 {
			t.Errorf("%s: added %+v, %d in tables", test.name, steps.Live, len(steps.Aside))
		}
		after := Read(done(have, steps), place4)
		if d := cmp.Diff(tree.Filters(), after.Filters()); d != "" {
			t.Errorf("%s: %s", test.name, d)
		}
		for _, a := range edges(test.items) {
			want, matched := longest(test.items, a)
			if class, ok, _ := after.Lookup(a); class != want || ok != matched {
				t.Errorf("%s: %s goes to %s", test.name, a, class)
			}
		}
	}
}

// TestRebind: nodes that lead to a class which is made again are sent again.
func TestRebind(t *testing.T) {
	have := standing(t, []string{"5 10.0.0.0/24", "7 10.0.1.0/24"}, map[uint32]uint32{1: 1})
	items := []Item{{netip.MustParsePrefix("10.0.0.0/24"), classOf(1)}, {netip.MustParsePrefix("10.0.1.0/24"), classOf(1)}, {netip.MustParsePrefix("10.7.0.1/32"), classOf(0)}}
	tree, err := Read(have, place4).Adapt(items, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s := tree.Steps(have, nil); len(s.Live) > 0 {
		t.Errorf("to do: %+v", s.Live)
	}
	s := tree.Steps(have, func(class tc.Handle) bool { return class == classOf(0) })
	if len(s.Live) != 1 || !s.Live[0].Changed || s.Live[0].Old != classOf(0) || s.Live[0].Filter.Handle != tc.MakeU32Handle(1, 1, 0x300) {
		t.Errorf("to do: %+v", s.Live)
	}
}
