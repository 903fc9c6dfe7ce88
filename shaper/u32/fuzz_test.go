package u32

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"bulkshaper/inventory/bound"
	"bulkshaper/shaper/tc"
)

// FuzzClassify gives any filters, with links in circles and keys outside of the packet, and any packet. The search ends, as the
// kernel's does, and what it says is one of the filters.
//
// PROMISES.md: Any bytes are in the files, in flags or in what the kernel answers
func FuzzClassify(f *testing.F) {
	packet, _ := Packet(netip.MustParseAddr("10.1.0.5"))
	f.Add([]byte{}, packet)
	f.Add([]byte{0, 0, 1, 1, 0, 1, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0}, packet)
	f.Fuzz(func(t *testing.T, data, packet []byte) {
		next := func() byte {
			if len(data) == 0 {
				return 0
			}
			b := data[0]
			data = data[1:]
			return b
		}
		word := func() uint32 { return binary.BigEndian.Uint32([]byte{next(), next(), next(), next()}) }
		size := len(data) + len(packet)
		var filters []tc.Filter
		for len(data) > 0 && len(filters) < 100 {
			id := []uint32{0x800, 1, 2, 3, 0x801}[next()%5]
			pref := []uint16{5, 6}[id&1]
			if what := next(); what < 32 {
				filters = append(filters, hash(pref, id&7, 1<<(what&7)))
				continue
			}
			n := node(pref, id, uint32(next()%4), uint32(next()), tc.Selector{Flags: next() & 15, HOff: int16(int8(next())), HMask: word(), OffOff: int16(int8(next())),
				OffMask: uint16(next()), OffShift: next() & 15, Off: uint16(next())}, id8(next()))
			for range next() % 3 {
				n.Sel.Keys = append(n.Sel.Keys, tc.Key{Mask: word(), Value: word(), Off: int32(int8(next())), OffMask: int32(int8(next()))})
			}
			if next()&1 != 0 {
				n = link(n, uint32(next()%4))
			}
			filters = append(filters, n)
		}
		var r Result
		bound.Check(t, size, memoryPerByte, func() { r = Classify(filters, packet, tc.ProtocolIP) })
		if r.Depth > maxDepth {
			t.Errorf("%d links deep", r.Depth)
		}
		if r.Matched && (r.Filter.Sel.Flags&tc.U32Terminal == 0 || r.ClassID != r.Filter.ClassID) {
			t.Errorf("matched by %+v", r.Filter)
		}
		if !r.Matched && (r.ClassID != 0 || r.Filter.Kind != "") {
			t.Errorf("not matched, and yet %+v", r)
		}
	})
}

// memoryPerByte is what a search may take from the heap for each byte that filters and packet were made of.
const memoryPerByte = 2000

func id8(n byte) tc.Handle { return id(uint16(n)) }
