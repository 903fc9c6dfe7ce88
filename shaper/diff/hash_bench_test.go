package diff_test

import (
	"fmt"
	"testing"

	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/fakekernel"
	"bulkshaper/shaper/tc"
)

// BenchmarkHash compares a plan of 100,000 destinations with a kernel that has all of them but one.
func BenchmarkHash(b *testing.B) {
	s := base()
	s.layout, s.destinations = "hash", nil
	for i := range 100_000 {
		s.destinations = append(s.destinations, fmt.Sprintf("10.%d.%d.%d/32 c%d", i>>16, i>>8&0xff, i&0xff, 10+10*(i%2)))
	}
	p := s.plan(b)
	k := fakekernel.New(link)
	apply(b, k, install(b, p)[:3])
	state := observe(b, k)
	for _, op := range install(b, p) {
		switch o := op.Object.(type) {
		case tc.Filter:
			if o.Handle.Table() == 0 {
				o.Handle |= tc.MakeU32Handle(0x800+uint32(o.Pref)%16, 0, 0)
			}
			state.Filters = append(state.Filters, o)
		case tc.Class:
			o.Leaf = tc.LeafHandle(o.ID.Minor())
			if o.ID != state.Classes[0].ID {
				state.Classes = append(state.Classes, o)
			}
		case tc.Qdisc:
			if o.Parent != tc.Root && o != state.Qdiscs[1] {
				state.Qdiscs = append(state.Qdiscs, o)
			}
		}
	}
	s.destinations = append(s.destinations[1:], "10.99.0.0/24 c20")
	p = s.plan(b)
	b.ReportAllocs()
	for b.Loop() {
		c, err := diff.Compute(state, p, diff.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if len(c.Ops) > 3 {
			b.Fatal(text(c.Ops[:10]))
		}
	}
}
