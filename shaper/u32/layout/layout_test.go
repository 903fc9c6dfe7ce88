package layout

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/u32"
)

// longest is the class of the longest prefix that contains a: what every layout must give.
func longest(items []Item, a netip.Addr) (tc.Handle, bool) {
	best := -1
	for i, x := range items {
		if x.Prefix.Contains(a) && (best < 0 || x.Prefix.Bits() > items[best].Prefix.Bits()) {
			best = i
		}
	}
	if best < 0 {
		return 0, false
	}
	return items[best].ClassID, true
}

// edges are the addresses where prefixes begin and end, and those beside them.
func edges(items []Item) []netip.Addr {
	var addresses []netip.Addr
	for _, x := range items {
		first := x.Prefix.Addr()
		last := first.AsSlice()
		for i := x.Prefix.Bits(); i < first.BitLen(); i++ {
			last[i/8] |= 0x80 >> (i % 8)
		}
		end, _ := netip.AddrFromSlice(last)
		for _, a := range []netip.Addr{first, end, first.Prev(), end.Next()} {
			if a.IsValid() {
				addresses = append(addresses, a)
			}
		}
	}
	return addresses
}

// randomItems are of all kinds: few and many, near each other and not, of all lengths.
func randomItems(place Place) *rapid.Generator[[]Item] {
	return rapid.Custom(func(t *rapid.T) []Item {
		width := place.width()
		n := rapid.SampledFrom([]int{0, 1, 3, 6, 14, 40, 150, 300}).Draw(t, "count")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		// Each item is an earlier one with a bit changed here and there, and cut somewhere: nests and neighbours.
		flips := rapid.IntRange(1, 12).Draw(t, "flips")
		from := rapid.IntRange(0, width-1).Draw(t, "from")
		lengths := rapid.SampledFrom([]string{"full", "two", "any"}).Draw(t, "lengths")
		seen := map[netip.Prefix]bool{}
		var items []Item
		base := make([]byte, width/8)
		for i := range base {
			base[i] = byte(r.Uint32())
		}
		for i := 0; len(items) < n && i < 4*n; i++ {
			b := slices.Clone(base)
			if len(items) > 0 && r.IntN(4) > 0 {
				b = items[r.IntN(len(items))].Prefix.Addr().AsSlice()
			}
			for range r.IntN(flips + 1) {
				k := from + r.IntN(width-from)
				b[k/8] ^= 0x80 >> (k % 8)
			}
			length := width
			switch {
			case lengths == "two" && r.IntN(2) == 0:
				length = width * 3 / 4
			case lengths == "any" && r.IntN(2) == 0:
				length = r.IntN(width + 1)
			}
			a, _ := netip.AddrFromSlice(b)
			if p := netip.PrefixFrom(a, length).Masked(); !seen[p] {
				seen[p] = true
				items = append(items, Item{p, classOf(r.IntN(4))})
			}
		}
		return items
	})
}

func places() *rapid.Generator[Place] { return rapid.SampledFrom([]Place{place4, place6}) }

// check holds tree against items: each address gets what the longest prefix gives it, by Lookup and by the model of the kernel.
func check(t *rapid.T, tree *Tree, items []Item) {
	t.Helper()
	probes := edges(items)
	r := rand.New(rand.NewPCG(uint64(len(items)), 7))
	for range 20 {
		probes = append(probes, v4(r.Uint32()), v6(r.Uint64(), r.Uint64()))
	}
	filters := tree.Filters()
	worst := tree.Cost().Worst
	for i, a := range probes {
		if a.BitLen() != tree.place.width() {
			continue
		}
		want, wantOK := longest(items, a)
		class, ok, n := tree.Lookup(a)
		if class != want || ok != wantOK || n > worst {
			t.Fatalf("%s goes to %s (%v) after %d comparisons of at most %d, want %s (%v)", a, class, ok, n, worst, want, wantOK)
		}
		if i%max(1, len(probes)/40) != 0 || a.Is4In6() { // a packet to such an address is one of IPv4
			continue
		}
		packet, protocol := u32.Packet(a)
		if got := u32.Classify(filters, packet, protocol); got.ClassID != want || got.Matched != wantOK || got.Comparisons != n || got.Depth > maxDepth {
			t.Fatalf("the model sends %s to %s (%v) after %d comparisons at depth %d, want %s (%v) after %d", a, got.ClassID, got.Matched, got.Comparisons, got.Depth, want, wantOK, n)
		}
	}
}

