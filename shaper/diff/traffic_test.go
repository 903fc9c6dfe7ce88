package diff_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/fakekernel"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/u32"
)

// wantedVerdict is the class that the plan's destinations give a.
func wantedVerdict(p *plan.Plan, a netip.Addr) tc.Handle {
	best, name := -1, p.Default().Name
	for _, d := range p.Destinations {
		if d.Prefix.Contains(a) && d.Prefix.Bits() > best {
			best, name = d.Prefix.Bits(), d.Class
		}
	}
	i := slices.IndexFunc(p.Classes, func(c plan.Class) bool { return c.Name == name })
	return p.Classes[i].Class.ID
}

// wantedAckVerdict is the class of an acknowledgement to a.
func wantedAckVerdict(p *plan.Plan, a netip.Addr) tc.Handle {
	for _, c := range p.Classes {
		if c.Name == p.AckClass {
			return c.Class.ID
		}
	}
	return wantedVerdict(p, a)
}

// tagged is where k sends a packet to a with a tag of 802.1q, and wantedBehindTag where it should: to the default class, where no such
// packets are known of.
func tagged(k *fakekernel.Kernel, a netip.Addr) tc.Handle {
	packet, _ := u32.Packet(a)
	return k.Classify(packet, tc.ProtocolVLAN)
}

func wantedBehindTag(p *plan.Plan, a netip.Addr) tc.Handle {
	if !slices.Contains(p.Tags, tc.ProtocolVLAN) {
		return p.Default().Class.ID
	}
	return wantedVerdict(p, a)
}

// withTables puts hash tables at one of our prefs, as another version may have left them: a table below the lists, which gives
// random classes to the addresses in it.
func withTables(t *rapid.T, k *fakekernel.Kernel, p *plan.Plan) {
	table := tc.Filter{Parent: id(0), Pref: 12000, Protocol: tc.ProtocolIP, Kind: tc.KindU32, Handle: tc.MakeU32Handle(1, 0, 0), Divisor: 4}
	below := table
	below.Handle = tc.MakeU32Handle(2, 0, 0)
	link := func(from, number uint32, to uint32) tc.Filter {
		f := node(12000, from, number, "10.0.0.0/24", 0)
		f.Sel.Flags, f.Sel.HMask, f.Sel.HOff, f.Link = 0, 3, 16, tc.MakeU32Handle(to, 0, 0)
		return f
	}
	to := p.Classes[len(p.Classes)-1].Class.ID
	entry := node(12000, 2, 1, "10.0.0.1/32", to)
	entry.Handle = tc.MakeU32Handle(2, 1, 1)
	inner := link(1, 1, 2)
	inner.Handle = tc.MakeU32Handle(1, rapid.Uint32Range(0, 3).Draw(t, "bucket"), 1)
	meddle(t, k, add(table), add(below), add(entry), add(inner), add(link(0, rapid.SampledFrom([]uint32{0x7f, 0x900}).Draw(t, "place"), 1)))
}

// TestNoPacketGoesAstray: from one plan to another in place, after each operation each address goes where the old plan or the new
// one sends it, unless operations say that they are not hitless. Foreign filters of no effect on it stay in between.
func TestNoPacketGoesAstray(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, p := plans().Draw(t, "old").plan(t), plans().Draw(t, "new").plan(t)
		k := fakekernel.New(link)
		apply(t, k, install(t, old))
		if rapid.Bool().Draw(t, "tables") {
			withTables(t, k, old)
		}
		changes, err := diff.Compute(observe(t, k), p, diff.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if changes.Rebuild != "" {
			return
		}
		var probes []netip.Addr
		for range 6 {
			probes = append(probes, addresses().Draw(t, "probe"))
		}
		moves := movedClasses(changes.Ops)
		var before, acksBefore, taggedBefore []tc.Handle
		for _, a := range probes {
			before, acksBefore, taggedBefore = append(before, verdict(k, a)), append(acksBefore, ackVerdict(k, a)), append(taggedBefore, tagged(k, a))
		}
		for n, op := range changes.Ops {
			apply(t, k, []tc.Op{op})
			for i, a := range probes {
				for _, packet := range []struct {
					kind              string
					got, before, want tc.Handle
				}{
					{"packet", verdict(k, a), before[i], wantedVerdict(p, a)}, {"acknowledgement", ackVerdict(k, a), acksBefore[i], wantedAckVerdict(p, a)},
					{"packet behind a tag", tagged(k, a), taggedBefore[i], wantedBehindTag(p, a)},
				} {
					detour := moves[packet.before] && packet.got == p.Default().Class.ID
					if packet.got != packet.before && packet.got != packet.want && !detour {
						t.Fatalf("after %d (%s) the %s to %s goes to %s; before to %s, wanted %s\n%s", n, op, packet.kind, a, packet.got, packet.before,
							packet.want, text(changes.Ops))
					}
				}
			}
		}
		for _, a := range probes {
			if got, want := verdict(k, a), wantedVerdict(p, a); got != want {
				t.Fatalf("in the end %s goes to %s, wanted %s", a, got, want)
			}
			if got, want := ackVerdict(k, a), wantedAckVerdict(p, a); got != want {
				t.Fatalf("in the end an acknowledgement to %s goes to %s, wanted %s", a, got, want)
			}
			if got, want := tagged(k, a), wantedBehindTag(p, a); got != want {
				t.Fatalf("in the end %s behind a tag goes to %s, wanted %s", a, got, want)
			}
		}
	})
}

