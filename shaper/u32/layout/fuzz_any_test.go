package layout

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bulkshaper/inventory/bound"
	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/u32"
)

// source gives the bytes of a fuzzer one after the other, and zeros behind the last.
type source struct{ data []byte }

func (s *source) byte() byte {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return b
}

func (s *source) word() uint32 {
	return binary.BigEndian.Uint32([]byte{s.byte(), s.byte(), s.byte(), s.byte()})
}

// anything is what any hand may have made at and beside place: nodes with any selector and any keys, in any table, of any pref. Only
// what no kernel has is left out: a node in no table or bucket, a table of two prefs, a link to a root. The root of the pref is the first
// of the tables whose ids the kernel chooses, as it is where nobody chose such an id by hand.
func anything(s *source, place Place) []tc.Filter {
	const firstRoot = 0x800
	root := firstRoot + uint32(s.byte()%4)
	prefs := []uint16{place.Pref, place.Pref, place.Pref, place.Pref + 1, 10}
	protocols := []tc.Protocol{place.Protocol, place.Protocol, place.Protocol, tc.ProtocolAll, tc.ProtocolARP}
	at := func(pref uint16, h tc.U32Handle) tc.Filter {
		protocol := place.Protocol
		if pref != place.Pref {
			protocol = protocols[pref%5]
		}
		return tc.Filter{Parent: place.Parent, Pref: pref, Protocol: protocol, Kind: tc.KindU32, Handle: h}
	}
	type made struct {
		id, divisor uint32
		pref        uint16
	}
	var tables []made
	var filters []tc.Filter
	table := func(id, divisor uint32, pref uint16) {
		if slices.ContainsFunc(tables, func(t made) bool { return t.id == id }) || id >= firstRoot && id < root {
			return
		}
		tables = append(tables, made{id, divisor, pref})
		f := at(pref, tc.MakeU32Handle(id, 0, 0))
		f.Divisor = divisor
		filters = append(filters, f)
	}
	table(root, 1, place.Pref)
	for range s.byte() % 10 {
		table(s.word()%0xfff+1, 1<<(s.byte()%9), prefs[s.byte()%5])
	}
	if s.byte()%8 == 0 {
		filters = append(filters, tc.Filter{Parent: place.Parent, Pref: 7, Protocol: tc.ProtocolIP, Kind: "basic", Handle: tc.U32Handle(s.word())})
	}
	for len(s.data) > 0 && len(filters) < 300 {
		in := tables[int(s.byte())%len(tables)]
		f := at(in.pref, tc.MakeU32Handle(in.id, uint32(s.byte())%in.divisor, s.word()%0xfff+1))
		how := s.byte()
		if how&1 != 0 {
			if to := tables[int(s.byte())%len(tables)]; to.id != root {
				f.Link = tc.MakeU32Handle(to.id, 0, 0)
			}
		}
		if how&2 != 0 {
			f.ClassID = tc.Handle(s.word())
		}
		switch how >> 2 & 3 {
		case 0, 1:
			f.Sel = tc.MatchDestination(drawPrefix(s, place.width()))
		case 2:
			f.Sel = window{s.byte() % 32, s.byte()%8 + 1}.selector(place.width())
		case 3:
			f.Sel = tc.Selector{Flags: s.byte(), OffShift: s.byte() % 16, OffMask: uint16(s.word()), Off: uint16(s.word()), OffOff: int16(s.word()), HOff: int16(s.byte())}
			for range s.byte() % 4 {
				f.Sel.Keys = append(f.Sel.Keys, tc.Key{Mask: s.word(), Value: s.word(), Off: int32(s.byte()), OffMask: int32(int8(s.byte()))})
			}
		}
		if how&16 != 0 {
			f.Sel.HMask ^= s.word()
		}
		if how&32 != 0 {
			f.Sel.HOff ^= int16(s.byte())
		}
		f.Sel.Extra = how&64 != 0 && s.byte()%4 == 0
		filters = append(filters, f)
	}
	return filters
}

