package diff_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/fakekernel"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
)

// autoPref is the pref that the kernel gives the first filter that asks for none; each further one gets the one below.
const autoPref = 49152

// byHand is a tree as people write it: classes without leaves or with such of any handle, and a u32 filter for each destination of s.
func byHand(t *rapid.T, s spec) *fakekernel.Kernel {
	p := s.plan(t)
	k := fakekernel.New(link)
	root := p.Root
	root.Parent = 0
	k.TakeRoot(root)
	for i, c := range p.Classes {
		if c.Class.ID == tc.ControlClass {
			continue
		}
		meddle(t, k, add(c.Class))
		if c.Leaf != nil && rapid.IntRange(0, 3).Draw(t, "leaf") == 0 {
			leaf := *c.Leaf
			leaf.Handle = tc.MakeHandle(0x8001+uint16(i), 0)
			meddle(t, k, add(leaf))
		}
	}
	strays := rapid.Bool().Draw(t, "stray class")
	if strays {
		meddle(t, k, add(class(0x777, tc.Root)))
	}
	classes := map[string]tc.Handle{"": id(0x777)}
	for _, c := range p.Classes {
		classes[c.Name] = c.Class.ID
	}
	longest := slices.Clone(p.Destinations)
	slices.SortFunc(longest, func(a, b policy.Destination) int { return b.Prefix.Bits() - a.Prefix.Bits() })
	style := rapid.SampledFrom([]string{"as the kernel numbers", "low", "both", "a list each", "hash tables", "ours"}).Draw(t, "prefs")
	if style == "hash tables" {
		table := tc.Filter{Parent: id(0), Pref: 10, Protocol: tc.ProtocolIP, Kind: tc.KindU32, Handle: tc.MakeU32Handle(2, 0, 0), Divisor: 256}
		down := node(10, 0, 0x800, "10.0.0.0/8", 0)
		down.Sel.Flags, down.Sel.HMask, down.Sel.HOff, down.Link = 0, 0xff, 16, table.Handle
		meddle(t, k, add(table), add(down))
	}
	for i, d := range longest {
		pref, number := uint16(0), uint32(0x800)
		switch style {
		case "as the kernel numbers":
			pref = autoPref - uint16(len(longest)-i)
		case "low":
			pref = uint16(1 + i)
		case "both":
			pref = uint16(1 + i)
			if i > len(longest)/2 {
				pref += 40_000
			}
		case "a list each":
			pref, number = 10, number+uint32(i)
			if d.Prefix.Addr().Is6() {
				pref = 11
			}
		case "hash tables":
			pref, number = 10, 0x900+uint32(i)
			if d.Prefix.Addr().Is6() {
				pref = 11
			}
		case "ours":
			pref, number = plan.DestinationPref(d.Prefix), number+uint32(i)
		}
		to := classes[d.Class]
		if strays && rapid.IntRange(0, 9).Draw(t, "stray") == 0 {
			to = id(0x777)
		}
		f := node(pref, 0, number, d.Prefix.String(), to)
		if style == "hash tables" && d.Prefix.Bits() == 32 {
			f.Handle = tc.MakeU32Handle(2, uint32(d.Prefix.Addr().As4()[3]), number)
		}
		meddle(t, k, add(f))
	}
	return k
}

