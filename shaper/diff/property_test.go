package diff_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/fakekernel"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
)

// TestSameIsEmpty: what was installed differs in nothing, in whatever order it is read.
func TestSameIsEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := plans().Draw(t, "plan").plan(t)
		k := fakekernel.New(link)
		apply(t, k, install(t, p))
		s := observe(t, k)
		s.Qdiscs = rapid.Permutation(s.Qdiscs).Draw(t, "qdiscs")
		s.Classes = rapid.Permutation(s.Classes).Draw(t, "classes")
		s.Filters = rapid.Permutation(s.Filters).Draw(t, "filters")
		c, err := diff.Compute(s, p, diff.Options{})
		if err != nil || len(c.Ops) > 0 || len(c.Foreign) > 0 || c.Rebuild != "" {
			t.Fatalf("%+v, %v", c, err)
		}
	})
}

// someHand does random things to what stands, most of which the kernel takes.
func someHand(t *rapid.T, k *fakekernel.Kernel) {
	for range rapid.IntRange(0, 8).Draw(t, "meddling") {
		s := observe(t, k)
		minor := rapid.SampledFrom([]uint16{5, 0x10, 0x20, 0x30, 0x100, 0xffff, 0x777, 0xb000}).Draw(t, "minor")
		other := rapid.SampledFrom([]uint16{0, 5, 0x10, 0x30, 0x100, 0x777}).Draw(t, "other")
		prefix := prefixes().Draw(t, "prefix")
		pref := rapid.SampledFrom([]uint16{plan.DestinationPref(prefix), plan.DestinationPref(prefix), 10, 20000}).Draw(t, "pref")
		number := rapid.SampledFrom([]uint32{1, 2, 3, 0x800, 0xfff}).Draw(t, "node")
		verb := rapid.SampledFrom([]tc.Verb{tc.Add, tc.Change, tc.Delete, tc.Replace}).Draw(t, "verb")
		var o tc.Object
		switch rapid.IntRange(0, 8).Draw(t, "what") {
		case 0:
			o = class(minor, id(other))
		case 1:
			l := leaf(minor)
			l.Kind = rapid.SampledFrom([]string{"pfifo", "bfifo"}).Draw(t, "kind")
			l.Handle = rapid.SampledFrom([]tc.Handle{l.Handle, tc.LeafHandle(other), tc.MakeHandle(0x8003, 0)}).Draw(t, "handle")
			o = l
		case 2:
			o, verb = node(pref, 0, number, prefix.String(), id(minor)), tc.Add
		case 3:
			if verb = rapid.SampledFrom([]tc.Verb{tc.Change, tc.Delete}).Draw(t, "verb"); len(s.Filters) > 0 {
				f := rapid.SampledFrom(s.Filters).Draw(t, "filter")
				f.ClassID, f.Link = id(minor), 0
				o = f
			}
		case 4:
			table := tc.Filter{Parent: id(0), Pref: pref, Protocol: protocolOf(prefix), Kind: tc.KindU32, Handle: tc.MakeU32Handle(number&7, 0, 0), Divisor: 4}
			o, verb = table, tc.Add
		case 5:
			f := node(pref, rapid.SampledFrom([]uint32{0, 1, 2, 3}).Draw(t, "table"), number, prefix.String(), id(minor))
			f.Link, f.Sel.HMask, f.Sel.HOff = tc.MakeU32Handle(rapid.SampledFrom([]uint32{1, 2, 3}).Draw(t, "to"), 0, 0), 3, 16
			o, verb = f, tc.Add
		case 6:
			if len(s.Filters) > 0 {
				f := rapid.SampledFrom(s.Filters).Draw(t, "filter")
				if f.IsNode() {
					f.ClassID = id(minor)
					if err := k.ForceNode(f); err != nil {
						t.Fatal(err)
					}
				}
			}
		case 7:
			o, verb = tc.Filter{Parent: id(0), Pref: 5, Protocol: tc.ProtocolIP, Kind: "basic", Handle: tc.U32Handle(number)}, tc.Add
		case 8:
			if rapid.IntRange(0, 9).Draw(t, "root") == 0 {
				k.TakeRoot(tc.Qdisc{Handle: tc.MakeHandle(minor, 0), Kind: rapid.SampledFrom([]string{"htb", "pfifo"}).Draw(t, "kind")})
			}
		}
		if o != nil {
			k.Meddle(tc.Op{Verb: verb, Object: o}) // what the kernel refuses does not matter
		}
	}
}

