package plan_test

import (
	"fmt"
	"testing"

	"bulkshaper/shaper/fakekernel"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/u32/layout"
)

// hashed is the incident in layout hash, with n more servers in each family.
func hashed(n int) input {
	in := incident()
	in.config.Layout = plan.LayoutHash
	for i := range n {
		in.destinations = append(in.destinations, to(fmt.Sprintf("10.9.%d.%d/32", i/250, i%250), "app", "same-cabinet"),
			to(fmt.Sprintf("2001:db8:9::%x/128", i), "app", "cross-cabinet"))
	}
	return in
}

// TestHashInstall: what an installation in layout hash makes is read back as it was planned, each destination once, and costs a few
// comparisons; tables are filled before links lead to them, and no id is used twice.
func TestHashInstall(t *testing.T) {
	p, err := hashed(500).build()
	if err != nil {
		t.Fatal(err)
	}
	ops, err := p.Install()
	if err != nil {
		t.Fatal(err)
	}
	k := fakekernel.New(tc.Link{Index: 3, Name: "eth1", MTU: 1500})
	linked := map[uint32]bool{}
	for _, op := range ops {
		f, ok := op.Object.(tc.Filter)
		if ok && f.Divisor == 0 && linked[f.Handle.Table()] {
			t.Fatalf("%s: into a table that a link leads to", op)
		}
		if ok && f.Link != 0 {
			linked[f.Link.Table()] = true
		}
		if r := k.Apply(t.Context(), tc.Link{Index: 3}, []tc.Op{op})[0]; r.Err != nil {
			t.Fatalf("%s: %v", op, r.Err)
		}
	}
	s, err := k.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range p.Hashed() {
		tree := layout.Read(s.Filters, h.Place)
		if got, want := fmt.Sprint(tree.Items()), fmt.Sprint(h.Items); got != want || len(h.Items) < 500 {
			t.Errorf("holds %s, wanted %s", got, want)
		}
		cost := p.Costs(s.Filters)[i]
		if cost.Destinations != len(h.Items) || cost.Tables < 1 || cost.Mean > 3.5 || cost.Worst > 12 {
			t.Errorf("%s", cost)
		}
	}
	if h := p.Hashed()[0]; h.Name(p.Filters[4].Filter) != p.Filters[4].Name || h.Name(tc.Filter{Link: tc.MakeU32Handle(5, 0, 0)}) != "hash table 5:" {
		t.Errorf("%s is called %q", p.Filters[4].Ident(), h.Name(p.Filters[4].Filter))
	}
}

// TestHashNeedsNoLists: more destinations of one length than a list holds.
func TestHashNeedsNoLists(t *testing.T) {
	in := hashed(0)
	for i := range 5000 {
		in.destinations = append(in.destinations, policy.Destination{Prefix: to(fmt.Sprintf("10.9.%d.%d/32", i/250, i%250), "", "").Prefix, Class: "same-cabinet"})
	}
	if _, err := in.build(); err != nil {
		t.Error(err)
	}
	in.config.Layout = plan.LayoutList
	if _, err := in.build(); err == nil {
		t.Error("a list takes them all")
	}
}
