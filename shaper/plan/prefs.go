package plan

import (
	"fmt"
	"net/netip"

	"bulkshaper/shaper/tc"
)

// The prefs that are ours, on the root qdisc: all u32 filters there are ours to change, all others are never touched.
const (
	// PrefARP and PrefNeighbour lead to the control class.
	PrefARP       = 11000
	PrefNeighbour = 11001
	// PrefTagged is for ARP and neighbour discovery behind a VLAN tag.
	PrefTagged = 11002
	// PrefAckIPv4 and PrefAckIPv6 lead to the class for TCP acknowledgements, ahead of all destinations; PrefAckTagged is for both behind a
	// VLAN tag.
	PrefAckIPv4   = 11010
	PrefAckIPv6   = 11011
	PrefAckTagged = 11012
	// PrefHashIPv4 and PrefHashIPv6 hold all destinations in layout hash.
	PrefHashIPv4 = 11100
	PrefHashIPv6 = 11200
	// PrefIPv4 and PrefIPv6 are the prefs of the longest prefixes; each shorter one comes at the next pref.
	PrefIPv4 = 12000
	PrefIPv6 = 13000

	// What is for packets with a tag of 802.1q stands so far behind what is for packets without one, and for 802.1ad so far again.
	tagStep, tagStepIPv4, tagStepIPv6 = 1, 100, 200
)

// Tags are the protocols of VLAN tags that there are prefs for, in the order of these.
func Tags() []tc.Protocol { return []tc.Protocol{tc.ProtocolVLAN, tc.ProtocolQinQ} }

// MaxNodes is how many filters a list may have. A u32 bucket takes 4095 nodes and repeats handles after that; the rest is room
// to add before deleting.
const MaxNodes = 4000

// DestinationPref is the pref of the list that holds the filters of prefixes as long as p.
func DestinationPref(p netip.Prefix) uint16 {
	if p.Addr().Is4() {
		return uint16(PrefIPv4 + 32 - p.Bits())
	}
	return uint16(PrefIPv6 + 128 - p.Bits())
}

// HashPref is the pref of p in layout hash.
func HashPref(p netip.Prefix) uint16 {
	if p.Addr().Is4() {
		return PrefHashIPv4
	}
	return PrefHashIPv6
}

// OwnPref tells whether pref is ours, and the protocol that its filters are for.
func OwnPref(pref uint16) (tc.Protocol, bool) {
	switch {
	case pref == PrefARP:
		return tc.ProtocolARP, true
	case pref == PrefNeighbour, pref == PrefAckIPv6, pref == PrefHashIPv6, pref >= PrefIPv6 && pref <= PrefIPv6+128:
		return tc.ProtocolIPv6, true
	case pref == PrefAckIPv4, pref == PrefHashIPv4, pref >= PrefIPv4 && pref <= PrefIPv4+32:
		return tc.ProtocolIP, true
	}
	for i, tag := range Tags() {
		n := uint16(i)
		list4, list6 := PrefIPv4+(n+1)*tagStepIPv4, PrefIPv6+(n+1)*tagStepIPv6
		switch {
		case pref == PrefTagged+n*tagStep, pref == PrefAckTagged+n*tagStep, pref == PrefHashIPv4+(n+1)*tagStep, pref == PrefHashIPv6+(n+1)*tagStep,
			pref >= list4 && pref <= list4+32, pref >= list6 && pref <= list6+128:
			return tag, true
		}
	}
	return 0, false
}

// IsAckPref tells whether filters at pref are for TCP acknowledgements.
func IsAckPref(pref uint16) bool {
	return pref >= PrefAckIPv4 && pref < PrefAckTagged+uint16(len(Tags())*tagStep)
}

// ListError says that a list would have more filters than MaxNodes.
type ListError struct {
	Pref     uint16
	Protocol tc.Protocol
	// Bits is the prefix length.
	Bits  int
	Count int
}

// Error names the list, the count and what to do.
func (e *ListError) Error() string {
	return fmt.Sprintf("build the list of %s /%d filters (pref %d): %d are needed and a list holds %d at most; "+
		"name fewer destinations (give servers of one class a common prefix) or use layout: hash, the default",
		e.Protocol, e.Bits, e.Pref, e.Count, MaxNodes)
}
