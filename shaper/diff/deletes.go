package diff

import (
	"maps"
	"net/netip"
	"slices"

	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
)

// oneAfterTheOther puts barriers into deletions of filters, so that between two barriers no packet can match two of them that lead to
// different classes: what is between goes to the kernel as one, where one that fails does not keep the others from being done. A filter
// that stays would take the packets of another that went before it, and give them what neither plan says.
func (c *comparison) oneAfterTheOther(deletes []tc.Op) []tc.Op {
	if _, ok := c.wanted[tc.ControlClass]; !ok { // all goes
		return deletes
	}
	matches := make([]match, len(deletes))
	for i, op := range deletes {
		matches[i] = matchOf(op)
	}
	lengths := prefixLengths(matches)
	group := map[tc.Protocol]*matched{}
	var ops []tc.Op
	for i, op := range deletes {
		if op.Verb == tc.Delete {
			m, protocols := matches[i], c.protocolsOf(op)
			for protocol, others := range group {
				if (protocol == tc.ProtocolAll || slices.Contains(protocols, protocol) || slices.Contains(protocols, tc.ProtocolAll)) && others.conflict(m, lengths) {
					ops = append(ops, c.barrier("what a packet meets earlier waits until what it would meet behind that is gone"))
					clear(group)
					break
				}
			}
			for _, protocol := range protocols {
				if group[protocol] == nil {
					group[protocol] = &matched{exact: leads{}, above: leads{}}
				}
				group[protocol].add(m, lengths)
			}
		}
		ops = append(ops, op)
	}
	return ops
}

// protocolsOf is those of the packets that come to the object of op. To what stands in a hash table of ours come those with a VLAN tag, too,
// if any node at our prefs is for them.
func (c *comparison) protocolsOf(op tc.Op) []tc.Protocol {
	switch o := op.Object.(type) {
	case tc.Filter:
		protocols := []tc.Protocol{o.Protocol}
		if isHashPref(o.Pref) && o.Handle.Table() != c.roots[o.Pref] {
			for _, tag := range plan.Tags() {
				if len(c.byPref[plan.BehindTag(tc.Filter{Pref: o.Pref, Protocol: o.Protocol}, tag).Pref]) > 0 {
					protocols = append(protocols, tag)
				}
			}
		}
		return protocols
	case tc.Pref:
		return []tc.Protocol{o.Protocol}
	}
	return []tc.Protocol{tc.ProtocolAll}
}

// match is which packets a filter, or all of a pref, may match: those to prefix, or, where that is the zero prefix, any; and the class that
// they get, tc.Unspec where that differs.
type match struct {
	prefix netip.Prefix
	class  tc.Handle
}

// matchOf is what the object of op may match. A link matches no more than what leads to it.
func matchOf(op tc.Op) match {
	var m match
	if f, ok := op.Object.(tc.Filter); ok && f.Kind == tc.KindU32 {
		m.prefix, _ = f.Destination()
		m.class = f.ClassID
	}
	return m
}

// prefixLengths are the different lengths of prefixes, ascending.
func prefixLengths(matches []match) []int {
	seen := map[int]bool{}
	for _, m := range matches {
		if m.prefix.IsValid() {
			seen[m.prefix.Bits()] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// leads is the class that all of several objects lead to which match a prefix, tc.Unspec where there are different ones.
type leads map[netip.Prefix]tc.Handle

func (l leads) add(p netip.Prefix, class tc.Handle) {
	if other, ok := l[p]; ok && other != class {
		class = tc.Unspec
	}
	l[p] = class
}

// conflict tells whether one for p leads elsewhere than to class.
func (l leads) conflict(p netip.Prefix, class tc.Handle) bool {
	other, ok := l[p]
	return ok && (other != class || class == tc.Unspec)
}

// matched is what several objects of one protocol match.
type matched struct {
	// exact are the prefixes, and above those that have one of them inside. The zero prefix stands in exact for what the destination does
	// not tell of, and in above for all.
	exact, above leads
}

// conflict tells whether a packet may match m and one of these that leads elsewhere.
func (s *matched) conflict(m match, lengths []int) bool {
	if s.exact.conflict(netip.Prefix{}, m.class) || s.above.conflict(m.prefix, m.class) {
		return true
	}
	for _, bits := range lengths {
		if bits > m.prefix.Bits() {
			break
		}
		if p, err := m.prefix.Addr().Prefix(bits); err == nil && s.exact.conflict(p, m.class) {
			return true
		}
	}
	return false
}

func (s *matched) add(m match, lengths []int) {
	s.exact.add(m.prefix, m.class)
	s.above.add(netip.Prefix{}, m.class)
	for _, bits := range lengths {
		if bits >= m.prefix.Bits() {
			break
		}
		if p, err := m.prefix.Addr().Prefix(bits); err == nil {
			s.above.add(p, m.class)
		}
	}
}
