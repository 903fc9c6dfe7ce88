package words

import (
	"fmt"
	"net/netip"
	"slices"

	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
)

// Names knows what stands behind handles.
type Names struct {
	plan    *plan.Plan
	classes map[tc.Handle]string
	former  map[tc.Handle]string // of classes that the plan has no more
	leaves  map[tc.Handle]string // names of classes, by the handle of their queue
	have    []tc.Filter
	prefs   map[uint16]bool // at which there are some of them; nil until somebody asks
}

// nodeKey tells nodes apart: a handle is there but once in all prefs, as far as tables are not the root's.
type nodeKey struct {
	pref   uint16
	handle tc.U32Handle
}

// NamesOf takes the names from a plan, and from what stood before the operations where the filters lead.
func NamesOf(p *plan.Plan, have tc.State) *Names {
	n := &Names{plan: p, classes: map[tc.Handle]string{}, leaves: map[tc.Handle]string{}, have: have.Filters}
	for _, c := range p.Classes {
		n.classes[c.Class.ID] = c.Name
		if c.Leaf != nil {
			n.leaves[c.Leaf.Handle] = c.Name
		}
	}
	return n
}

// stands says whether there were filters at a pref.
func (n *Names) stands(pref uint16) bool {
	if n.prefs == nil {
		n.prefs = map[uint16]bool{}
		for _, f := range n.have {
			n.prefs[f.Pref] = true
		}
	}
	return n.prefs[pref]
}

// Former adds the names of classes that the plan had before.
func (n *Names) Former(names map[tc.Handle]string) *Names {
	n.former = names
	return n
}

// leadsTo is the class that each of the nodes which ops change leads to before.
func (n *Names) leadsTo(ops []tc.Op) map[nodeKey]tc.Handle {
	before := map[nodeKey]tc.Handle{}
	for _, op := range ops {
		if f, ok := op.Object.(tc.Filter); ok && op.Verb == tc.Change {
			before[nodeKey{f.Pref, f.Handle}] = 0
		}
	}
	if len(before) == 0 {
		return before
	}
	for _, f := range n.have {
		key := nodeKey{f.Pref, f.Handle}
		if _, ok := before[key]; ok {
			before[key] = f.ClassID
		}
	}
	return before
}

// Class is a class's name and classid; of one that the plan does not have, the classid and that it is not in the plan.
func (n *Names) Class(id tc.Handle) string {
	if name, ok := n.classes[id]; ok {
		return name + " " + id.String()
	}
	if name, ok := n.former[id]; ok {
		return name + " " + id.String() + " (not in the plan any more)"
	}
	return "class " + id.String() + " (not in the plan)"
}

// destination is what the plan has for a prefix.
func (n *Names) destination(prefix netip.Prefix) (policy.Destination, bool) {
	list := n.plan.Destinations
	i, ok := slices.BinarySearchFunc(list, prefix, func(d policy.Destination, p netip.Prefix) int { return d.Prefix.Compare(p) })
	if !ok {
		return policy.Destination{}, false
	}
	return list[i], true
}

// Prefix is a destination: its server, where one is known, and the prefix.
func (n *Names) Prefix(prefix netip.Prefix) string {
	text := prefix.String()
	if prefix.IsSingleIP() {
		text = prefix.Addr().String()
	}
	if d, ok := n.destination(prefix); ok && d.Server != "" {
		return d.Server + " " + text
	}
	return text
}

// Kind is what an operation is about.
type Kind int

// The kinds, in the order in which they are told.
const (
	Root Kind = iota
	Class
	Queue
	Protocol // ARP and neighbour discovery, acknowledgements
	Destination
	Table
	Pref // of filters that somebody else made
	Wait
)

// KindOf is what op is about.
func KindOf(op tc.Op) Kind {
	switch o := op.Object.(type) {
	case tc.Qdisc:
		if o.Parent == tc.Root {
			return Root
		}
		return Queue
	case tc.Filter:
		switch {
		case o.Divisor != 0 || o.Link != 0:
			return Table
		case o.Pref == plan.PrefARP || o.Pref == plan.PrefNeighbour || isAck(o) || isTaggedProtocol(o):
			return Protocol
		}
		return Destination
	}
	if op.Barrier {
		return Wait
	}
	if _, ok := op.Object.(tc.Pref); ok {
		return Pref
	}
	return Class
}

