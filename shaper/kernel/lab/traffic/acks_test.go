//go:build system

package traffic

import (
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"bulkshaper/shaper/config"
	"bulkshaper/shaper/kernel"
	"bulkshaper/shaper/kernel/lab"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
)

// ackRate is the rate of the class with the copies, little enough for an emulated machine.
const ackRate = tc.BitRate(10_000_000)

// TestAcknowledgements measures when a class for acknowledgements is needed: two nodes copy to each other, so that the acknowledgements
// of each copy go where the other copy's data goes. Run with -v it prints the table of the README.
func TestAcknowledgements(t *testing.T) {
	c := cluster(t, lab.Limit{Rate: 100_000_000})
	b, err := StartBulk(c, []string{KindBulk}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	nodes := []*lab.Host{c.Host("hadoop01"), c.Host("hadoop03")}
	kernels := make([]*kernel.Kernel, len(nodes))
	for i, n := range nodes {
		if kernels[i], err = kernel.Open(kernel.Options{Namespace: n.FD(), Interface: lab.Interface}); err != nil {
			t.Fatal(err)
		}
		defer kernels[i].Close()
	}
	state, err := kernels[0].Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	leaves := []config.Leaf{{Kind: "pfifo", Limit: 1000}, {Kind: "pfifo"}}
	if state.AutoLeaf == tc.KindFQCodel {
		leaves = append(leaves, config.Leaf{Kind: "fq_codel"})
	}
	type result struct{ worse, better float64 }
	results := map[string]result{}
	for _, leaf := range leaves {
		for _, ackClass := range []string{"", "acks"} {
			limit := uint32(0)
			for i := range nodes {
				limit = shape(t, kernels[i], leaf, ackClass, nodes[1-i].Address)
			}
			if err := b.Set([]Copy{{Pair{"hadoop01", "hadoop03"}, 4, 0}, {Pair{"hadoop03", "hadoop01"}, 4, 0}}); err != nil {
				t.Fatal(err)
			}
			name := leaf.Kind
			if limit != 0 {
				name = fmt.Sprintf("%s of %d", leaf.Kind, limit)
			}
			name += map[bool]string{true: ", a class for acknowledgements", false: ""}[ackClass != ""]
			begin := Now() + 4*time.Second
			first, last := sampleAt(t, b, begin), sampleAt(t, b, begin+8*time.Second)
			var shares []float64
			for _, pair := range []Pair{{"hadoop01", "hadoop03"}, {"hadoop03", "hadoop01"}} {
				bytes := progress([]Sample{last}, pair).Received - progress([]Sample{first}, pair).Received
				shares = append(shares, float64(bytes)*8/(last.At-first.At).Seconds()/(float64(ackRate)*1448/1514))
			}
			p := progress([]Sample{last}, Pair{"hadoop01", "hadoop03"})
			r := result{min(shares[0], shares[1]), max(shares[0], shares[1])}
			results[name] = r
			t.Logf("%-50s %5.1f %% and %5.1f %% of the payload limit, round trip %s", name, 100*r.worse, 100*r.better, p.RTT.Round(time.Millisecond))
			if err := b.Set(nil); err != nil {
				t.Fatal(err)
			}
			for i := range nodes {
				unshape(t, kernels[i])
			}
		}
	}
	for name, r := range results {
		// An acknowledgement of 66 bytes for two frames is 2 % of a class, where they share it.
		if least := 0.93; name != "pfifo of 1000" && r.worse < least {
			t.Errorf("%s: %.1f %% of the payload limit, want at least %.0f %%", name, 100*r.worse, 100*least)
		}
		if r.better > 1.03 {
			t.Errorf("%s: %.1f %% of the payload limit", name, 100*r.better)
		}
	}
	if without, with := results["pfifo of 1000"], results["pfifo of 1000, a class for acknowledgements"]; with.worse < without.worse-0.01 {
		t.Errorf("with a class for acknowledgements %.1f %%, without %.1f %%", 100*with.worse, 100*without.worse)
	}
}

// sampleAt is the first sample from a time on.
func sampleAt(t *testing.T, b *Bulk, at time.Duration) Sample {
	t.Helper()
	samples, err := b.Until(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	return samples[len(samples)-1]
}

// shape installs a plan with one destination, and returns the limit of its class's leaf.
func shape(t *testing.T, k *kernel.Kernel, leaf config.Leaf, ackClass string, to netip.Addr) uint32 {
	t.Helper()
	state, err := k.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	class := func(name string, id uint16, rate tc.BitRate, leaf config.Leaf) policy.Class {
		return policy.Class{Name: name, ID: id, Rate: rate, Ceil: rate, Leaf: leaf}
	}
	p, err := plan.Build(&config.Config{Interface: lab.Interface, DefaultClass: "default", Layout: plan.LayoutHash, AckClass: ackClass},
		[]policy.Class{class("bulk", 0x20, ackRate, leaf), class("acks", 0x40, ackRate, config.Leaf{}), class("default", 0x100, ackRate, config.Leaf{})},
		[]policy.Destination{{Prefix: netip.PrefixFrom(to, 32), Server: "other", Class: "bulk"}}, nil, plan.Facts{Link: state.Link, AutoLeaf: tc.KindPFIFO})
	if err != nil {
		t.Fatal(err)
	}
	ops, err := p.Install()
	if err != nil {
		t.Fatal(err)
	}
	do(t, k, ops)
	for _, c := range p.Classes {
		if c.Name == "bulk" {
			return c.Leaf.Limit
		}
	}
	return 0
}

// unshape removes the root and all below it.
func unshape(t *testing.T, k *kernel.Kernel) {
	t.Helper()
	state, err := k.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	root, _ := state.RootQdisc()
	do(t, k, []tc.Op{{Verb: tc.Delete, Object: root}})
}

func do(t *testing.T, k *kernel.Kernel, ops []tc.Op) {
	t.Helper()
	state, err := k.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range k.Apply(t.Context(), state.Link, ops) {
		if r.Err != nil {
			t.Fatalf("%s: %v", r.Op, r.Err)
		}
	}
}
