package hitless

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"bulkshaper/shaper"
	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/kernel"
	"bulkshaper/shaper/tc"
)

// cutKernel does so many operations and then no more, as a process does that is killed. It is finer than that: what is sent in one
// sendto is done to its end even if the process is killed in it.
type cutKernel struct {
	*kernel.Kernel
	left int
}

// Apply does as many as are left.
func (k *cutKernel) Apply(ctx context.Context, link tc.Link, ops []tc.Op) []tc.Result {
	n := min(k.left, len(ops))
	results := k.Kernel.Apply(ctx, link, ops[:n])
	for _, r := range results {
		if r.Err == nil {
			k.left--
		}
	}
	for _, op := range ops[n:] {
		results = append(results, tc.Result{Op: op, Err: errCut})
	}
	return results
}

// cut goes from what stands towards w, and not further than n operations. It tells whether that is the whole way.
func (b *bed) cut(w wanted, n int) bool {
	b.t.Helper()
	out, err := shaper.Converge(b.t.Context(), &cutKernel{b.k, n}, b.observe(), w.Plan, diff.Options{}, nil)
	if err != nil && out.Done() < n {
		b.t.Fatalf("after %d of %d operations: %v", out.Done(), n, err)
	}
	b.checkHitless(out.Changes)
	return err == nil && out.Converged
}

// pair is two plans, far apart.
type pair struct {
	name string
	a, b string // layouts
}

func pairs() []pair {
	return []pair{{"hash", "hash", "hash"}, {"list", "list", "list"}, {"both", "hash", "list"}}
}

// wide makes two clusters with the same targets that differ in very much: networks have come and gone, and every third server moved.
func (p pair) wide(seed uint64) [2]*cluster {
	var result [2]*cluster
	for i, layout := range []string{p.a, p.b} {
		c := newCluster(rand.New(rand.NewPCG(seed, 2)), 60) // the same at first
		c.Rand = rand.New(rand.NewPCG(seed, 3+uint64(i)))
		for range 20 {
			c.one([]string{"move", "role", "add", "remove", "address", "nest", "nest"}[c.IntN(7)])
		}
		for range 220 {
			a := c.somewhere()
			c.add(single(a), 0)
		}
		c.layout = layout
		result[i] = c
	}
	return result
}

// PROMISES.md: The daemon is killed in the middle of its work
//
// TestCut: from each of two plans to the other, cut after each operation in turn and then done by a process that starts afresh: all
// packets are in classes of one plan or the other, and in the end what is wanted stands.
func TestCut(t *testing.T) {
	for _, p := range pairs() {
		t.Run(p.name, func(t *testing.T) {
			r, seed := seeded(t)
			clusters := p.wide(seed)
			b := newBed(t)
			plans := [2]wanted{b.want(clusters[0]), b.want(clusters[1])}
			b.converge(plans[0])
			b.startSender(t, clusters[0].targets)
			cuts, whole := 0, [2]bool{}
			for n := r.IntN(cutStride); !whole[0] || !whole[1]; n += cutStride {
				for from, to := range []int{1, 0} {
					what := fmt.Sprintf("to %s, cut after %d operations", p.name, n)
					whole[to] = b.cut(plans[to], n)
					b.pause(func() { b.judge(what, plans[from], plans[to]) })
					b.restart()
					b.change(what+", started again", plans[to], plans[from])
					cuts++
				}
			}
			b.arrived(plans[0])
			t.Logf("%d cuts, %d packets", cuts, b.packets)
		})
	}
}
