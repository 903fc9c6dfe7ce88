package plan

import (
	"slices"

	"bulkshaper/shaper/tc"
)

// BehindTag is f, a wanted filter or a node of the root table of layout hash, for packets with a tag of one of Tags. An ARP packet is
// told from IP by its first word: hardware Ethernet, protocol IPv4.
func BehindTag(f tc.Filter, tag tc.Protocol) tc.Filter {
	n := uint16(slices.Index(Tags(), tag))
	if f.Sel = f.Sel.BehindTag(f.Protocol); f.Pref == PrefARP {
		f.Sel.Keys = []tc.Key{{Mask: 0xffffffff, Value: 0x00010800}}
	}
	switch {
	case f.Pref == PrefHashIPv4, f.Pref == PrefHashIPv6:
		f.Pref += (n + 1) * tagStep
	case f.Pref == PrefARP, f.Pref == PrefNeighbour:
		f.Pref = PrefTagged + n*tagStep
	case f.Pref == PrefAckIPv4, f.Pref == PrefAckIPv6:
		f.Pref = PrefAckTagged + n*tagStep
	case f.Protocol == tc.ProtocolIP:
		f.Pref += (n + 1) * tagStepIPv4
	default:
		f.Pref += (n + 1) * tagStepIPv6
	}
	f.Protocol = tag
	return f
}
