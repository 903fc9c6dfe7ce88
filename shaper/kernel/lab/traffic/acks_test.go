//go:build system

package traffic

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"bulkshaper/shaper/config"
	"bulkshaper/shaper/kernel"
	"bulkshaper/shaper/kernel/lab"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
)

// ackRate is the rate of the class with the copies, little enough for an emulated machine.
const ackRate = tc.BitRate(10_000_000)

// ackFlows is the number of connections each way, as a shuffle has. A connection of the node itself keeps no more than a few packets in its
// class (TCP small queues), so that with four of them the queue is short, whatever its limit.
const ackFlows = 100

// TestAcknowledgements measures when a class for acknowledgements is needed: two nodes copy to each other, so that the acknowledgements
// of each copy go where the other copy's data goes. With -v it prints the table.
func TestAcknowledgements(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	if err != nil {
		t.Fatal(err)
	}
	for _, control := range strings.Fields(string(text)) {
		if control == "bbr" || control == "cubic" {
			t.Run(control, func(t *testing.T) { acknowledgements(t, control) })
		}
	}
}

func acknowledgements(t *testing.T, control string) {
	c := cluster(t, lab.Limit{Rate: 100_000_000}, control)
	b, err := StartBulk(c, []string{KindBulk}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	nodes := []*lab.Host{c.Host("hadoop01"), c.Host("hadoop03")}
	kernels := make([]*kernel.Kernel, len(nodes))
	for i, n := range nodes {
		if kernels[i], err = kernel.Open(kernel.Options{Namespace: n.FD(), Interface: lab.Interface, Log: zap.NewNop()}); err != nil {
			t.Fatal(err)
		}
		defer kernels[i].Close()
	}
	state, err := kernels[0].Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const long = 1000 // packets, what a pfifo often has by default
	leaves := []config.Leaf{{Kind: tc.KindPFIFO, Limit: long}, {Kind: tc.KindPFIFO}}
	if state.AutoLeaf == tc.KindFQCodel {
		leaves = append(leaves, config.Leaf{Kind: tc.KindFQCodel})
	}
	pairs := []Pair{{"hadoop01", "hadoop03"}, {"hadoop03", "hadoop01"}}
	for _, leaf := range leaves {
		var worse [2]float64 // without a class for acknowledgements, and with one
		for i, ackClass := range []string{"", "acks"} {
			name := leaf.Kind
			for j := range nodes {
				if limit := shape(t, kernels[j], leaf, ackClass, nodes[1-j].Address); limit != 0 {
					name = fmt.Sprintf("%s of %d", leaf.Kind, limit)
				}
			}
			if err := b.Set([]Copy{{pairs[0], ackFlows, 0}, {pairs[1], ackFlows, 0}}); err != nil {
				t.Fatal(err)
			}
			begin := Now() + 4*time.Second
			first := sampleAt(t, b, begin)
			last := sampleAt(t, b, begin+6*time.Second)
			var shares []float64
			for _, pair := range pairs {
				bytes := progress([]Sample{last}, pair).Received - progress([]Sample{first}, pair).Received
				shares = append(shares, float64(bytes)*8/(last.At-first.At).Seconds()/(float64(ackRate)*1448/1514))
			}
			worse[i] = min(shares[0], shares[1])
			p := progress([]Sample{last}, pairs[0])
			t.Logf("finding: %-14s ack_class %-6q: %5.1f %% and %5.1f %% of the payload limit, round trip %s", name, ackClass, 100*worse[i],
				100*max(shares[0], shares[1]), p.RTT.Round(time.Millisecond))
			if err := b.Set(nil); err != nil {
				t.Fatal(err)
			}
			for j := range nodes {
				unshape(t, kernels[j])
			}
		}
		// An acknowledgement of 66 bytes for two frames is 2 % of a class, where they share it.
		if least := 0.93; leaf.Limit != long && worse[0] < least {
			t.Errorf("%s: %.1f %% of the payload limit without a class for acknowledgements, want at least %.0f %%", leaf.Kind, 100*worse[0], 100*least)
		}
		if worse[1] < worse[0]-0.02 {
			t.Errorf("%s of %d: %.1f %% of the payload limit without a class for acknowledgements, %.1f %% with one", leaf.Kind, leaf.Limit, 100*worse[0], 100*worse[1])
		}
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
