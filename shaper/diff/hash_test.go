package diff_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/fakekernel"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
)

// addressPlan is a network of which plans in layout hash take destinations: enough for tables in tables, and nests.
func addressPlan() []string {
	var prefixes []string
	for i := range 60 {
		prefixes = append(prefixes, fmt.Sprintf("10.%d.%d.%d/32", i%2, i%7, i))
	}
	for i := range 6 {
		prefixes = append(prefixes, fmt.Sprintf("10.0.%d.0/24", i), fmt.Sprintf("10.1.%d.0/28", i), fmt.Sprintf("2001:db8::%x:0/112", i))
		for j := range 5 {
			prefixes = append(prefixes, fmt.Sprintf("2001:db8::%x:%x/128", i, j))
		}
	}
	return append(prefixes, "10.0.0.0/9", "10.0.0.0/16", "10.1.0.0/16", "0.0.0.0/0", "192.0.2.1/32", "2001:db8::/64", "::/0")
}

// hashPlans are plans of one set of classes, most of them in layout hash.
func hashPlans() *rapid.Generator[spec] {
	return rapid.Custom(func(t *rapid.T) spec {
		s := base()
		s.destinations = nil
		s.layout = rapid.SampledFrom([]string{"hash", "hash", "hash", "list"}).Draw(t, "layout")
		s.tags = rapid.SampledFrom([][]tc.Protocol{nil, {tc.ProtocolVLAN}, plan.Tags()}).Draw(t, "tags")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
		share := rapid.SampledFrom([]int{1, 5, 20, 50, 80, 100}).Draw(t, "share")
		few := rapid.IntRange(1, 3).Draw(t, "classes")
		for _, p := range addressPlan() {
			if r.IntN(100) < share {
				s.destinations = append(s.destinations, p+" "+[]string{"c10", "c20", "c100"}[r.IntN(few)])
			}
		}
		return s
	})
}

// probesOf are addresses in and beside the address plan.
func probesOf(t *rapid.T) []netip.Addr {
	var probes []netip.Addr
	for range 7 {
		p := netip.MustParsePrefix(rapid.SampledFrom(addressPlan()).Draw(t, "near"))
		a := p.Addr()
		for range rapid.IntRange(0, 2).Draw(t, "steps") {
			a = a.Next()
		}
		probes = append(probes, a)
	}
	return probes
}

// grace is how many operations a hash table is busy after its last link went.
const grace = 3

// mirrorClash is why a node goes that another hand has put where one for packets with a tag belongs.
const mirrorClash = "not what is wanted there"

// follow does ops one by one. After each, every probe goes where it went before the first or where p sends it. With a tag it may also go
// where the others went, if a run was cut off before; and where somebody has meddled, what was wrong with the tables and with the nodes
// that lead there is mended one after the other.
func follow(t *rapid.T, k *fakekernel.Kernel, p *plan.Plan, ops []tc.Op, probes []netip.Addr, cut, meddled bool) {
	t.Helper()
	var before, taggedBefore []tc.Handle
	for _, a := range probes {
		before, taggedBefore = append(before, verdict(k, a)), append(taggedBefore, tagged(k, a))
	}
	for n, op := range ops {
		err := k.Apply(t.Context(), link, []tc.Op{op})[0].Err
		for tries := 0; errors.Is(err, syscall.EBUSY) && op.Verb == tc.Delete && tries < grace; tries++ {
			err = k.Apply(t.Context(), link, []tc.Op{op})[0].Err // a table that packets may be in
		}
		if err != nil {
			t.Fatalf("%s: %v\n%s", op, err, text(ops))
		}
		for i, a := range probes {
			if got, want := verdict(k, a), wantedVerdict(p, a); got != before[i] && got != want {
				t.Fatalf("after %d (%s) %s goes to %s; before to %s, wanted %s\n%s", n, op, a, got, before[i], want, text(ops))
			}
			if got, want := tagged(k, a), wantedBehindTag(p, a); got != taggedBefore[i] && got != want && !meddled && (!cut || got != before[i]) {
				t.Fatalf("after %d (%s) %s behind a tag goes to %s; before to %s, wanted %s\n%s", n, op, a, got, taggedBefore[i], want, text(ops))
			}
		}
		if !op.Hitless && !strings.Contains(op.Why, "circle") && op.Why != mirrorClash {
			t.Fatalf("not hitless: %s", op)
		}
	}
}