// PROMISES.md: A takeover of such a tree is cut off
//
// TestTakeoverInPlace: after each operation of a takeover each address is where the tree or the plan sends it. It is cut off anywhere
// and goes on, to another plan as well, and until its leaves come the tree is nobody's but the one's who made it. In the end only what is
// wanted stands.
func TestTakeoverInPlace(t *testing.T) {
	inPlace, all := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s := plans().Draw(t, "by hand")
		k := byHand(t, s)
		if rapid.Bool().Draw(t, "same classes") {
			s.destinations = plans().Draw(t, "other").destinations
			s.destinations = slices.DeleteFunc(s.destinations, func(d string) bool {
				return !slices.ContainsFunc(s.classes, func(c string) bool { return strings.HasPrefix(c, d[strings.Index(d, " ")+1:]+" ") })
			})
			s.destinations = slices.DeleteFunc(s.destinations, func(d string) bool {
				return slices.ContainsFunc(s.classes, func(c string) bool { return strings.HasSuffix(c, d[strings.Index(d, " "):]) }) // inner
			})
		} else {
			s = plans().Draw(t, "new")
		}
		s.tags = nil
		p := s.plan(t)
		for last, begun := false, false; !last; begun = true {
			opts := diff.Options{Takeover: true}
			c, err := diff.Compute(observe(t, k), p, opts)
			if err != nil {
				t.Fatal(err)
			}
			if c.Takeover == "" {
				if diff.Ownership(observe(t, k)).Kind != diff.Ours && (begun || !strings.Contains(c.Rebuild, "cannot be taken over in place: ")) {
					t.Fatalf("rebuild: %q", c.Rebuild)
				}
				break
			}
			kill := rapid.IntRange(0, 2*len(c.Ops)).Draw(t, "killed at")
			last = kill >= len(c.Ops)
			stray(t, k, p, c.Ops[:min(kill, len(c.Ops))])
		}
		all++
		c := reconcile(t, k, p, diff.Options{Takeover: true})
		if c.Rebuild != "" {
			return
		}
		inPlace++
		for _, f := range observe(t, k).Filters {
			if _, own := plan.OwnPref(f.Pref); !own {
				t.Fatalf("%s is left", f.Ident())
			}
		}
		if c, err := diff.Compute(observe(t, k), p, diff.Options{}); err != nil || len(c.Ops) > 0 || len(c.Foreign) > 0 {
			t.Fatalf("afterwards: %+v, %v", c, err)
		}
	})
	t.Logf("%d of %d in place", inPlace, all)
	if all >= 30 && inPlace < all/6 { // half of them are, and of fewer than 30 none may be
		t.Errorf("only %d of %d were in place", inPlace, all)
	}
}

// stray does ops one after the other and looks where packets go; they are those of a takeover or its begin.
func stray(t *rapid.T, k *fakekernel.Kernel, p *plan.Plan, ops []tc.Op) {
	var probes []netip.Addr
	for range 6 {
		probes = append(probes, addresses().Draw(t, "probe"))
	}
	before, acks := map[netip.Addr]tc.Handle{}, map[netip.Addr]tc.Handle{}
	for _, a := range probes {
		before[a], acks[a] = verdict(k, a), ackVerdict(k, a)
	}
	for n, op := range ops {
		foreign := op.Drains == tc.Unspec
		apply(t, k, []tc.Op{op})
		for _, a := range probes {
			if got := verdict(k, a); got != before[a] && got != wantedVerdict(p, a) {
				t.Fatalf("after %d (%s) %s goes to %s; before to %s, wanted %s\n%s", n, op, a, got, before[a], wantedVerdict(p, a), text(ops))
			}
			if got := ackVerdict(k, a); got != acks[a] && got != wantedAckVerdict(p, a) {
				t.Fatalf("after %d (%s) an acknowledgement to %s goes to %s\n%s", n, op, a, got, text(ops))
			}
		}
		var refused *diff.ForeignRootError
		if _, err := diff.Compute(observe(t, k), p, diff.Options{}); errors.As(err, &refused) != foreign {
			t.Fatalf("after %d (%s) without leave: %v\n%s", n, op, err, text(ops))
		}
		if op.Object.Type() != "class" && !op.Hitless && foreign {
			t.Fatalf("not hitless: %s: %s", op, op.Why)
		}
	}
}

// TestTakeoverUnderWay: no packet that is under way during a takeover gets what neither the tree nor the plan says.
func TestTakeoverUnderWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := hashPlans().Draw(t, "by hand")
		few := func(s spec) []string { return s.destinations[:min(len(s.destinations), 7)] } // of more there are very many ways to be torn
		s.destinations = few(s)
		k := byHand(t, s)
		s.layout = rapid.SampledFrom([]string{"hash", "list"}).Draw(t, "new layout")
		if rapid.Bool().Draw(t, "others") {
			s.destinations = few(hashPlans().Draw(t, "new"))
		}
		s.tags = nil
		checkUnderWay(t, k, s.plan(t), diff.Options{Takeover: true})
	})
}

