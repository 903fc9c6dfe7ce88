package diff_test

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/fakekernel"
	"bulkshaper/shaper/tc"
)

// TestNeighboursOfAFailure: from plan to plan, layout changes among them, an operation on a filter fails, and what goes to the kernel in
// one with it is done all the same. Every packet gets what the old or the new plan says.
func TestNeighboursOfAFailure(t *testing.T) {
	failures := 0
	rapid.Check(t, func(t *rapid.T) {
		from, p := install(t, hashPlans().Draw(t, "old").plan(t)), hashPlans().Draw(t, "new").plan(t)
		k := fakekernel.New(link)
		apply(t, k, from)
		c, err := diff.Compute(observe(t, k), p, diff.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var probes []netip.Addr
		before, taggedBefore := map[netip.Addr]tc.Handle{}, map[netip.Addr]tc.Handle{}
		for _, prefix := range addressPlan() {
			a := netip.MustParsePrefix(prefix).Addr()
			for range 2 {
				probes = append(probes, a)
				before[a], taggedBefore[a] = verdict(k, a), tagged(k, a)
				a = a.Next()
			}
		}
		type span struct{ start, end int }
		var groups []span
		for start, end := 0, 0; start < len(c.Ops); start = end {
			end = start + 1
			for end < len(c.Ops) && together(c.Ops[start], c.Ops[end]) {
				end++
			}
			if end > start+1 { // else nothing is done beside it, and a run that ends is another test's
				groups = append(groups, span{start, end})
			}
		}
		for range min(len(groups), 4) {
			group := rapid.SampledFrom(groups).Draw(t, "group")
			start, end := group.start, group.end
			fails := rapid.IntRange(start, end-1).Draw(t, "fails")
			failures++
			k := fakekernel.New(link)
			apply(t, k, from)
			apply(t, k, c.Ops[:fails])
			for _, r := range k.Apply(t.Context(), link, c.Ops[fails+1:end]) {
				if r.Err != nil {
					t.Fatalf("%s: %v", r.Op, r.Err)
				}
			}
			for _, a := range probes {
				if got, want := verdict(k, a), wantedVerdict(p, a); got != before[a] && got != want {
					t.Fatalf("%d (%s) failed, and those up to %d were done: %s goes to %s; before to %s, wanted %s\n%s", fails, c.Ops[fails], end-1, a, got, before[a], want, text(c.Ops))
				}
				if got, want := tagged(k, a), wantedBehindTag(p, a); got != taggedBefore[a] && got != want {
					t.Fatalf("%d (%s) failed, and those up to %d were done: %s behind a tag goes to %s; before to %s, wanted %s\n%s", fails, c.Ops[fails], end-1, a, got, taggedBefore[a], want, text(c.Ops))
				}
			}
		}
	})
	if failures == 0 {
		t.Error("nothing could fail")
	}
}

// together tells whether b goes to the kernel in one with a, whatever becomes of a.
func together(a, b tc.Op) bool {
	f, ok := a.Object.(tc.Filter)
	g, also := b.Object.(tc.Filter)
	return ok && also && f.Divisor == 0 && g.Divisor == 0 && (a.Verb == tc.Delete) == (b.Verb == tc.Delete)
}

// TestFewBarriers: filters that no packet can match both of, or that lead to one class, go in one.
func TestFewBarriers(t *testing.T) {
	s := base()
	s.destinations = []string{"10.0.0.0/16 c10", "10.0.1.0/24 c10", "10.0.2.0/24 c20", "10.0.2.1/32 c20", "10.1.0.1/32 c10", "10.1.0.2/32 c20"}
	for _, layout := range []string{"hash", "list"} {
		s.layout = layout
		k := installed(t, s.plan(t))
		empty := s
		empty.destinations = nil
		c, err := diff.Compute(observe(t, k), empty.plan(t), diff.Options{})
		if err != nil {
			t.Fatal(err)
		}
		barriers := 0
		for _, op := range c.Ops {
			if op.Barrier {
				barriers++
			}
		}
		if barriers != 1 { // 10.0.2.0/24 waits for 10.0.0.0/16, and what follows goes with it
			t.Errorf("layout %s: %d barriers:\n%s", layout, barriers, text(c.Ops))
		}
	}
}