// TestHashIsHitless: from plan to plan, layout changes among them, and killed anywhere in between, no packet goes where neither what
// stood at the start of a run nor its plan sends it. In the end the plan holds.
func TestHashIsHitless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := fakekernel.New(link, fakekernel.WithGrace(grace))
		ops, err := hashPlans().Draw(t, "first").plan(t).Install()
		if err != nil {
			t.Fatal(err)
		}
		apply(t, k, ops)
		var p *plan.Plan
		cut := false
		for range rapid.IntRange(1, 4).Draw(t, "runs") {
			p = hashPlans().Draw(t, "next").plan(t)
			c, err := diff.Compute(observe(t, k), p, diff.Options{})
			if err != nil {
				t.Fatal(err)
			}
			kill := len(c.Ops)
			if rapid.Bool().Draw(t, "killed") {
				kill = rapid.IntRange(0, len(c.Ops)).Draw(t, "at")
			}
			follow(t, k, p, c.Ops[:kill], probesOf(t), cut, false)
			cut = cut || kill < len(c.Ops)
		}
		c, err := diff.Compute(observe(t, k), p, diff.Options{})
		if err != nil {
			t.Fatal(err)
		}
		follow(t, k, p, c.Ops, probesOf(t), cut, false)
		if c, err = diff.Compute(observe(t, k), p, diff.Options{}); err != nil || len(c.Ops) > 0 {
			t.Fatalf("still to do: %v, %s", err, text(c.Ops))
		}
		checkHolds(t, observe(t, k), p)
	})
}

// TestHashInstalled: during a first installation a packet goes where the plan sends it or past all classes, as before.
func TestHashInstalled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := hashPlans().Draw(t, "plan").plan(t)
		ops, err := p.Install()
		if err != nil {
			t.Fatal(err)
		}
		k := fakekernel.New(link)
		probes := probesOf(t)
		for _, op := range ops {
			apply(t, k, []tc.Op{op})
			for _, a := range probes {
				if got, want := verdict(k, a), wantedVerdict(p, a); got != fakekernel.Direct && got != want {
					t.Fatalf("after %s %s goes to %s, wanted %s\n%s", op, a, got, want, text(ops))
				}
			}
		}
		if c := reconcile(t, k, p, diff.Options{}); len(c.Ops) > 0 {
			t.Fatalf("still to do: %s", text(c.Ops))
		}
	})
}

// TestHashMended: whatever another hand does at the prefs of layout hash, one run mends it, and no packet goes astray that did not
// before.
func TestHashMended(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := hashPlans().Draw(t, "plan")
		s.layout = "hash"
		p := s.plan(t)
		k := fakekernel.New(link)
		ops, err := p.Install()
		if err != nil {
			t.Fatal(err)
		}
		apply(t, k, ops)
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			meddleWithHash(t, k)
		}
		c, err := diff.Compute(observe(t, k), p, diff.Options{})
		if err != nil {
			t.Fatal(err)
		}
		follow(t, k, p, c.Ops, probesOf(t), false, true)
		reconcile(t, k, p, diff.Options{})
	})
}