// movedClasses are those deleted and added in one run.
func movedClasses(ops []tc.Op) map[tc.Handle]bool {
	deleted, moved := map[tc.Handle]bool{}, map[tc.Handle]bool{}
	for _, op := range ops {
		if c, ok := op.Object.(tc.Class); ok {
			switch {
			case op.Verb == tc.Delete:
				deleted[c.ID] = true
			case op.Verb == tc.Add && deleted[c.ID]:
				moved[c.ID] = true
			}
		}
	}
	return moved
}

func isTagged(op tc.Op) bool {
	f, ok := op.Object.(tc.Filter)
	return ok && f.Protocol.IsTag()
}

// TestAddBeforeDelete is the order in short: in one run no filter is added or changed after the first deletion of a filter that is
// hitless, and no class is deleted before the last filter is. Of a tree that is taken over in place the leaves, our mark, come last.
func TestAddBeforeDelete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := start(t)
		c, err := diff.Compute(observe(t, k), plans().Draw(t, "new").plan(t), diff.Options{Takeover: true})
		if err != nil || c.Rebuild != "" {
			return
		}
		moves := movedClasses(c.Ops)
		phase := 0
		// What is for packets with a tag goes first where none are left, and comes last.
		ordered := c.Ops
		if i := slices.IndexFunc(ordered, func(op tc.Op) bool {
			return op.Barrier && strings.Contains(op.Why, "packets with a tag that are under way")
		}); i >= 0 {
			ordered = slices.DeleteFunc(slices.Clone(ordered[:i]), isTagged)
			ordered = append(ordered, c.Ops[i+1:]...)
		}
		for _, op := range ordered {
			if op.Barrier || op.Verb == tc.Add && isTagged(op) || c.Takeover != "" && op.Object.Type() == "qdisc" {
				continue
			}
			step := 0
			switch o := op.Object.(type) {
			case tc.Filter:
				if op.Verb == tc.Delete && op.Hitless {
					step = 2
				}
			case tc.Class:
				if op.Verb == tc.Delete && !moves[o.ID] {
					step = 3
				}
			}
			if step == 0 && phase > 0 && !(op.Verb == tc.Delete && op.Object.Type() == "filter") || step > 0 && step < phase {
				t.Fatalf("%s comes too late in\n%s", op, text(c.Ops))
			}
			phase = max(phase, step)
		}
	})
}

// TestBarrier: between a new filter and the deletion of an old one behind it that matches the same packets stands a change of a
// class, which waits for packets under way; where the new one stands behind the old, it is not needed.
func TestBarrier(t *testing.T) {
	for _, test := range []struct {
		name     string
		old, new []string
		want     bool
	}{
		{"longer prefix", []string{"10.0.0.0/24 c10"}, []string{"10.0.0.1/32 c20"}, true},
		{"shorter prefix", []string{"10.0.0.1/32 c20"}, []string{"10.0.0.0/24 c10"}, false},
		{"other address", []string{"10.0.0.0/24 c10"}, []string{"10.0.1.1/32 c20"}, false},
		{"nothing added", []string{"10.0.0.0/24 c10"}, nil, false},
		{"nothing deleted", nil, []string{"10.0.0.0/24 c10"}, false},
		{"class change", []string{"10.0.0.0/24 c10"}, []string{"10.0.0.0/24 c20"}, false},
		{"IPv6", []string{"2001:db8::/64 c10"}, []string{"2001:db8::/65 c20"}, true},
		{"all", []string{"::/0 c10"}, []string{"2001:db8::/65 c20"}, true},
		{"other family", []string{"::/0 c10"}, []string{"10.0.1.1/32 c20"}, false},
	} {
		old, s := base(), base()
		old.destinations, s.destinations = test.old, test.new
		k := installed(t, old.plan(t))
		c := reconcile(t, k, s.plan(t), diff.Options{})
		i := slices.IndexFunc(c.Ops, func(op tc.Op) bool { return op.String() == "change class 1:ffff" })
		if (i >= 0) != test.want {
			t.Errorf("%s: barrier %v\n%s", test.name, i >= 0, text(c.Ops))
		}
		if i >= 0 && (c.Ops[i-1].Verb != tc.Add || c.Ops[i+1].Verb != tc.Delete) {
			t.Errorf("%s: barrier in the wrong place\n%s", test.name, text(c.Ops))
		}
	}
	// A node of the same match behind its replacement: here the one that stands is not terminal.
	k := installed(t, base().plan(t))
	f := node(12000, 0x802, 1, "10.0.0.1/32", id(0x10))
	meddle(t, k, remove(f))
	f.Handle, f.Sel.Flags = tc.MakeU32Handle(0, 0, 9), 0
	meddle(t, k, add(f))
	if c := reconcile(t, k, base().plan(t), diff.Options{}); len(c.Ops) != 3 || c.Ops[1].String() != "change class 1:ffff" {
		t.Errorf("replaced node: %s", text(c.Ops))
	}
}

// TestManyFilters: thousands of filters, changed at random, in a time that does not grow with their square.
func TestManyFilters(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	many := func() *plan.Plan {
		s := base()
		s.destinations = nil
		for i := range plan.MaxNodes {
			if r.IntN(10) == 0 {
				continue
			}
			a := netip.AddrFrom4([4]byte{10, byte(r.IntN(2)), byte(i >> 8), byte(i)})
			s.destinations = append(s.destinations, a.String()+"/32 "+[]string{"c10", "c20"}[r.IntN(2)])
		}
		return s.plan(t)
	}
	k := installed(t, many())
	for range 3 {
		c := reconcile(t, k, many(), diff.Options{})
		for _, op := range c.Ops {
			if !op.Hitless {
				t.Errorf("%s: %s", op, op.Why)
			}
		}
	}
}
