package diff_test

import (
	"testing"

	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/fakekernel"
	"bulkshaper/shaper/tc"
)

// TestShorterPrefixesGoAlone: from hash tables to lists, no filter of a longer prefix, and no link, is deleted in one group with that of a
// shorter prefix before it: if that fails, it would take their packets.
func TestShorterPrefixesGoAlone(t *testing.T) {
	s := base()
	s.destinations = append(s.destinations, "10.0.0.0/16 c10", "10.0.0.0/20 c20")
	s.layout = "hash"
	k := fakekernel.New(link)
	apply(t, k, install(t, s.plan(t)))
	s.layout = "list"
	c, err := diff.Compute(observe(t, k), s.plan(t), diff.Options{})
	if err != nil {
		t.Fatal(err)
	}
	shortest, waits := 129, 0
	for _, op := range c.Ops {
		f, ok := op.Object.(tc.Filter)
		if op.Barrier {
			shortest = 129
			waits++
		}
		if !ok || op.Verb != tc.Delete || f.Protocol != tc.ProtocolIP || !f.IsNode() {
			continue
		}
		bits := 129
		if p, plain := f.Destination(); plain {
			bits = p.Bits()
		}
		if bits > shortest {
			t.Errorf("%s goes in one group with a shorter prefix:\n%s", op, text(c.Ops))
		}
		shortest = min(shortest, bits)
	}
	if waits < 2 {
		t.Errorf("%d barriers:\n%s", waits, text(c.Ops))
	}
}
