package wire

import "bulkshaper/shaper/tc"

// Attributes in TCA_STATS2 (linux/gen_stats.h).
const (
	statsBasic = 1
	statsQueue = 3
	statsApp   = 4
	statsPkt64 = 8
)

// ClassStats reads o as an HTB class with its counters. Counters that the kernel did not send are 0.
func (o Object) ClassStats() (tc.ClassStats, error) {
	class, err := o.Class()
	if err != nil {
		return tc.ClassStats{}, err
	}
	s := tc.ClassStats{Class: class, Leaf: class.Level == 0}
	packets64 := false
	err = attributes(o.stats, func(typ uint16, data []byte) error {
		if len(data) < statsSize(typ) {
			return malformed("statistics %d of %d bytes", typ, len(data))
		}
		word := func(i int) uint64 { return uint64(native.Uint32(data[4*i:])) }
		switch typ {
		case statsBasic: // struct gnet_stats_basic: its packets are 32 bits and wrap
			s.SentBytes = native.Uint64(data)
			if !packets64 {
				s.SentPackets = word(2)
			}
		case statsPkt64:
			s.SentPackets, packets64 = native.Uint64(data), true
		case statsQueue: // struct gnet_stats_queue: qlen, backlog, drops, requeues, overlimits
			s.BacklogPackets, s.BacklogBytes, s.Dropped, s.Requeues, s.Overlimits = word(0), word(1), word(2), word(3), word(4)
		case statsApp: // struct tc_htb_xstats: lends, borrows, giants, tokens, ctokens
			s.Lends, s.Borrows, s.Giants = word(0), word(1), word(2)
		}
		return nil
	})
	return s, err
}

// statsSize is how many bytes of an attribute are read.
func statsSize(typ uint16) int {
	switch typ {
	case statsBasic, statsApp:
		return 12
	case statsQueue:
		return 20
	case statsPkt64:
		return 8
	}
	return 0
}
