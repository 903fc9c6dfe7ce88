package plan

import (
	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
)

// Plan is the whole wanted state of one interface.
type Plan struct {
	Interface string
	// Node is this node's name in the inventory.
	Node    string
	Cabinet string
	// Layout is how the filters stand: "list" or "hash".
	Layout string
	// AckClass is the class of pure TCP acknowledgements, ahead of all destinations; "" where they have none.
	AckClass string
	// Tags are the protocols of the VLAN tags that packets may leave with. What a destination gets behind a tag is what it gets without.
	Tags []tc.Protocol
	Root tc.Qdisc
	// Classes has parents before children, otherwise ascending by id, the default class last. The control class is among them.
	Classes []Class
	// Filters are in the order in which a packet meets them. In layout hash those for packets with a tag are not among them: they are
	// the nodes of the root table once more (see BehindTag), and lead to the same hash tables.
	Filters []Filter
	// Destinations are all that have a filter, sorted by prefix.
	Destinations []policy.Destination
}

// Class is a wanted class, with its leaf.
type Class struct {
	Name  string
	Class tc.Class
	// Leaf is the qdisc below; nil for an inner class.
	Leaf *tc.Qdisc
	// Destinations is how many prefixes lead here.
	Destinations int
}

// Filter is a wanted filter. Its handle has no node yet, and in layout hash no table: which ones it gets is decided when it is compared
// with what stands in the kernel.
type Filter struct {
	tc.Filter
	// Name says what it is for: a server, "arp", "neighbour discovery".
	Name string
}
