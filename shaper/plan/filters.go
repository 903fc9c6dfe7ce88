package plan

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
)

func (b *builder) buildFilters(destinations []policy.Destination) error {
	p := b.plan
	leaves := map[string]*Class{}
	for i := range p.Classes {
		if p.Classes[i].Leaf != nil {
			leaves[p.Classes[i].Name] = &p.Classes[i]
		}
	}
	p.Filters = controlFilters()
	if p.AckClass != "" {
		class, ok := leaves[p.AckClass]
		if !ok || p.AckClass == tc.ControlName {
			return fmt.Errorf("build the filters of acknowledgements: class %q is not a leaf class of the config", p.AckClass)
		}
		p.Filters = append(p.Filters, ackFilters(class.Class.ID)...)
	}
	for _, f := range slices.Clone(p.Filters) {
		for _, tag := range p.Tags {
			p.Filters = append(p.Filters, Filter{Name: f.Name, Filter: BehindTag(f.Filter, tag)})
		}
	}
	p.Filters = slices.Grow(p.Filters, len(destinations))
	byPrefix := func(x, y policy.Destination) int { return comparePrefixes(x.Prefix, y.Prefix) }
	p.Destinations = destinations
	if !slices.IsSortedFunc(destinations, byPrefix) {
		p.Destinations = slices.SortedFunc(slices.Values(destinations), byPrefix)
	}
	counts := map[uint16]int{}
	for i, d := range p.Destinations {
		class, ok := leaves[d.Class]
		switch {
		case !d.Prefix.IsValid() || d.Prefix != d.Prefix.Masked() || d.Prefix.Addr().Is4In6():
			return fmt.Errorf("build the filter of destination %s (%s): it is not a plain prefix", d.Prefix, d.Server)
		case i > 0 && d.Prefix == p.Destinations[i-1].Prefix:
			return fmt.Errorf("build the filter of destination %s: it occurs twice", d.Prefix)
		case !ok || d.Class == tc.ControlName:
			return fmt.Errorf("build the filter of destination %s (%s): class %q is not a leaf class of the config", d.Prefix, d.Server, d.Class)
		}
		pref := DestinationPref(d.Prefix)
		if p.Layout == LayoutHash {
			pref = HashPref(d.Prefix)
		}
		protocol, _ := OwnPref(pref)
		counts[pref]++
		class.Destinations++
		f := Filter{Name: cmp.Or(d.Server, "rule "+d.Rule), Filter: tc.Filter{
			Parent: p.Root.Handle, Pref: pref, Protocol: protocol, Kind: tc.KindU32,
			ClassID: class.Class.ID, Sel: tc.MatchDestination(d.Prefix)}}
		p.Filters = append(p.Filters, f)
		if p.Layout == LayoutHash {
			continue
		}
		for _, tag := range p.Tags {
			p.Filters = append(p.Filters, Filter{Name: f.Name, Filter: BehindTag(f.Filter, tag)})
		}
	}
	// Stable: destinations of one length stay sorted.
	slices.SortStableFunc(p.Filters, func(x, y Filter) int { return cmp.Compare(x.Pref, y.Pref) })
	if p.Layout == LayoutHash {
		return nil
	}
	return checkLists(counts)
}

func comparePrefixes(x, y netip.Prefix) int {
	return cmp.Or(x.Addr().Compare(y.Addr()), cmp.Compare(x.Bits(), y.Bits()))
}

// checkLists finds the lists that are too long, all of them.
func checkLists(counts map[uint16]int) error {
	var errs []error
	for pref := uint16(PrefIPv4); pref <= PrefIPv6+128; pref++ {
		if counts[pref] <= MaxNodes {
			continue
		}
		protocol, _ := OwnPref(pref)
		bits := PrefIPv4 + 32 - int(pref)
		if protocol == tc.ProtocolIPv6 {
			bits = PrefIPv6 + 128 - int(pref)
		}
		errs = append(errs, &ListError{Pref: pref, Protocol: protocol, Bits: bits, Count: counts[pref]})
	}
	return errors.Join(errs...)
}

// controlFilters lead ARP and neighbour discovery to the control class: behind bulk in the default class they would starve, and
// the node with them.
func controlFilters() []Filter {
	const nextHeader, icmpType = 4, 40 // offsets in an IPv6 packet; the former is the word of length, next header, hop limit
	class := tc.ControlClass
	filter := func(name string, pref uint16, keys ...tc.Key) Filter { return ownFilter(name, pref, class, keys...) }
	// RFC 4861: neighbour discovery is ICMPv6 with hop limit 255, which no router lets through.
	icmp := tc.Key{Mask: 0x0000ffff, Value: 0x00003aff, Off: nextHeader}
	return []Filter{
		filter("arp", PrefARP),
		filter("neighbour discovery", PrefNeighbour, icmp, tc.Key{Mask: 0xff000000, Value: 133 << 24, Off: icmpType}), // router solicitation
		filter("neighbour discovery", PrefNeighbour, icmp, tc.Key{Mask: 0xfe000000, Value: 134 << 24, Off: icmpType}), // router advertisement, neighbour solicitation
		filter("neighbour discovery", PrefNeighbour, icmp, tc.Key{Mask: 0xfe000000, Value: 136 << 24, Off: icmpType}), // neighbour advertisement, redirect
	}
}

// AckName is what the filters for acknowledgements are called.
const AckName = "tcp acknowledgements"

// ackFilters lead pure TCP acknowledgements to their class: unfragmented segments with ACK and none of SYN, FIN, RST and PSH, so short
// that nothing or next to nothing is in them. Of a longer header than the shortest, IPv4 options or IPv6 extensions, nothing is known
// by offset, so those go with their destination.
//
// The flags are looked at since a short segment of data, or a FIN, in another class than the data before it would overtake them, which
// to TCP looks like a loss. Linux sets PSH on the last segment of what was written.
func ackFilters(class tc.Handle) []Filter {
	const ackOnly, flags = 0x00100000, 0x001f0000 // in the word of data offset, flags and window
	return []Filter{
		ownFilter(AckName, PrefAckIPv4, class,
			tc.Key{Mask: 0x0f00ff80, Value: 0x05000000, Off: 0}, // header of 5 words, total length under 128
			tc.Key{Mask: 0x00003fff, Value: 0, Off: 4},          // no fragment
			tc.Key{Mask: 0x00ff0000, Value: 6 << 16, Off: 8},    // TCP
			tc.Key{Mask: flags, Value: ackOnly, Off: 20 + 12}),
		ownFilter(AckName, PrefAckIPv6, class,
			tc.Key{Mask: 0xffc0ff00, Value: 6 << 8, Off: 4}, // payload length under 64, next header TCP
			tc.Key{Mask: flags, Value: ackOnly, Off: 40 + 12}),
	}
}

// ownFilter is a terminal filter of ours with keys.
func ownFilter(name string, pref uint16, class tc.Handle, keys ...tc.Key) Filter {
	protocol, _ := OwnPref(pref)
	return Filter{Name: name, Filter: tc.Filter{Parent: tc.MakeHandle(tc.Major, 0), Pref: pref, Protocol: protocol, Kind: tc.KindU32,
		ClassID: class, Sel: tc.Selector{Flags: tc.U32Terminal, Keys: keys}}}
}

// SortFilters puts filters in the order of a plan: by pref, and within one by destination.
func SortFilters(filters []Filter) {
	slices.SortStableFunc(filters, func(x, y Filter) int {
		p, _ := x.Destination()
		q, _ := y.Destination()
		return cmp.Or(cmp.Compare(x.Pref, y.Pref), comparePrefixes(p, q))
	})
}
