package layout

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/u32"
)

// stateOf makes what a kernel may hold of any bytes: tables, and nodes in them, of which some are as this package makes them.
func stateOf(data []byte) []tc.Filter {
	const root = 0x800
	next := func() byte {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return b
	}
	at := func(h tc.U32Handle) tc.Filter {
		return tc.Filter{Parent: place4.Parent, Pref: place4.Pref, Protocol: place4.Protocol, Kind: tc.KindU32, Handle: h}
	}
	divisors := map[uint32]uint32{root: 1}
	head := at(tc.MakeU32Handle(root, 0, 0))
	head.Divisor = 1
	filters := []tc.Filter{head}
	for id := range uint32(next() % 8) {
		f := at(tc.MakeU32Handle(id+1, 0, 0))
		f.Divisor = 1 << (next() % 9)
		divisors[id+1] = f.Divisor
		filters = append(filters, f)
	}
	for len(data) > 0 && len(filters) < 200 {
		id := uint32(next() % 8)
		if divisors[id] == 0 {
			id = root
		}
		f := at(tc.MakeU32Handle(id, uint32(next())%divisors[id], uint32(next())<<4|uint32(next()%16)|1))
		what := next()
		if to := uint32(next() % 8); what&1 != 0 && divisors[to] != 0 {
			f.Link = tc.MakeU32Handle(to, 0, 0)
			bits := uint8(1)
			for 1<<bits < divisors[to] {
				bits++
			}
			f.Sel = window{min(next()%32, 32-bits), bits}.selector(32)
		} else {
			f.ClassID = classOf(int(next()))
			f.Sel = tc.MatchDestination(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, next() & 3, next()}), 32-int(next()%9)).Masked())
		}
		switch what >> 1 {
		case 1:
			f.Sel.Flags ^= 1
		case 2:
			f.Sel.HMask ^= 0x100
		case 3:
			f.ClassID ^= 3
		case 4:
			f.Sel.Keys = append(f.Sel.Keys, tc.Key{Mask: 0xff, Value: 6, Off: 8})
		case 5:
			f.Sel.Extra = true
		case 6:
			filters = append(filters, f) // a handle that occurs twice
		}
		filters = append(filters, f)
	}
	return filters
}

// done is what stands after steps.
func done(have []tc.Filter, steps Steps) []tc.Filter {
	var filters []tc.Filter
	for _, f := range have {
		if steps.Standing[f.Handle.Table()] && !slices.ContainsFunc(steps.Gone, func(g tc.Filter) bool { return g.Handle == f.Handle }) {
			filters = append(filters, f)
		}
	}
	filters = slices.Concat(filters, steps.Tables, steps.Aside)
	for _, s := range steps.Live {
		if s.Changed {
			i := slices.IndexFunc(filters, func(f tc.Filter) bool { return f.Handle == s.Filter.Handle })
			filters[i].ClassID = s.Filter.ClassID
			continue
		}
		filters = append(filters, s.Filter)
	}
	return filters
}

// FuzzRead: whatever stands, it is read without harm, and the steps lead from it to a tree in which the longest prefix wins; there is
// nothing left to do then.
//
// PROMISES.md: Any bytes are in the files, in flags or in what the kernel answers
func FuzzRead(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{3, 4, 8, 2, 0, 0, 1, 0, 1, 1, 8, 1, 5, 2, 0, 0, 0, 9, 1, 0, 7, 0, 0, 2, 1, 1, 2, 24})
	f.Fuzz(func(t *testing.T, data []byte) {
		have := stateOf(data)
		tree := Read(have, place4)
		var items []Item
		seen := map[netip.Prefix]bool{}
		for i, x := range have {
			if p, ok := x.Destination(); ok && x.IsNode() && !seen[p] && i%5 > 0 {
				seen[p] = true
				items = append(items, Item{p, classOf(i)})
			}
		}
		adapted, err := tree.Adapt(items, Options{})
		if err != nil {
			t.Fatal(err)
		}
		after := done(have, adapted.Steps(have, nil))
		again := Read(after, place4)
		objects := 0
		for _, x := range after {
			if x.IsNode() || x.Handle.Table() < 0x800 {
				objects++
			}
		}
		if d := cmp.Diff(adapted.Filters(), again.Filters()); d != "" || objects != len(again.Filters()) {
			t.Fatalf("%d objects, %d in the tree: %s", objects, len(again.Filters()), d)
		}
		for _, a := range edges(items) {
			want, matched := longest(items, a)
			packet, protocol := u32.Packet(a)
			if got := u32.Classify(after, packet, protocol); got.ClassID != want || got.Matched != matched {
				t.Fatalf("%s goes to %s (%v), want %s (%v)", a, got.ClassID, got.Matched, want, matched)
			}
		}
		last := again.Steps(after, nil)
		if n := len(last.Tables) + len(last.Aside) + len(last.Live) + len(last.Gone); n > 0 {
			t.Fatalf("still to do: %+v", last)
		}
	})
}
