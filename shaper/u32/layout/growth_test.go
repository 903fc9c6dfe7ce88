package layout

import "testing"

// TestGrowth: a cluster grows by a tenth again and again, and shrinks. At any size a packet costs not much more than in a layout made
// anew, the tables are not many more, and all changes together are few nodes for each destination that came or went.
func TestGrowth(t *testing.T) {
	for _, s := range shapes() {
		if s.name == "far apart bits" {
			continue // no layout is good
		}
		size := 10_000
		if underRace {
			size = 500
		}
		all := s.items(size)
		var sizes []int
		for n := 10; n < len(all); n += n/10 + 1 {
			sizes = append(sizes, n)
		}
		for i := len(sizes) - 1; i >= 0; i-- {
			sizes = append(sizes, sizes[i])
		}
		tree := &Tree{place: s.place()}
		moved, changed, was, worst := 0, 0, 0, 0.0
		for i, n := range sizes {
			adapted, err := tree.Adapt(all[:n], Options{})
			if err != nil {
				t.Fatal(err)
			}
			moved, was = moved+max(n-was, was-n), n
			changed += differences(tree, adapted)
			tree = adapted
			if i%7 > 0 {
				continue
			}
			anew, err := Build(all[:n], s.place(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			is, best := tree.Cost(), anew.Cost()
			worst = max(worst, is.Mean/best.Mean)
			if is.Mean > 2.2*best.Mean+1 || is.Tables > 3*best.Tables+100 {
				t.Errorf("%s, %d: %s; anew it were %s", s.name, n, is, best)
			}
		}
		t.Logf("%s: %.1f changes for each destination that came or went, mean cost up to %.2f times that of a layout made anew", s.name, float64(changed)/float64(moved), worst)
		if changed > 4*moved {
			t.Errorf("%s: %d nodes changed for %d destinations", s.name, changed, moved)
		}
	}
}
