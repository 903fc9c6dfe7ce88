package policy

import (
	"net/netip"
	"slices"

	"bulkshaper/inventory"
)

// Range is addresses in a row that get the same class.
type Range struct {
	First, Last netip.Addr
	// Class is "" for this node's own addresses, which get none.
	Class string
	Own   bool
	// Owners are the servers whose addresses are in it, each once, in the order of the addresses.
	Owners []*inventory.Server
}

// Ranges cuts within where the class changes. Nothing is left out: the first range begins and the last one ends where within does.
func (p *Policy) Ranges(within netip.Prefix) []Range {
	within = within.Masked()
	first, last := within.Addr(), LastAddr(within)
	cuts := []netip.Addr{first}
	add := func(prefix netip.Prefix) {
		if !prefix.Overlaps(within) || prefix.Bits() <= within.Bits() {
			return
		}
		cuts = append(cuts, prefix.Addr())
		if next := LastAddr(prefix).Next(); next.IsValid() && next.Compare(last) <= 0 {
			cuts = append(cuts, next)
		}
	}
	for prefix := range p.owners.All() {
		add(prefix)
	}
	for _, i := range p.withAddress {
		for _, prefix := range p.rules[i].Address {
			add(prefix)
		}
	}
	slices.SortFunc(cuts, netip.Addr.Compare)
	cuts = slices.Compact(cuts)
	var ranges []Range
	seen := map[*inventory.Server]bool{} // in the last range
	for i, from := range cuts {
		to := last
		if i+1 < len(cuts) {
			to = cuts[i+1].Prev()
		}
		v := p.Lookup(from)
		n := len(ranges) - 1
		if n < 0 || ranges[n].Class != v.Class || ranges[n].Own != v.Own {
			ranges = append(ranges, Range{First: from, Class: v.Class, Own: v.Own})
			clear(seen)
			n++
		}
		r := &ranges[n]
		r.Last = to
		if v.Owner != nil && !seen[v.Owner] {
			seen[v.Owner] = true
			r.Owners = append(r.Owners, v.Owner)
		}
	}
	return ranges
}

// LastAddr is the last address of a prefix.
func LastAddr(p netip.Prefix) netip.Addr {
	bytes := p.Masked().Addr().AsSlice()
	for i := range bytes {
		switch host := (i+1)*8 - p.Bits(); {
		case host >= 8:
			bytes[i] = 0xff
		case host > 0:
			bytes[i] |= 1<<host - 1
		}
	}
	a, _ := netip.AddrFromSlice(bytes)
	return a
}