// TestTakeoverKeeps: what can be kept is, and the words name it.
func TestTakeoverKeeps(t *testing.T) {
	k := fakekernel.New(link)
	k.TakeRoot(rootOf(tc.KindHTB, 1))
	sfq := leaf(0x20)
	sfq.Handle, sfq.Kind = tc.MakeHandle(0x20, 0), tc.KindBFIFO
	meddle(t, k, add(class(0x10, tc.Root)), add(class(0x20, tc.Root)), add(class(0x100, tc.Root)), add(class(0x777, tc.Root)), add(sfq),
		add(node(3, 0, 0x800, "10.0.0.1/32", id(0x10))), add(node(4, 0, 0x800, "10.0.0.2/32", id(0x777))), add(node(49152, 0, 0x800, "10.0.0.3/32", id(0x20))),
		add(tc.Filter{Parent: id(0), Pref: 49000, Protocol: tc.ProtocolIP, Kind: "basic", Handle: 1}))
	for _, a := range []string{"10.0.0.1", "10.0.0.1", "10.0.0.3", "10.9.9.9"} {
		k.Send(netip.MustParseAddr(a), 100)
	}
	c := reconcile(t, k, base().plan(t), diff.Options{Takeover: true})
	for _, want := range []string{"htb 1:", "written by hand", "1:10 (c10), 1:20 (c20), 1:100 (c100)", "filters (4)"} {
		if !strings.Contains(c.Takeover, want) {
			t.Errorf("%q does not say %q", c.Takeover, want)
		}
	}
	stats, err := k.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	counted := map[tc.Handle]uint64{}
	for _, s := range stats.Classes {
		counted[s.Class.ID] = s.SentPackets
	}
	if fmt.Sprint(counted) != fmt.Sprint(map[tc.Handle]uint64{id(0x10): 200, id(0x20): 100, id(0x100): 100, tc.ControlClass: 0}) {
		t.Errorf("counters: %v", counted)
	}
	// The old filters go from the last to the first, after ours have come, and before any leaf.
	var order []string
	for _, op := range c.Ops {
		f, isFilter := op.Object.(tc.Filter)
		pref, isPref := op.Object.(tc.Pref)
		switch {
		case isFilter && op.Verb == tc.Delete:
			order = append(order, fmt.Sprint(f.Pref))
		case isPref:
			order = append(order, fmt.Sprintf("pref %d", pref.Number))
		case op.Drains != 0:
			order = append(order, "leaf of "+op.Drains.String())
		case isFilter:
			order = append(order, "ours")
		}
	}
	want := "49152 pref 49000 4 3 pref 3 pref 4 pref 49152 leaf of 1:10 leaf of 1:20 leaf of 1:ffff leaf of 1:100"
	if got := strings.TrimLeft(strings.ReplaceAll(strings.Join(order, " "), "ours ", ""), " "); got != want || order[0] != "ours" {
		t.Errorf("order %v\nwanted %s", order, want)
	}
}

// many are so many filters, each at a pref of its own.
func many(prefs int) []tc.Op {
	ops := []tc.Op{add(class(0x100, tc.Root))}
	for i := range prefs {
		ops = append(ops, add(node(uint16(autoPref-i), 0, 0x800, netip.AddrFrom4([4]byte{10, 7, byte(i >> 8), byte(i)}).String()+"/32", id(0x100))))
	}
	return ops
}

