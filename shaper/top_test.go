package shaper

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestTopMatched names what was sent to most between two readings, most first, and what it is.
func TestTopMatched(t *testing.T) {
	t.Parallel()
	p := ruled("bulk", "bulk", "other")
	for i := range p.Destinations {
		p.Destinations[i].Server, p.Destinations[i].Class = fmt.Sprintf("s%d", i), "c"
	}
	before := reading(1, counting(1, host(0), 5), counting(2, host(1), 600), counting(3, host(2), 7))
	after := reading(1, counting(1, host(0), 25), counting(2, host(1), 600), counting(3, host(2), 107))
	want := []Matched{{host(2).String(), "s2", "c", 100, 2}, {host(0).String(), "s0", "c", 20, 2}}
	if got := TopMatched(p, before, after, 2*time.Second); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	after.Filters = before.Filters // the very list, as the kernel package gives where only counters differ
	if got := TopMatched(p, before, after, 2*time.Second); !slices.Equal(got, want) {
		t.Errorf("of one list: got %v, want %v", got, want)
	}
	if got := TopMatched(p, reading(1), reading(1), time.Second); got != nil {
		t.Errorf("a kernel that does not count: %v", got)
	}
	// Of many, the most: each of 50 nodes has counted as much as its number.
	var many []counted
	var rules []string
	for i := range 50 {
		rules = append(rules, "bulk")
		many = append(many, counting(uint32(i+1), host(i), uint64(i)))
	}
	got := TopMatched(ruled(rules...), reading(1), reading(1, many...), time.Second)
	if len(got) != maxTop || got[0].Packets != 49 || got[maxTop-1].Packets != 40 {
		t.Errorf("of 50: %v", got)
	}
	// Readings that follow each other closely say little: what the last good pair said stays.
	var h hits
	h.follow(p)
	start := time.Now()
	h.addAt(before, start)
	h.addAt(after, start.Add(2*time.Second))
	h.addAt(before, start.Add(2*time.Second+topLeast/2))
	if !slices.Equal(h.top.last, want) {
		t.Errorf("after a reading just behind: %v", h.top.last)
	}
}