func meddleWithHash(t *rapid.T, k *fakekernel.Kernel) {
	var objects []tc.Filter
	for _, f := range observe(t, k).Filters {
		if f.Pref >= plan.PrefHashIPv4 && f.Pref <= plan.PrefHashIPv6+2 {
			objects = append(objects, f)
		}
	}
	if len(objects) == 0 {
		return
	}
	f := rapid.SampledFrom(objects).Draw(t, "object")
	number := rapid.Uint32Range(1, 0xfff).Draw(t, "number")
	switch rapid.IntRange(0, 6).Draw(t, "what") {
	case 0:
		k.Meddle(remove(f))
	case 1:
		f.ClassID = id(0x20)
		k.Meddle(tc.Op{Verb: tc.Change, Object: f})
	case 2: // the same node again, somewhere
		f.Handle = f.Handle&^0xfff | tc.U32Handle(number)
		k.Meddle(add(f))
	case 3: // a destination in any bucket
		to := rapid.SampledFrom(objects).Draw(t, "to")
		n := node(f.Pref, 0, number, map[bool]string{true: "10.0.0.0/24", false: "2001:db8::/64"}[f.Pref < plan.PrefHashIPv6], id(0x10))
		if f.Protocol.IsTag() {
			n.Sel, n.Protocol = n.Sel.BehindTag(n.Protocol), f.Protocol
		}
		n.Handle = to.Handle&^0xfff | tc.U32Handle(number)
		k.Meddle(add(n))
	case 4: // a table, and a link to it or another
		table := f
		table.Handle, table.Divisor, table.Link, table.ClassID, table.Sel = tc.MakeU32Handle(number&0x7ff|1, 0, 0), 16, 0, 0, tc.Selector{}
		k.Meddle(add(table))
		l := f
		l.Handle, l.Divisor, l.ClassID, l.Sel = f.Handle&^0xfff|tc.U32Handle(number), 0, 0, tc.Selector{HMask: 0xf, HOff: 16}
		l.Link = rapid.SampledFrom(objects).Draw(t, "linked").Handle &^ 0xfffff
		k.Meddle(add(l))
	case 5:
		if f.IsNode() {
			if err := k.ForceNode(f); err != nil {
				t.Fatal(err)
			}
		}
	case 6:
		if f.Link != 0 {
			f.Link = rapid.SampledFrom(objects).Draw(t, "linked").Handle &^ 0xfffff
			k.Meddle(tc.Op{Verb: tc.Change, Object: f})
		}
	}
}

// TestFewMessages: what one change of the inventory costs among many destinations.
func TestFewMessages(t *testing.T) {
	s := base()
	s.layout, s.destinations = "hash", nil
	for i := range 10_000 {
		s.destinations = append(s.destinations, fmt.Sprintf("10.%d.%d.%d/32 c%d", i>>13, i>>6&0x7f, i&0x3f, 10+10*(i%2)))
	}
	k := installed(t, s.plan(t))
	for _, test := range []struct {
		name string
		edit func([]string) []string
		most int
	}{
		{"nothing", func(d []string) []string { return d }, 0},
		{"another class", func(d []string) []string { d[777] = strings.Replace(d[777], "c20", "c10", 1); return d }, 1},
		{"gone", func(d []string) []string { return slices.Delete(d, 99, 100) }, 1},
		{"come", func(d []string) []string { return append(d, "10.7.7.7/32 c10") }, 1},
		{"another address", func(d []string) []string { d[1234] = "10.9.9.9/32 c10"; return d }, 3},
		{"a shorter prefix", func(d []string) []string { return append(d, "10.0.7.0/24 c20") }, 1},
		{"a prefix of everything", func(d []string) []string { return append(d, "0.0.0.0/0 c20") }, 1},
		{"another family", func(d []string) []string { return append(d, "2001:db8::7/128 c20") }, 1},
	} {
		s.destinations = test.edit(slices.Clone(s.destinations))
		c := reconcile(t, k, s.plan(t), diff.Options{})
		if len(c.Ops) > test.most {
			t.Errorf("%s: %d operations\n%s", test.name, len(c.Ops), text(c.Ops[:min(len(c.Ops), 20)]))
		}
	}
}