// TestTakeoverNotInPlace: where it is not possible the reason is told, and the root set up again.
func TestTakeoverNotInPlace(t *testing.T) {
	nested := class(0x10, id(1))
	below := class(0x11, id(0x10))
	other := rootOf(tc.KindHTB, 1)
	other.HTB.Default = 0x30
	for name, c := range map[string]struct {
		root tc.Qdisc
		ops  []tc.Op
		why  string
	}{
		"another default": {other, nil, "the default class is 1:30 and shall be 1:100 (c100)"},
		"another parent":  {rootOf(tc.KindHTB, 1), []tc.Op{add(class(1, tc.Root)), add(nested)}, "class 1:10 (c10) is below 1:1 and shall be below"},
		"a leaf is inner": {rootOf(tc.KindHTB, 1), []tc.Op{add(class(0x10, tc.Root)), add(below)}, "class 1:10 (c10) has classes below it"},
		"a filter at our pref": {rootOf(tc.KindHTB, 1), []tc.Op{add(tc.Filter{Parent: id(0), Pref: 12000, Protocol: tc.ProtocolIP, Kind: "basic", Handle: 1})},
			"a basic filter of protocol ip stands at pref 12000, which is ours"},
		"another meaning": {rootOf(tc.KindHTB, 1), []tc.Op{add(class(0x10, tc.Root)), add(class(0x20, tc.Root)), add(node(3, 0, 1, "10.0.0.7/32", id(0x10))), add(node(4, 0, 1, "10.0.0.1/32", id(0x20)))},
			"class 1:10 (c10) has been something else: 10.0.0.7/32 is sent there, for one, and belongs to c20"},
		"very many prefs": {rootOf(tc.KindHTB, 1), many(2043), "2043 u32 prefs stand, and the kernel has no ids for 5 of ours beside them: it has 2047"},
		"another kind":    {rootOf("mq", 0x8001), nil, ""},
		"YARN":            {rootOf(tc.KindHTB, 0x42), nil, ""},
	} {
		k := fakekernel.New(link)
		k.TakeRoot(c.root)
		meddle(t, k, c.ops...)
		changes := reconcile(t, k, base().plan(t), diff.Options{Takeover: true})
		if changes.Takeover != "" || !strings.Contains(changes.Rebuild, "not ours") || !strings.Contains(changes.Rebuild, c.why) || (c.why != "") != strings.Contains(changes.Rebuild, "in place") {
			t.Errorf("%s: %q, %q", name, changes.Rebuild, changes.Takeover)
		}
	}
	// A tree without filters may be filled by rules that beat them.
	empty := fakekernel.New(link)
	empty.TakeRoot(rootOf(tc.KindHTB, 1))
	meddle(t, empty, add(class(0x100, tc.Root)))
	if changes := reconcile(t, empty, base().plan(t), diff.Options{Takeover: true}); !strings.Contains(changes.Takeover, "CLASSIFY") {
		t.Errorf("%q", changes.Takeover)
	}
	// A class that is right for one destination is not another one for the sake of the rest, and the default class is what it is.
	k := fakekernel.New(link)
	k.TakeRoot(rootOf(tc.KindHTB, 1))
	meddle(t, k, add(class(0x10, tc.Root)), add(class(0x100, tc.Root)), add(node(3, 0, 1, "10.0.0.7/32", id(0x10))), add(node(4, 0, 1, "10.0.0.1/32", id(0x10))), add(node(5, 0, 1, "10.0.0.2/32", id(0x100))))
	if changes := reconcile(t, k, base().plan(t), diff.Options{Takeover: true}); changes.Takeover == "" {
		t.Errorf("rebuild: %s", changes.Rebuild)
	}
}

// TestTakeoverGoesOn: a class was alike by one of its destinations. Cut off when the filter that showed it is gone, and that of one which
// moves is not, the takeover goes on in place.
func TestTakeoverGoesOn(t *testing.T) {
	p := base().plan(t)
	byHand := func() *fakekernel.Kernel {
		k := fakekernel.New(link)
		k.TakeRoot(rootOf(tc.KindHTB, 1))
		meddle(t, k, add(class(0x10, tc.Root)), add(class(0x20, tc.Root)), add(node(3, 0, 1, "10.0.0.7/32", id(0x10))), add(node(4, 0, 1, "10.0.0.1/32", id(0x10))))
		return k
	}
	whole, err := diff.Compute(observe(t, byHand()), p, diff.Options{Takeover: true})
	if err != nil || whole.Takeover == "" {
		t.Fatalf("not in place: %+v, %v", whole, err)
	}
	alone := false
	for n := range whole.Ops {
		k := byHand()
		for _, op := range whole.Ops[:n] {
			k.Meddle(op)
		}
		state := observe(t, k)
		gone := !slices.ContainsFunc(state.Filters, func(f tc.Filter) bool { return f.Pref == 4 && f.IsNode() })
		stays := slices.ContainsFunc(state.Filters, func(f tc.Filter) bool { return f.Pref == 3 && f.IsNode() })
		alone = alone || gone && stays
		rest, err := diff.Compute(state, p, diff.Options{Takeover: true})
		if err != nil || rest.Takeover == "" && diff.Ownership(state).Kind != diff.Ours {
			t.Errorf("cut off after %d operations: rebuild %q, %v", n, rest.Rebuild, err)
		}
	}
	if !alone {
		t.Error("the filter that shows the class to be alike was never gone before the other: the test proves nothing")
	}
}
