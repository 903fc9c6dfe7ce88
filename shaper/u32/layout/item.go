package layout

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"bulkshaper/shaper/tc"
)

// Item is a destination and the class of its packets.
type Item struct {
	Prefix  netip.Prefix
	ClassID tc.Handle
}

// item is an Item in a form that is quick to compute with.
type item struct {
	address
	length uint8
	class  tc.Handle
}

// address is an IPv6 address, or an IPv4 address in the first 32 bits.
type address struct{ hi, lo uint64 }

func makeAddress(a netip.Addr) address {
	if a.Is4() {
		b := a.As4()
		return address{hi: uint64(binary.BigEndian.Uint32(b[:])) << 32}
	}
	b := a.As16()
	return address{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// addr is a as an address of a family that has width bits.
func (a address) addr(width int) netip.Addr {
	if width == 32 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(a.hi>>32))
		return netip.AddrFrom4(b)
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], a.hi)
	binary.BigEndian.PutUint64(b[8:], a.lo)
	return netip.AddrFrom16(b)
}

func (a address) compare(b address) int {
	return cmp.Or(cmp.Compare(a.hi, b.hi), cmp.Compare(a.lo, b.lo))
}

// bit is bit i, counted from the front.
func (a address) bit(i int) uint64 {
	if i < 64 {
		return a.hi >> (63 - i) & 1
	}
	return a.lo >> (127 - i) & 1
}

// contains tells whether a, of length bits, is a prefix of b.
func (a address) contains(length uint8, b address) bool {
	switch {
	case length == 0:
		return true
	case length <= 64:
		return (a.hi^b.hi)>>(64-length) == 0
	}
	return a.hi == b.hi && (a.lo^b.lo)>>(128-length) == 0
}

// covers tells whether every address of j is one of i.
func (i item) covers(j item) bool { return i.length <= j.length && i.contains(i.length, j.address) }

func (i item) samePrefix(j item) bool { return i.address == j.address && i.length == j.length }

func (i item) prefix(width int) netip.Prefix { return netip.PrefixFrom(i.addr(width), int(i.length)) }

// longestFirst is the order of leaves in a bucket that is made anew.
func longestFirst(i, j item) int {
	return cmp.Or(cmp.Compare(j.length, i.length), i.compare(j.address))
}

// makeItems checks items and sorts them by address and length.
func makeItems(items []Item, width int) ([]item, error) {
	result := make([]item, len(items))
	for i, it := range items {
		if !it.Prefix.IsValid() || it.Prefix.Addr().BitLen() != width || it.Prefix != it.Prefix.Masked() {
			return nil, fmt.Errorf("lay out destination %s: it is not a plain prefix of the family with %d bits", it.Prefix, width)
		}
		result[i] = item{makeAddress(it.Prefix.Addr()), uint8(it.Prefix.Bits()), it.ClassID}
	}
	byPrefix := func(i, j item) int { return cmp.Or(i.compare(j.address), cmp.Compare(i.length, j.length)) }
	if !slices.IsSortedFunc(result, byPrefix) {
		slices.SortFunc(result, byPrefix)
	}
	for i := 1; i < len(result); i++ {
		if result[i].samePrefix(result[i-1]) {
			return nil, fmt.Errorf("lay out destination %s: it occurs twice", result[i].prefix(width))
		}
	}
	return result, nil
}

// window is the bits of the address by which a table is divided into buckets. It lies in one of the address's words: the kernel would
// take a hash key that begins at any byte, but tc(8) takes multiples of four only.
type window struct{ start, bits uint8 }

const wordBits = 32

func (w window) end() uint8      { return w.start + w.bits }
func (w window) divisor() uint32 { return 1 << w.bits }

// of is the bucket of a.
func (w window) of(a address) uint32 {
	mask := uint64(1)<<w.bits - 1
	if end := w.end(); end <= 64 {
		return uint32(a.hi >> (64 - end) & mask)
	}
	return uint32(a.lo >> (128 - w.end()) & mask)
}

const (
	destinationIPv4 = 16 // offset in struct iphdr
	destinationIPv6 = 24 // in struct ipv6hdr
)

func destinationOffset(width int) int {
	if width == 32 {
		return destinationIPv4
	}
	return destinationIPv6
}

// selector is that of a link to a table of w: no key, and the hash key is a word inside the address, which every packet has; one
// beyond the end of a packet would end the search.
func (w window) selector(width int) tc.Selector {
	word := w.start / wordBits
	return tc.Selector{HOff: int16(destinationOffset(width) + int(word)*4), HMask: (uint32(1)<<w.bits - 1) << (word*wordBits + wordBits - w.end())}
}

// windowOf is the window that makes sel; false if none does.
func windowOf(sel tc.Selector, divisor uint32, width int) (window, bool) {
	for bits := uint8(1); bits <= maxBits; bits++ {
		if divisor != 1<<bits {
			continue
		}
		start := (int(sel.HOff) - destinationOffset(width)) * 8
		for mask := sel.HMask; mask != 0 && mask&(1<<31) == 0; mask <<= 1 {
			start++
		}
		w := window{uint8(start), bits}
		if start < 0 || start+int(bits) > width || start%wordBits+int(bits) > wordBits {
			return window{}, false
		}
		made := w.selector(width)
		return w, made.HOff == sel.HOff && made.HMask == sel.HMask && made.MatchID() == sel.MatchID()
	}
	return window{}, false
}