// observed is filters as a dump has them: with the root table's id, and in any order.
func observed(t *rapid.T, filters []tc.Filter, place Place) []tc.Filter {
	const root = 0x803
	dump := []tc.Filter{{Parent: place.Parent, Pref: place.Pref, Protocol: place.Protocol, Kind: tc.KindU32, Handle: tc.MakeU32Handle(root, 0, 0), Divisor: 1}}
	for _, f := range filters {
		if f.Handle.Table() == 0 {
			f.Handle |= tc.MakeU32Handle(root, 0, 0)
		}
		dump = append(dump, f)
	}
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 2))
	r.Shuffle(len(dump), func(i, j int) { dump[i], dump[j] = dump[j], dump[i] })
	return dump
}

// sameFilters compares what a dump has with a tree.
func sameFilters(t *rapid.T, got, want []tc.Filter) {
	t.Helper()
	sort := func(filters []tc.Filter) []tc.Filter {
		filters = slices.DeleteFunc(slices.Clone(filters), func(f tc.Filter) bool { return f.Divisor != 0 && f.Handle.Table() > MaxTable })
		for i := range filters {
			if filters[i].Handle.Table() > MaxTable {
				filters[i].Handle &= 0xfffff
			}
		}
		slices.SortFunc(filters, func(a, b tc.Filter) int { return int(a.Handle) - int(b.Handle) })
		return filters
	}
	if d := cmp.Diff(sort(want), sort(got)); d != "" {
		t.Fatal(d)
	}
}

func build(t *rapid.T, items []Item, place Place, opts Options) *Tree {
	t.Helper()
	tree, err := Build(items, place, opts)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func adapt(t *rapid.T, tree *Tree, items []Item, opts Options) *Tree {
	t.Helper()
	adapted, err := tree.Adapt(items, opts)
	if err != nil {
		t.Fatal(err)
	}
	return adapted
}

func TestLongestPrefixWins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		place := places().Draw(t, "place")
		items := randomItems(place).Draw(t, "items")
		opts := Options{Budget: rapid.SampledFrom([]int{0, 0, 5, 50}).Draw(t, "budget")}
		tree := build(t, items, place, opts)
		check(t, tree, items)
		if n := tree.Cost().Tables; opts.Budget != 0 && n > opts.Budget+64 {
			t.Fatalf("%d tables, budget %d", n, opts.Budget)
		}
		r := rand.New(rand.NewPCG(1, 2))
		shuffled := slices.Clone(items)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		sameFilters(t, build(t, shuffled, place, opts).Filters(), tree.Filters())
		// What the kernel shows is the same tree, and there is nothing to adapt.
		read := Read(observed(t, tree.Filters(), place), place)
		sameFilters(t, read.Filters(), tree.Filters())
		sameFilters(t, adapt(t, read, items, opts).Filters(), tree.Filters())
	})
}

// TestAdapt: from any tree to any destinations, the longest prefix wins, a second time changes nothing, no handle means something
// else than before, and handles of what stays in its place stay.
func TestAdapt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		place := places().Draw(t, "place")
		opts := Options{Budget: rapid.SampledFrom([]int{0, 0, 5, 50}).Draw(t, "budget")}
		old := randomItems(place).Draw(t, "old")
		items := randomItems(place).Draw(t, "new")
		for _, x := range old { // a part of the old ones stays
			if rapid.IntRange(0, 9).Draw(t, "keep") > 1 && !slices.ContainsFunc(items, func(y Item) bool { return x.Prefix == y.Prefix }) {
				items = append(items, x)
			}
		}
		tree := Read(observed(t, build(t, old, place, opts).Filters(), place), place)
		adapted := adapt(t, tree, items, opts)
		check(t, adapted, items)
		sameFilters(t, adapt(t, adapted, items, opts).Filters(), adapted.Filters())
		before := map[tc.U32Handle]tc.Filter{}
		for _, f := range tree.Filters() {
			before[f.Handle] = f
		}
		for _, f := range adapted.Filters() {
			f.ClassID = 0
			was, ok := before[f.Handle]
			if was.ClassID = 0; ok && cmp.Diff(was, f) != "" {
				t.Fatalf("%s was %v and is %v", f.Handle, was, f)
			}
		}
	})
}