func protocolOf(p netip.Prefix) tc.Protocol {
	if p.Addr().Is4() {
		return tc.ProtocolIP
	}
	return tc.ProtocolIPv6
}

// start is a kernel in any state: nothing, a plan, a part of one, and what another hand makes of it.
func start(t *rapid.T) *fakekernel.Kernel {
	k := fakekernel.New(link)
	ops := install(t, plans().Draw(t, "old").plan(t))
	if rapid.IntRange(0, 3).Draw(t, "part") == 0 {
		ops = ops[:rapid.IntRange(0, len(ops)).Draw(t, "length")]
	}
	apply(t, k, ops)
	someHand(t, k)
	return k
}

// foreignObjects are the filters at foreign prefs with their tables, and the classes that have neither our mark nor one of the
// plan's ids, as text.
func foreignObjects(s tc.State, p *plan.Plan) []string {
	var objects []string
	for _, f := range s.Filters {
		if _, own := plan.OwnPref(f.Pref); !own {
			objects = append(objects, fmt.Sprintf("%+v", f))
		}
	}
	for _, c := range s.Classes {
		wanted := slices.ContainsFunc(p.Classes, func(w plan.Class) bool { return w.Class.ID == c.ID })
		inner := slices.ContainsFunc(s.Classes, func(child tc.Class) bool { return child.Parent == c.ID })
		marked := c.Leaf != 0 && c.Leaf == tc.LeafHandle(c.ID.Minor())
		if !wanted && !inner && !marked {
			c.Leaf = 0 // it may have had a handle of ours
			objects = append(objects, fmt.Sprintf("%+v", c))
		}
	}
	return objects
}

// TestConverges: from any start one run leads to the plan, leaves what is foreign, and another run finds nothing to do. It may be
// killed between any two operations; then the next run does the rest.
func TestConverges(t *testing.T) { rapid.Check(t, converges) }

// FuzzConverges lets coverage choose the starts.
//
// PROMISES.md: Any bytes are in the files, in flags or in what the kernel answers
func FuzzConverges(f *testing.F) { f.Fuzz(rapid.MakeFuzz(converges)) }

func converges(t *rapid.T) {
	k := start(t)
	p := plans().Draw(t, "plan").plan(t)
	opts := diff.Options{Takeover: rapid.Bool().Draw(t, "takeover"), Owned: true}
	before := observe(t, k)
	c, err := diff.Compute(before, p, opts)
	again, err2 := diff.Compute(before, p, opts)
	if fmt.Sprint(err) != fmt.Sprint(err2) {
		t.Fatalf("two answers: %v, %v", err, err2)
	}
	if err != nil {
		checkError(t, err, opts)
		return
	}
	if text(again.Ops) != text(c.Ops) {
		t.Fatalf("two answers: %s, %s", text(c.Ops), text(again.Ops))
	}
	kill := rapid.IntRange(0, len(c.Ops)).Draw(t, "killed at")
	if root := slices.IndexFunc(c.Ops, isRootAdd); root >= 0 && kill > root && kill < root+3 {
		kill = root // root, first class and its leaf go to the kernel in one piece
	}
	apply(t, k, c.Ops[:kill])
	if c.Rebuild == "" && kill > 0 {
		// With or without the right to a foreign root: a run that is cut off leaves a tree that is known as ours.
		opts.Owned = false
	}
	c2 := reconcile(t, k, p, opts)
	if c.Rebuild == "" && c2.Rebuild == "" && diff.Ownership(before).Kind == diff.Ours {
		is := foreignObjects(observe(t, k), p)
		for _, object := range foreignObjects(before, p) {
			if !slices.Contains(is, object) {
				t.Fatalf("%s was foreign, now there is only %v\nafter %s", object, is, text(c.Ops))
			}
		}
	}
}

func isRootAdd(op tc.Op) bool {
	q, ok := op.Object.(tc.Qdisc)
	return ok && op.Verb == tc.Add && q.Parent == tc.Root
}

func checkError(t *rapid.T, err error, opts diff.Options) {
	var filter *diff.ForeignFilterError
	var objects *diff.ForeignObjectsError
	if !errors.As(err, &filter) && (!errors.As(err, &objects) || opts.Takeover) {
		t.Fatal(err)
	}
}