func drawPrefix(s *source, width int) netip.Prefix {
	a := netip.AddrFrom4([4]byte{10, 0, s.byte() & 3, s.byte()})
	if width == 128 {
		a = netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 13: s.byte() & 3, 14: s.byte(), 15: s.byte()})
	}
	return netip.PrefixFrom(a, width-int(s.byte())%(width+1)).Masked()
}

// FuzzReadAny gives the reader any tree of any hand. Whatever stands, the steps lead from it to a tree in which the longest prefix
// wins; there is nothing left to do then, and nothing of another pref was looked at.
//
// PROMISES.md: Any bytes are in the files, in flags or in what the kernel answers
func FuzzReadAny(f *testing.F) {
	f.Add([]byte{}, false, uint8(0))
	f.Add([]byte{0, 3, 0, 0, 0, 4, 8, 0, 0, 0, 0, 9, 3, 0, 1, 0, 0, 0, 1, 9, 1, 8, 5, 1, 3, 0, 0, 0, 2, 2, 0, 1, 0, 16, 0, 7, 8}, false, uint8(4))
	f.Add([]byte{1, 9, 0, 0, 1, 1, 2, 0, 0, 0, 0, 2, 3, 1, 0, 0, 0, 0, 0, 2, 15, 255, 1, 2, 3, 4, 5, 6}, true, uint8(40))
	f.Fuzz(func(t *testing.T, data []byte, wide bool, count uint8) {
		place := place4
		if wide {
			place = place6
		}
		s := &source{data}
		items := map[netip.Prefix]Item{}
		for range count {
			p := drawPrefix(s, place.width())
			items[p] = Item{p, classOf(int(s.byte()))}
		}
		have := anything(s, place)
		for i, x := range have { // what stands is wanted, too, more often than not
			if p, ok := x.Destination(); ok && x.Pref == place.Pref && i%3 > 0 && p.Addr().BitLen() == place.width() {
				items[p] = Item{p, classOf(i)}
			}
		}
		var want []Item
		for _, it := range items {
			want = append(want, it)
		}
		slices.SortFunc(want, func(a, b Item) int { return a.Prefix.Compare(b.Prefix) })
		bound.Check(t, len(data)+len(want)*20, memoryPerByte, func() { readAndAdapt(t, have, want, place) })
	})
}

// memoryPerByte is what reading and laying out may take from the heap for each byte that a filter was made of: windows are tried.
const memoryPerByte = 100_000

func readAndAdapt(t *testing.T, have []tc.Filter, items []Item, place Place) {
	t.Helper()
	adapted, err := Read(have, place).Adapt(items, Options{})
	if err != nil {
		var crowded *CrowdedError
		if errors.As(err, &crowded) {
			t.Fatalf("%d items are called crowded: %v", len(items), err)
		}
		t.Fatal(err)
	}
	ours := func(f tc.Filter) bool {
		return f.Kind == tc.KindU32 && f.Pref == place.Pref && f.Protocol == place.Protocol && f.Parent == place.Parent
	}
	steps := adapted.Steps(have, nil)
	for _, f := range slices.Concat(steps.Tables, steps.Aside, steps.Gone) {
		if !ours(f) {
			t.Fatalf("%+v is not at the place", f)
		}
	}
	after := done(slices.DeleteFunc(slices.Clone(have), func(f tc.Filter) bool { return !ours(f) }), steps)
	again := Read(after, place)
	if d := cmp.Diff(adapted.Filters(), again.Filters()); d != "" {
		t.Fatalf("what stands then is read as another tree: %s", d)
	}
	for _, a := range edges(items) {
		class, matched := longest(items, a)
		packet, protocol := u32.Packet(a)
		if got := u32.Classify(after, packet, protocol); got.ClassID != class || got.Matched != matched {
			t.Fatalf("%s goes to %s (%v), want %s (%v)", a, got.ClassID, got.Matched, class, matched)
		}
	}
	last := again.Steps(after, nil)
	if n := len(last.Tables) + len(last.Aside) + len(last.Live) + len(last.Gone); n > 0 {
		t.Fatalf("still to do: %+v", last)
	}
}
