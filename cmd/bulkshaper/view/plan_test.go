package view

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"bulkshaper/cmd/bulkshaper/screen"
	"bulkshaper/inventory"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/fakekernel"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
)

// planned is a plan of n destinations in two classes; those before moved are in the first.
func planned(t *testing.T, n, moved int, bulk tc.BitRate) *plan.Plan {
	t.Helper()
	cfg := &config.Config{Interface: "eth1", DefaultClass: "default", Layout: plan.LayoutHash}
	classes := []policy.Class{{Name: "same-cabinet", ID: 0x10, Rate: 819_200_000, Ceil: 819_200_000}, {Name: "cross-cabinet", ID: 0x20, Rate: bulk, Ceil: bulk}, {Name: "default", ID: 0x100, Rate: 204_800_000, Ceil: 204_800_000}}
	var list []policy.Destination
	for i := range n {
		d := policy.Destination{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 32), Server: fmt.Sprintf("s%d", i), Rule: "bulk", Class: "cross-cabinet"}
		if i < moved {
			d.Rule, d.Class = "near", "same-cabinet"
		}
		list = append(list, d)
	}
	p, err := plan.Build(cfg, classes, list, &inventory.Server{Name: "hadoop27", Cabinet: "b13"}, plan.Facts{Link: tc.Link{Name: "eth1", MTU: 1500}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// shaped is the state after p was set up.
func shaped(t *testing.T, p *plan.Plan) tc.State {
	t.Helper()
	k := fakekernel.New(tc.Link{Index: 3, Name: "eth1", MTU: 1500, Up: true})
	ops, err := p.Install()
	if err != nil {
		t.Fatal(err)
	}
	state, err := k.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range k.Apply(t.Context(), state.Link, ops) {
		if r.Err != nil {
			t.Fatalf("%s: %v", r.Op, r.Err)
		}
	}
	if state, err = k.Observe(t.Context()); err != nil {
		t.Fatal(err)
	}
	return state
}

// byHand is a tree that tc made: the classes of p and one more, and a filter for each destination of p at the pref that the kernel gives it.
func byHand(t *testing.T, p *plan.Plan) tc.State {
	t.Helper()
	k := fakekernel.New(tc.Link{Index: 3, Name: "eth1", MTU: 1500, Up: true})
	k.TakeRoot(p.Root)
	classes := map[string]tc.Handle{}
	var ops []tc.Op
	for _, c := range p.Classes {
		if c.Class.ID != tc.ControlClass {
			classes[c.Name] = c.Class.ID
			ops = append(ops, tc.Op{Verb: tc.Add, Object: c.Class})
		}
	}
	stray := p.Default().Class
	stray.ID = tc.MakeHandle(tc.Major, 0x40)
	ops = append(ops, tc.Op{Verb: tc.Add, Object: stray})
	for i, d := range p.Destinations {
		ops = append(ops, tc.Op{Verb: tc.Add, Object: tc.Filter{Parent: p.Root.Handle, Pref: uint16(49152 - i), Protocol: tc.ProtocolIP, Kind: tc.KindU32,
			Handle: tc.MakeU32Handle(0, 0, 0x800), ClassID: classes[d.Class], Sel: tc.MatchDestination(d.Prefix)}})
	}
	for _, r := range k.Meddle(ops...) {
		if r.Err != nil {
			t.Fatalf("%s: %v", r.Op, r.Err)
		}
	}
	state, err := k.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// TestPlanFits holds the screens of a first installation, an edit, a takeover, and nothing to do, also of 10,000 destinations: none of them is long.
func TestPlanFits(t *testing.T) {
	t.Parallel()
	few, many := planned(t, 15, 5, 204_800_000), planned(t, 10_000, 5000, 204_800_000)
	fewStand, manyStand := shaped(t, few), shaped(t, planned(t, 2000, 1000, 204_800_000))
	for name, c := range map[string]struct {
		want *plan.Plan
		have tc.State
	}{
		"install":      {few, tc.State{Link: tc.Link{Name: "eth1"}}},
		"install-many": {many, tc.State{Link: tc.Link{Name: "eth1"}}},
		"edit":         {planned(t, 16, 7, 100_000_000), fewStand},
		"edit-many":    {planned(t, 1800, 800, 204_800_000), manyStand},
		"nothing":      {few, fewStand},
		"takeover":     {few, byHand(t, few)},
	} {
		changes, err := diff.Compute(c.have, c.want, diff.Options{Takeover: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, width := range []int{80, 200} {
			lines := PlanLines(screen.Style{Width: width}, c.want, c.have, changes)
			if len(lines) > 45 && strings.HasSuffix(name, "-many") {
				t.Errorf("%s has %d lines", name, len(lines))
			}
			for _, line := range lines {
				if got := screen.Cells(line); got > width {
					t.Errorf("%s at %d: a line of %d: %s", name, width, got, line)
				}
			}
			golden(t, fmt.Sprintf("plan-%s-%d.txt", name, width), strings.Join(lines, "\n")+"\n")
		}
		told := map[string]bool{}
		for _, line := range append(OperationLines(screen.Style{}, c.want, c.have, changes.Ops), BatchLines(c.want, c.have, changes.Ops)...) {
			line, _, _ = strings.Cut(line, "  # ")
			told[line] = true
		}
		for _, op := range changes.Ops {
			if !op.Barrier && !told["     "+op.TC("eth1")] || !told[op.TC("eth1")] {
				t.Fatalf("%s: %s is not told", name, op)
			}
		}
	}
}

// TestCommentsStayComments whatever a server is called: what is behind a line break would be run.
func TestCommentsStayComments(t *testing.T) {
	t.Parallel()
	p := planned(t, 1, 0, 204_800_000)
	p.Destinations[0].Server = "x\nqdisc del dev eth1 root\r\x00"
	ops, err := p.Install()
	if err != nil {
		t.Fatal(err)
	}
	lines := BatchLines(p, tc.State{}, ops)
	if text := strings.Join(lines, "\n"); strings.Count(text, "\n") != len(lines)-1 || !strings.Contains(text, "# x qdisc del dev eth1 root") {
		t.Errorf("%s", text)
	}
}
