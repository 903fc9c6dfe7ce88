package diff

import (
	"net/netip"
	"slices"

	"bulkshaper/shaper/tc"
)

// newer is the filters of lists that were added or changed since the last barrier.
type newer map[tc.Protocol][]netip.Prefix

// waitForLonger puts a barrier before what the list of one prefix length adds and changes, from there on, where a longer prefix that lies in
// one of those was added or changed since the last one: a packet that has passed the place of the longer must not meet the new shorter.
func (c *comparison) waitForLonger(from int) {
	shorter := map[netip.Prefix]bool{}
	var protocol tc.Protocol
	for _, op := range c.filters[from:] {
		f := op.Object.(tc.Filter)
		if p, ok := f.Destination(); ok {
			protocol, shorter[p] = f.Protocol, true
		}
	}
	if len(shorter) == 0 {
		return
	}
	var bits int
	for p := range shorter {
		bits = p.Bits()
	}
	// The protocol of a tag has both families.
	if slices.ContainsFunc(c.newer[protocol], func(long netip.Prefix) bool {
		p, err := long.Addr().Prefix(bits)
		return err == nil && long.Bits() > bits && shorter[p]
	}) {
		c.filters = slices.Insert(c.filters, from, c.barrier("what is for shorter prefixes waits for packets that are past the new filters for longer ones"))
		clear(c.newer)
	}
	for p := range shorter {
		c.newer[protocol] = append(c.newer[protocol], p)
	}
}
