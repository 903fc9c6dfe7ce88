package shaper

import (
	"fmt"
	"time"

	"bulkshaper/shaper/tc"
)

// When nearly all that a node sends goes to the default class, the inventory most often lacks what the wire carries: the prefixes of
// pods on a routed network. It may also be meant, and a node that sends little besides its logs is no sign of anything. So both are
// asked for: the share, and that the class is used.
const (
	// unnamedShare is the share of all bytes that is nearly all.
	unnamedShare = 0.90
	// unnamedUse is how much of its rate the default class sends, on average, to count as used.
	unnamedUse = 0.10
	// unnamedLeast is the shortest time that says something, unnamedBytes what a time that nobody knows stands for at the rate.
	unnamedLeast = 3 * time.Second
	unnamedSpan  = time.Minute
)

// hint tells that nearly all that was sent is in the default class, or nothing. sent is bytes by classid, over a time that is 0 where
// it is not known.
func hint(s *Status, sent map[string]uint64, over time.Duration) string {
	var all, unnamed, rate uint64
	var where ClassStatus
	others := 0
	for _, c := range s.Classes {
		if c.Kind != kindLeaf || c.Name == tc.ControlName {
			continue
		}
		all += sent[c.ClassID]
		if c.Name == s.DefaultClass {
			where, unnamed, rate = c, sent[c.ClassID], c.Rate
		} else {
			others += c.Destinations
		}
	}
	span, window := "since the shaping was set up", unnamedSpan
	if over > 0 {
		span, window = fmt.Sprintf("in the last %s", over.Round(time.Second)), over
	}
	switch {
	case all == 0 || others == 0, window < unnamedLeast:
		return "" // nothing else was to be expected, or it is too early to tell
	case float64(unnamed) < unnamedShare*float64(all), float64(unnamed)*8 < unnamedUse*float64(rate)*window.Seconds():
		return ""
	}
	text := fmt.Sprintf("%.1f %% of what was sent %s is in the default class %s %s, where what the inventory does not name goes", 100*float64(unnamed)/float64(all),
		span, where.Name, where.ClassID)
	if where.Destinations > 0 {
		text += fmt.Sprintf(", besides what rules put there (%d of the inventory's destinations)", where.Destinations)
	}
	return text + ": if that is not meant, the inventory lacks addresses, or prefixes of pods on a network that routes them; `bulkshaper explain ADDRESS` tells of each"
}
