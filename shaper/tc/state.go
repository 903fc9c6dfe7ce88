package tc

import (
	"net/netip"
	"reflect"
	"slices"
	"time"
)

// Link is what the kernel says of the interface.
type Link struct {
	Index int
	Name  string
	// MTU is in bytes, without the Ethernet header.
	MTU int
	// TxQueueLen is in packets.
	TxQueueLen int
	// Speed is the link's own, 0 where it is unknown.
	Speed BitRate
	// Up is the administrative state.
	Up bool
	// TxQueues is the number of transmit queues: more than one has an mq root by default.
	TxQueues int
	// Tags are the protocols of the VLAN tags that packets may leave with, ascending: those of VLAN devices that stand on the interface, and of
	// a bridge with VLANs that it is a port of. Devices in other namespaces are not to be seen.
	Tags []Protocol
	// Bond is the bond or team that the interface is a port of, "" for none.
	Bond string
	// Addresses are the interface's own, without link-local ones.
	Addresses []netip.Addr
}

// State is the traffic control state of one interface, as observed.
type State struct {
	Link Link
	// Qdiscs are the root and all leaves; those of handle 0: are the kernel's own.
	Qdiscs []Qdisc
	// Classes and Filters are those under the root qdisc.
	Classes []Class
	Filters []Filter
	// Hits is how many packets each of Filters matched since it was made, where the kernel counts that (CONFIG_CLS_U32_PERF), else nil. A
	// change in place leaves the count; a link counts those only that nothing in its table matched. They are not in Filter, so that a
	// reading in which nothing but they grew has the filters of the one before.
	Hits []uint64
	// AutoLeaf is the kind of leaf that "auto" means on this kernel: fq_codel where it has it, else pfifo.
	AutoLeaf string
}

// RootQdisc is the root; false if none was seen.
func (s State) RootQdisc() (Qdisc, bool) {
	for _, q := range s.Qdiscs {
		if q.Parent == Root {
			return q, true
		}
	}
	return Qdisc{}, false
}

// Same tells of two readings whether they are the same but for counters. It does not look into the filters: only where both have the very
// same list it is true, so false may also stand for two that are alike.
func (s State) Same(t State) bool {
	if len(s.Filters) != len(t.Filters) || len(s.Filters) > 0 && &s.Filters[0] != &t.Filters[0] {
		return false
	}
	sameQdisc := func(a, b Qdisc) bool {
		a.HTB.DirectPackets, b.HTB.DirectPackets = 0, 0
		return a == b
	}
	a, b := s.Link, t.Link
	a.Addresses, b.Addresses = nil, nil
	return reflect.DeepEqual(a, b) && slices.Equal(s.Link.Addresses, t.Link.Addresses) && s.AutoLeaf == t.AutoLeaf &&
		slices.EqualFunc(s.Qdiscs, t.Qdiscs, sameQdisc) && slices.Equal(s.Classes, t.Classes)
}

// ClassStats is what the kernel counted for a class. Counters are 64 bit and start when the class is made.
type ClassStats struct {
	Class Class
	// Leaf tells leaf classes from inner ones, whose counters hold their children's again.
	Leaf bool

	SentBytes, SentPackets       uint64
	Dropped, Overlimits          uint64
	Requeues                     uint64
	BacklogBytes, BacklogPackets uint64
	// Lends and Borrows count packets sent within the own rate and on the parent's, Giants those larger than the rate table.
	Lends, Borrows, Giants uint64
}

// Stats is one reading of the counters of an interface; the filters are not read.
type Stats struct {
	Time          time.Time
	Root          Qdisc
	DirectPackets uint64
	Classes       []ClassStats
}
