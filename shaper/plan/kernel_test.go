package plan_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/kernel"
	"bulkshaper/shaper/kernel/kerneltest"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
)

// TestGoldensThroughTC feeds the goldens to the real tc. What stands then is what the plan wants, to the tick.
func TestGoldensThroughTC(t *testing.T) {
	for name, in := range goldens() {
		t.Run(name, func(t *testing.T) {
			n, k := open(t)
			p, err := in.build()
			if err != nil {
				t.Fatal(err)
			}
			golden, err := os.ReadFile(filepath.Join("testdata", name+".golden"))
			if err != nil {
				t.Fatal(err)
			}
			if err := n.TCBatch(string(golden)); err != nil {
				t.Fatal(err)
			}
			for _, op := range compute(t, observe(t, k), p) {
				t.Errorf("tc's tree differs: %s: %s", op, op.Why)
			}
		})
	}
}

// TestGoldensThroughKernel installs the plans as the daemon does. They read back exactly, and the real tc shows them.
func TestGoldensThroughKernel(t *testing.T) {
	for name, in := range goldens() {
		t.Run(name, func(t *testing.T) {
			n, k := open(t)
			p, err := in.build()
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range k.Apply(t.Context(), observe(t, k).Link, install(t, p)) {
				if r.Err != nil {
					t.Fatalf("%s: %v", r.Op, r.Err)
				}
			}
			if ops := compute(t, observe(t, k), p); len(ops) > 0 {
				t.Errorf("still to do: %v (%s)", ops, ops[0].Why)
			}
			if name != "incident" {
				return
			}
			shown := n.TC("class", "show", "dev", "eth1") + n.TC("qdisc", "show", "dev", "eth1") + n.TC("filter", "show", "dev", "eth1", "parent", "1:")
			for _, want := range []string{
				"class htb 1:10 root leaf b010: prio 0 rate 819200Kbit ceil 819200Kbit burst 100Kb cburst 100Kb",
				"class htb 1:20 root leaf b020: prio 0 rate 204800Kbit ceil 204800Kbit",
				"class htb 1:100 root leaf b100: prio 0 rate 204800Kbit ceil 204800Kbit",
				"qdisc htb 1: root refcnt", "r2q 10 default 0x100", "qdisc pfifo b010: parent 1:10 limit 3381p",
				"flowid 1:10", "match 0af11c0e/ffffffff at 16", "match 0af40e00/ffffff00 at 16", "match 20010db8/ffffffff at 24",
			} {
				if !strings.Contains(shown, want) {
					t.Errorf("tc does not show %q in:\n%s", want, shown)
				}
			}
		})
	}
}

func open(t *testing.T) (*kerneltest.Namespace, *kernel.Kernel) {
	n := kerneltest.New(t)
	k, err := kernel.Open(kernel.Options{Namespace: n.FD(), Interface: kerneltest.Interface})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return n, k
}

func observe(t *testing.T, k *kernel.Kernel) tc.State {
	s, err := k.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func compute(t *testing.T, s tc.State, p *plan.Plan) []tc.Op {
	c, err := diff.Compute(s, p, diff.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Rebuild != "" || len(c.Foreign) > 0 {
		t.Errorf("%q, %q", c.Rebuild, c.Foreign)
	}
	return c.Ops
}