// TestHashCleared: where the root stays for somebody else, the hash tables go.
func TestHashCleared(t *testing.T) {
	s := base()
	s.layout = "hash"
	for _, p := range addressPlan()[:60] {
		s.destinations = append(s.destinations, strings.Replace(p, "10.", "11.", 1)+" c10")
	}
	k := installed(t, s.plan(t))
	meddle(t, k, add(class(0x777, tc.Root)))
	ops, err := diff.Clear(observe(t, k))
	if err != nil {
		t.Fatal(err)
	}
	tables := 0
	for _, op := range ops {
		if f, ok := op.Object.(tc.Filter); ok && f.Divisor != 0 {
			tables++
		}
	}
	apply(t, k, ops)
	for _, f := range observe(t, k).Filters {
		if f.IsNode() || f.Handle.Table() < 0x800 {
			t.Errorf("left: %s", f.Ident())
		}
	}
	if tables == 0 {
		t.Error("there were no tables")
	}
}

// TestHiddenTable: a table that was left over when its pref was deleted is seen by nobody and takes an id. Nothing is put into it, and
// with the id banned another is taken.
func TestHiddenTable(t *testing.T) {
	s := base()
	s.layout = "hash"
	for i := range 20 {
		s.destinations = append(s.destinations, fmt.Sprintf("10.5.0.%d/32 c10", i))
	}
	k := installed(t, base().plan(t))
	table := tc.Filter{Parent: id(0), Pref: 500, Protocol: tc.ProtocolIP, Kind: tc.KindU32, Handle: tc.MakeU32Handle(1, 0, 0), Divisor: 4}
	meddle(t, k, add(table), remove(tc.Filter{Parent: id(0), Pref: 500, Protocol: tc.ProtocolIP, Kind: tc.KindU32}))
	p := s.plan(t)
	c, err := diff.Compute(observe(t, k), p, diff.Options{})
	if err != nil {
		t.Fatal(err)
	}
	results := k.Apply(t.Context(), link, c.Ops)
	hidden := diff.HiddenTables(results)
	if !slices.Equal(hidden, []uint32{1}) {
		t.Fatalf("hidden tables: %v", hidden)
	}
	for _, r := range results {
		if f, ok := r.Op.Object.(tc.Filter); ok && f.Divisor == 0 && f.Pref == plan.PrefHashIPv4 && r.Err == nil {
			t.Errorf("done although a table is missing: %s", r.Op)
		}
	}
	reconcile(t, k, p, diff.Options{BannedTables: hidden})
	if ids := diff.HiddenTables([]tc.Result{{Op: add(table), Err: syscall.EBUSY}, {Op: remove(table), Err: syscall.EEXIST}}); ids != nil {
		t.Errorf("%v", ids)
	}
}

// TestOrderOfTheDump: the order in which filters are read does not matter.
func TestOrderOfTheDump(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := fakekernel.New(link)
		apply(t, k, install(t, hashPlans().Draw(t, "old").plan(t)))
		for range rapid.IntRange(0, 4).Draw(t, "steps") {
			meddleWithHash(t, k)
		}
		have, p := observe(t, k), hashPlans().Draw(t, "new").plan(t)
		c, err := diff.Compute(have, p, diff.Options{})
		if err != nil {
			t.Fatal(err)
		}
		times := map[tc.U32Handle]int{}
		for _, f := range have.Filters {
			if times[f.Handle]++; times[f.Handle] > 1 {
				return // of two with one handle the first counts
			}
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 5))
		r.Shuffle(len(have.Filters), func(i, j int) { have.Filters[i], have.Filters[j] = have.Filters[j], have.Filters[i] })
		again, err := diff.Compute(have, p, diff.Options{})
		if err != nil || text(again.Ops) != text(c.Ops) {
			t.Fatalf("%v\n%s\nand\n%s", err, text(c.Ops), text(again.Ops))
		}
	})
}
