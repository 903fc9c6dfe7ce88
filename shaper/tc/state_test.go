package tc

import (
	"net/netip"
	"slices"
	"testing"
)

func TestSame(t *testing.T) {
	state := func() State {
		return State{
			Link:    Link{Index: 2, Name: "eth1", MTU: 1500, Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}},
			Qdiscs:  []Qdisc{{Handle: 0x10000, Parent: Root, Kind: KindHTB, HTB: HTB{Default: 0x100}}},
			Classes: []Class{{ID: 0x10100, Rate: 8}}, AutoLeaf: KindPFIFO,
		}
	}
	filters := []Filter{{Pref: 1}, {Pref: 2}}
	with := func(change func(*State)) State {
		s := state()
		s.Filters = filters
		change(&s)
		return s
	}
	same := with(func(*State) {})
	for name, other := range map[string]struct {
		state State
		want  bool
	}{
		"itself":           {same, true},
		"lists made again": {with(func(*State) {}), true},
		"a counter":        {with(func(s *State) { s.Qdiscs[0].HTB.DirectPackets = 7 }), true},
		"copied filters":   {with(func(s *State) { s.Filters = slices.Clone(s.Filters) }), false},
		"fewer filters":    {with(func(s *State) { s.Filters = s.Filters[:1] }), false},
		"no filters":       {with(func(s *State) { s.Filters = nil }), false},
		"another link":     {with(func(s *State) { s.Link.Index = 3 }), false},
		"link up":          {with(func(s *State) { s.Link.Up = true }), false},
		"another address":  {with(func(s *State) { s.Link.Addresses[0] = s.Link.Addresses[0].Next() }), false},
		"another default":  {with(func(s *State) { s.Qdiscs[0].HTB.Default = 1 }), false},
		"another rate":     {with(func(s *State) { s.Classes[0].Rate = 16 }), false},
		"another leaf":     {with(func(s *State) { s.AutoLeaf = KindFQCodel }), false},
	} {
		if got := same.Same(other.state); got != other.want || other.state.Same(same) != got {
			t.Errorf("%s: %v, want %v", name, got, other.want)
		}
	}
}
