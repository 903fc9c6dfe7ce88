package shaper

import (
	"cmp"
	"slices"
	"time"

	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
)

// Matched is how often the filter of a destination matched of late.
type Matched struct {
	Prefix  string `json:"prefix"`
	Server  string `json:"server"`
	Class   string `json:"class"`
	Packets uint64 `json:"packets"`
	// Seconds is the time in which it did.
	Seconds float64 `json:"seconds"`
}

const (
	// maxTop is how many destinations are told.
	maxTop = 10
	// topLeast is the shortest time between two readings that says something of what is sent.
	topLeast = 900 * time.Millisecond
)

// TopMatched is what the filters of destinations matched most between two readings; nil where the kernel does not count.
func TopMatched(p *plan.Plan, before, after tc.State, over time.Duration) []Matched {
	var h hits
	h.follow(p)
	end := time.Now()
	h.addAt(before, end.Add(-over))
	h.addAt(after, end)
	return h.top.last
}

// ranking is the destinations that most was sent to between the last two readings of the filters that are far enough apart.
type ranking struct {
	last []Matched
	now  []Matched // of the reading that is being taken in
	at   time.Time // of the last reading
}

func (r *ranking) begin() { r.now = nil }

func (r *ranking) end(at time.Time, first bool) {
	if over := at.Sub(r.at); first || over >= topLeast {
		for i := range r.now {
			r.now[i].Seconds = over.Seconds()
		}
		r.last = r.now
	}
	r.now, r.at = nil, at
}

// add puts d among them, if it is one. What is equal is in the order of the text, so that the order of a map does not show.
func (r *ranking) add(d *policy.Destination, packets uint64) {
	if packets == 0 || len(r.now) == maxTop && packets < r.now[maxTop-1].Packets {
		return
	}
	m := Matched{Prefix: d.Prefix.String(), Server: d.Server, Class: d.Class, Packets: packets}
	at, _ := slices.BinarySearchFunc(r.now, m, func(a, b Matched) int {
		return cmp.Or(cmp.Compare(b.Packets, a.Packets), cmp.Compare(a.Prefix, b.Prefix))
	})
	r.now = slices.Insert(r.now, at, m)
	r.now = r.now[:min(len(r.now), maxTop)]
}