// Object is what op is done to, by name.
func (n *Names) Object(op tc.Op) string {
	switch o := op.Object.(type) {
	case tc.Qdisc:
		if o.Parent == tc.Root {
			return fmt.Sprintf("root qdisc %s %s", o.Kind, o.Handle)
		}
		name, ok := n.leaves[o.Handle]
		if !ok {
			name = n.Class(o.Parent)
		}
		return fmt.Sprintf("queue of %s (%s %s)", name, o.Kind, o.Handle)
	case tc.Class:
		return n.Class(o.ID)
	case tc.Filter:
		return n.filter(o)
	case tc.Pref:
		return fmt.Sprintf("pref %d (%s, %s)", o.Number, o.Protocol, o.Kind)
	}
	return op.Object.Ident()
}

// isAck tells whether f is at a pref of filters for acknowledgements.
func isAck(f tc.Filter) bool { return f.Pref == plan.PrefAckIPv4 || f.Pref == plan.PrefAckIPv6 }

// isTaggedProtocol tells whether f is one of those or of the control class behind a VLAN tag.
func isTaggedProtocol(f tc.Filter) bool {
	_, isDestination := f.Destination()
	_, own := plan.OwnPref(f.Pref)
	return own && f.Protocol.IsTag() && f.Link == 0 && !isDestination
}

func (n *Names) filter(f tc.Filter) string {
	if f.Protocol.IsTag() {
		return n.tagged(f) + behind(f)
	}
	return n.plain(f)
}

func behind(f tc.Filter) string { return " behind a tag of " + f.Protocol.String() }

// tagged is what f would be called without its tag.
func (n *Names) tagged(f tc.Filter) string {
	switch {
	case !isTaggedProtocol(f) || f.Divisor != 0:
		return n.plain(f)
	case f.Pref >= plan.PrefAckTagged:
		return "TCP acknowledgements"
	case len(f.Sel.Keys) == 1:
		return "ARP"
	}
	return neighbours(f)
}

// neighbours is which messages of neighbour discovery a filter of the control class takes, by the ICMPv6 type that it looks for (RFC 4861).
func neighbours(f tc.Filter) string {
	for _, k := range f.Sel.Keys {
		switch k.Value >> 24 {
		case 133:
			return "IPv6 router solicitations"
		case 134:
			return "IPv6 router advertisements and neighbour solicitations"
		case 136:
			return "IPv6 neighbour advertisements and redirects"
		}
	}
	return "IPv6 neighbour discovery"
}

func (n *Names) plain(f tc.Filter) string {
	switch {
	case f.Divisor != 0:
		return fmt.Sprintf("hash table %s of %d buckets", f.Handle, f.Divisor)
	case f.Link != 0:
		return fmt.Sprintf("link to hash table %s", f.Link)
	case f.Pref == plan.PrefARP:
		return "ARP"
	case f.Pref == plan.PrefNeighbour:
		return neighbours(f)
	case f.Pref == plan.PrefAckIPv4:
		return "TCP acknowledgements by IPv4"
	case f.Pref == plan.PrefAckIPv6:
		return "TCP acknowledgements by IPv6"
	}
	if prefix, ok := f.Destination(); ok {
		return n.Prefix(prefix)
	}
	return "a filter that matches no destination, " + f.Ident()
}

// Comment is what a line of tc is for, in few words.
func (n *Names) Comment(op tc.Op) string {
	f, ok := op.Object.(tc.Filter)
	if KindOf(op) == Wait {
		return "wait: " + op.Why
	}
	text := n.Object(op)
	if ok && f.Divisor == 0 && f.Link == 0 && op.Verb != tc.Delete {
		text += " to " + n.Class(f.ClassID)
	}
	return text
}