// TestOneChange: one destination that comes, goes or moves is one node.
func TestOneChange(t *testing.T) {
	for _, s := range shapes() {
		items := s.items(3_000)
		tree, err := Build(items, s.place(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(3, 4))
		most := 0
		for range 20 {
			changed := slices.Clone(items)
			i := r.IntN(len(items))
			switch r.IntN(3) {
			case 0:
				changed = slices.Delete(changed, i, i+1)
			case 1:
				changed[i].ClassID = tc.MakeHandle(1, 0x99)
			case 2:
				p := s.at(r, 3_000+r.IntN(1000), 3_000)
				if !slices.ContainsFunc(items, func(x Item) bool { return x.Prefix == p }) {
					changed = append(changed, Item{p, classOf(1)})
				}
			}
			adapted, err := tree.Adapt(changed, Options{})
			if err != nil {
				t.Fatal(err)
			}
			n := differences(tree, adapted)
			if n > 1 {
				t.Logf("%s: a change of %d filters", s.name, n)
			}
			most = max(most, n)
		}
		if most > 2 {
			t.Errorf("%s: %d filters differ after one change", s.name, most)
		}
	}
}

func differences(a, b *Tree) int {
	is := map[tc.U32Handle]tc.Filter{}
	for _, f := range a.Filters() {
		is[f.Handle] = f
	}
	n := 0
	for _, f := range b.Filters() {
		was, ok := is[f.Handle]
		if !ok || was.ClassID != f.ClassID || was.Link != f.Link || was.Sel.MatchID() != f.Sel.MatchID() {
			n++
		}
		delete(is, f.Handle)
	}
	return n + len(is)
}

func TestBadItems(t *testing.T) {
	p := func(s string) Item { return Item{Prefix: netip.MustParsePrefix(s)} }
	for text, items := range map[string][]Item{
		"occurs twice":          {p("10.0.0.0/8"), p("10.0.0.1/32"), p("10.0.0.0/8")},
		"is not a plain prefix": {p("10.0.0.1/8")},
		"with 32 bits":          {p("2001:db8::/32")},
		"invalid Prefix":        {{}},
	} {
		if _, err := Build(items, place4, Options{}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
}

// TestNoTableIDs: without tables a list stands while it can, and then there is an error, never a handle that occurs twice.
func TestNoTableIDs(t *testing.T) {
	taken := Options{Budget: 1, Taken: func(uint32) bool { return true }}
	if _, err := Build(shapes()[0].items(100), place4, taken); err == nil || !strings.Contains(err.Error(), "ids of hash tables are taken") {
		t.Errorf("got %v", err)
	}
	full := &Tree{place: place4}
	for i := range MaxNodes + 1 {
		full.root.leaves = append(full.root.leaves, leaf{item: item{address: makeAddress(v4(uint32(i))), length: 32}})
	}
	var crowded *CrowdedError
	err := newNumberer(full, &Tree{}, nil).bucket(&full.root, 0, 0)
	if !errors.As(err, &crowded) || crowded.Nodes != MaxNodes+1 || !strings.Contains(err.Error(), "4001 of them come together") {
		t.Errorf("got %v", err)
	}
	full.root.leaves = full.root.leaves[:MaxNodes]
	if err := newNumberer(full, &Tree{}, nil).bucket(&full.root, 0, 0); err != nil {
		t.Error(err)
	}
}
