package shaper

import (
	"strings"
	"testing"
	"time"
)

// TestHintOfAnInventoryThatLacksWhatTheWireCarries: nearly all in the default class, and enough to mean something.
func TestHintOfAnInventoryThatLacksWhatTheWireCarries(t *testing.T) {
	t.Parallel()
	const second = 1_000_000 / 8 // bytes, of the default class's rate
	for name, c := range map[string]struct {
		over           time.Duration // since the only reading; 0 is none
		unnamed, named uint64        // bytes since then
		others         int           // destinations of the other class
		told           bool
	}{
		"all in the default class":       {10 * time.Second, 9 * second, 0, 3, true},
		"nearly all":                     {10 * time.Second, 9 * second, second / 2, 3, true},
		"much in another class":          {10 * time.Second, 9 * second, 2 * second, 3, false},
		"little, logs and scrapes":       {10 * time.Second, second / 2, 0, 3, false},
		"too early":                      {2 * time.Second, 2 * second, 0, 3, false},
		"nobody is in another class":     {10 * time.Second, 9 * second, 0, 0, false},
		"nothing was sent":               {10 * time.Second, 0, 0, 3, false},
		"no reading, more than a minute": {0, 7 * second, 0, 3, true},
		"no reading, and less":           {0, 5 * second, 0, 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			m, start := NewMeter(nil), time.Now()
			var before uint64
			if c.over > 0 {
				before = 100 * second // of long ago, which says nothing of now
				m.Add(counters(start, before, before))
			}
			s := &Status{DefaultClass: "rest", Classes: []ClassStatus{
				{Name: "rest", ClassID: "1:1", Kind: kindLeaf, Rate: 8 * second}, {Name: "bulk", ClassID: "1:2", Kind: kindLeaf, Destinations: c.others},
				{Name: "control", ClassID: "1:3", Kind: kindLeaf}, {Name: "all", ClassID: "1:4", Kind: kindInner},
			}}
			m.Fill(s, counters(start.Add(c.over), before+c.unnamed, before+c.named, before, before+c.unnamed+c.named))
			if told := len(s.Hints) == 1; told != c.told {
				t.Errorf("told %v, want %v: %q", told, c.told, s.Hints)
			}
			if c.told && !strings.Contains(s.Hints[0], "default class rest 1:1") {
				t.Errorf("%q does not name the class", s.Hints)
			}
		})
	}
}
