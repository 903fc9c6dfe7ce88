package diff_test

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bulkshaper/shaper/config"
	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/fakekernel"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/u32"
	"bulkshaper/shaper/u32/layout"
)

var link = tc.Link{Index: 7, Name: "eth1", MTU: 1500, TxQueueLen: 1000, Up: true, TxQueues: 1}

// spec is a plan in short: classes "name id rate parent", the default first, and destinations "prefix class".
type spec struct {
	classes, destinations []string
	leaf, layout, ack     string
	tags                  []tc.Protocol // that packets may leave with
}

// link is the interface, with the devices on it that put tags on.
func (s spec) link() tc.Link {
	l := link
	l.Tags = s.tags
	return l
}

func (s spec) plan(t interface{ Fatal(...any) }) *plan.Plan {
	cfg := &config.Config{Interface: "eth1", Layout: s.layout, AckClass: s.ack}
	var classes []policy.Class
	for i, text := range s.classes {
		var c policy.Class
		var rate string
		if n, _ := fmt.Sscan(text, &c.Name, &rate); n != 2 {
			t.Fatal("class " + text)
		}
		if rest := strings.Fields(text)[2:]; len(rest) > 0 {
			c.Parent = rest[0]
		}
		if _, err := fmt.Sscanf(c.Name, "c%x", &c.ID); err != nil {
			t.Fatal(err)
		}
		r, err := tc.ParseBitRate(rate)
		if err != nil {
			t.Fatal(err)
		}
		c.Rate, c.Ceil = r.WholeBytes(), r.WholeBytes()
		c.Leaf.Kind = s.leaf
		if i == 0 {
			cfg.DefaultClass = c.Name
		}
		classes = append(classes, c)
	}
	var destinations []policy.Destination
	for _, text := range s.destinations {
		prefix, class, _ := strings.Cut(text, " ")
		destinations = append(destinations, policy.Destination{Prefix: netip.MustParsePrefix(prefix), Server: "s" + prefix, Class: class})
	}
	p, err := plan.Build(cfg, classes, destinations, nil, plan.Facts{Link: s.link()})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// base is a plain plan: default 1:100, two more classes, nested destinations.
func base() spec {
	return spec{classes: []string{"c100 20mbit", "c10 80mbit", "c20 20mbit"},
		destinations: []string{"10.0.0.1/32 c10", "10.0.0.2/32 c20", "10.0.0.0/24 c20", "2001:db8::1/128 c10", "10.0.9.9/32 c100"}}
}

func id(minor uint16) tc.Handle { return tc.MakeHandle(1, minor) }

func node(pref uint16, table, number uint32, prefix string, to tc.Handle) tc.Filter {
	protocol := tc.ProtocolIP
	if strings.Contains(prefix, ":") {
		protocol = tc.ProtocolIPv6
	}
	return tc.Filter{Parent: id(0), Pref: pref, Protocol: protocol, Kind: tc.KindU32, Handle: tc.MakeU32Handle(table, 0, number), ClassID: to,
		Sel: tc.MatchDestination(netip.MustParsePrefix(prefix))}
}

func class(minor uint16, parent tc.Handle) tc.Class {
	return tc.Class{ID: id(minor), Parent: parent, Rate: 8e6, Ceil: 8e6, Buffer: 1000, Cbuffer: 1000, Quantum: 2000}
}

func leaf(minor uint16) tc.Qdisc {
	return tc.Qdisc{Handle: tc.LeafHandle(minor), Parent: id(minor), Kind: tc.KindPFIFO, Limit: 100}
}

func add(o tc.Object) tc.Op    { return tc.Op{Verb: tc.Add, Object: o} }
func remove(o tc.Object) tc.Op { return tc.Op{Verb: tc.Delete, Object: o} }

// failer is testing.T or rapid.T.
type failer interface {
	Fatal(...any)
	Fatalf(string, ...any)
	Helper()
}

// install is the operations of a first installation.
func install(t failer, p *plan.Plan) []tc.Op {
	t.Helper()
	ops, err := p.Install()
	if err != nil {
		t.Fatal(err)
	}
	return ops
}

func installed(t *testing.T, p *plan.Plan) *fakekernel.Kernel {
	k := fakekernel.New(link)
	apply(t, k, install(t, p))
	return k
}

func apply(t failer, k *fakekernel.Kernel, ops []tc.Op) {
	t.Helper()
	for _, r := range k.Apply(contextOf(t), link, ops) {
		if r.Err != nil {
			t.Fatalf("%s (%s): %v\nof %s", r.Op, r.Op.Why, r.Err, text(ops))
		}
	}
}

func observe(t failer, k *fakekernel.Kernel) tc.State {
	t.Helper()
	s, err := k.Observe(contextOf(t))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// meddle does what another hand may do; all of it must succeed.
func meddle(t failer, k *fakekernel.Kernel, ops ...tc.Op) {
	t.Helper()
	for _, r := range k.Meddle(ops...) {
		if r.Err != nil {
			t.Fatalf("%s: %v", r.Op, r.Err)
		}
	}
}

// reconcile computes, applies, and checks that nothing is left to do.
func reconcile(t failer, k *fakekernel.Kernel, want *plan.Plan, opts diff.Options) *diff.Changes {
	t.Helper()
	c, err := diff.Compute(observe(t, k), want, opts)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, k, c.Ops)
	left, err := diff.Compute(observe(t, k), want, opts)
	if err != nil {
		t.Fatal(err)
	}
	if len(left.Ops) > 0 {
		t.Fatalf("still to do: %sdone was: %s", text(left.Ops), text(c.Ops))
	}
	checkHolds(t, observe(t, k), want)
	return c
}

func text(ops []tc.Op) string {
	var b strings.Builder
	for _, op := range ops {
		hit := ""
		if !op.Hitless {
			hit = " [not hitless]"
		}
		fmt.Fprintf(&b, "%s: %s%s\n", op, op.Why, hit)
	}
	return b.String()
}

// checkHolds compares the state with the plan without the help of diff.
func checkHolds(t failer, s tc.State, p *plan.Plan) {
	t.Helper()
	root, _ := s.RootQdisc()
	root.HTB.DirectPackets = 0
	if root != p.Root {
		t.Fatalf("root is %+v, wanted %+v", root, p.Root)
	}
	for _, w := range p.Classes {
		i := slices.IndexFunc(s.Classes, func(c tc.Class) bool { return c.ID == w.Class.ID })
		if i < 0 {
			t.Fatalf("class %s is missing", w.Name)
		}
		c := s.Classes[i]
		if w.Leaf == nil {
			c.Prio, c.Quantum = w.Class.Prio, w.Class.Quantum
		} else if j := slices.Index(s.Qdiscs, *w.Leaf); j < 0 || c.Level != 0 {
			t.Fatalf("leaf %+v is missing in %+v", *w.Leaf, s.Qdiscs)
		}
		if !c.SameParameters(w.Class) || c.Parent != w.Class.Parent {
			t.Fatalf("class is %+v, wanted %+v", c, w.Class)
		}
	}
	wanted := map[string]tc.Handle{}
	hash := map[uint16]bool{plan.PrefHashIPv4: true, plan.PrefHashIPv6: true, 11101: true, 11102: true, 11201: true, 11202: true}
	checkHashed(t, s, p)
	for _, f := range p.Filters {
		if hash[f.Pref] {
			continue
		}
		wanted[fmt.Sprint(f.Pref, f.Protocol, []byte(f.Sel.MatchID()))] = f.ClassID
	}
	lent := lentTables(s)
	for _, f := range s.Filters {
		if _, own := plan.OwnPref(f.Pref); !own || hash[f.Pref] || f.Handle.Table() >= 0x800 && !f.IsNode() || lent[f.Handle.Table()] {
			continue
		}
		key := fmt.Sprint(f.Pref, f.Protocol, []byte(f.Sel.MatchID()))
		if to, ok := wanted[key]; !ok || to != f.ClassID || f.Link != 0 {
			t.Fatalf("filter %s to %s is not wanted, or twice", f.Ident(), f.ClassID)
		}
		delete(wanted, key)
	}
	if len(wanted) > 0 {
		t.Fatalf("%d filters are missing", len(wanted))
	}
}

// lentTables are those that foreign filters use.
func lentTables(s tc.State) map[uint32]bool {
	lent := map[uint32]bool{}
	for n := -1; n < len(lent); {
		n = len(lent)
		for _, f := range s.Filters {
			if _, own := plan.OwnPref(f.Pref); f.Link != 0 && (!own || lent[f.Handle.Table()]) {
				lent[f.Link.Table()] = true
			}
		}
	}
	return lent
}

// checkHashed compares what stands at the prefs of layout hash with the plan: every destination once, and nothing else.
func checkHashed(t failer, s tc.State, p *plan.Plan) {
	t.Helper()
	lent := lentTables(s)
	for _, h := range p.Hashed() {
		var have, root []tc.Filter
		objects := 0
		for _, f := range s.Filters {
			if f.Pref != h.Place.Pref || lent[f.Handle.Table()] {
				continue
			}
			if f.IsNode() && f.Handle.Table() >= 0x800 {
				root = append(root, f)
			}
			have = append(have, f)
			if f.IsNode() || f.Divisor != 0 && f.Handle.Table() < 0x800 {
				objects++
			}
		}
		tree := layout.Read(have, h.Place)
		if n := len(tree.Filters()); n != objects {
			t.Fatalf("%d nodes and tables at pref %d, of which %d are in the tree", objects, h.Place.Pref, n)
		}
		items := slices.Clone(h.Items)
		slices.SortFunc(items, func(a, b layout.Item) int {
			return cmp.Or(a.Prefix.Addr().Compare(b.Prefix.Addr()), a.Prefix.Bits()-b.Prefix.Bits())
		})
		if !slices.Equal(tree.Items(), items) {
			t.Fatalf("pref %d holds %v, wanted %v", h.Place.Pref, tree.Items(), items)
		}
		checkMirrors(t, s, p, h.Place, root)
	}
}

// checkMirrors: the nodes of the root table stand once more for packets with a tag, where those may leave, and only there.
func checkMirrors(t failer, s tc.State, p *plan.Plan, place layout.Place, root []tc.Filter) {
	t.Helper()
	lent := lentTables(s)
	for _, tag := range plan.Tags() {
		want := map[string]tc.Handle{}
		key := func(f tc.Filter) string {
			return fmt.Sprint(f.Handle.Bucket(), f.Handle.Node(), f.Protocol, []byte(f.Sel.MatchID()), f.Sel.HMask, f.Sel.HOff, f.Link)
		}
		for _, f := range root {
			if slices.Contains(p.Tags, tag) {
				want[key(plan.BehindTag(f, tag))] = f.ClassID
			}
		}
		pref := place.Pref + 1 + uint16(slices.Index(plan.Tags(), tag))
		for _, f := range s.Filters {
			if f.Pref != pref || f.Handle.Table() >= 0x800 && !f.IsNode() || lent[f.Handle.Table()] {
				continue
			}
			if to, ok := want[key(f)]; !ok || to != f.ClassID {
				t.Fatalf("filter %s to %s is not wanted, or twice", f.Ident(), f.ClassID)
			}
			delete(want, key(f))
		}
		if len(want) > 0 {
			t.Fatalf("%d nodes for packets with a tag of %s are missing at pref %d", len(want), tag, pref)
		}
	}
}

// verdict is where k sends a packet to a.
func verdict(k *fakekernel.Kernel, a netip.Addr) tc.Handle { return k.Classify(u32.Packet(a)) }

func ackVerdict(k *fakekernel.Kernel, a netip.Addr) tc.Handle { return k.Classify(u32.Ack(a)) }

// plans are small valid plans over few names, ids and addresses, so that two of them have much in common.
func plans() *rapid.Generator[spec] {
	return rapid.Custom(func(t *rapid.T) spec {
		names := rapid.Permutation([]string{"c10", "c20", "c30", "c100", "c5"}).Draw(t, "names")
		names = names[:rapid.IntRange(1, len(names)).Draw(t, "classes")]
		inner, parents := map[string]bool{}, map[string]string{}
		for i, name := range names {
			if parent := rapid.IntRange(-6, i-1).Draw(t, "parent"); parent >= 0 {
				parents[name] = names[parent]
				inner[names[parent]] = true
			}
		}
		leaves := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return inner[n] })
		standard := rapid.SampledFrom(leaves).Draw(t, "default")
		if slices.Contains(leaves, "c100") {
			standard = "c100"
		}
		slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(b2i(a != standard), b2i(b != standard)) })
		s := spec{layout: rapid.SampledFrom([]string{"list", "hash"}).Draw(t, "layout"), leaf: rapid.SampledFrom([]string{"pfifo", "pfifo", "bfifo"}).Draw(t, "leaf")}
		s.tags = rapid.SampledFrom([][]tc.Protocol{nil, nil, {tc.ProtocolVLAN}, plan.Tags()}).Draw(t, "tags")
		for _, name := range names {
			rate := rapid.SampledFrom([]string{"8mbit", "80mbit"}).Draw(t, "rate")
			s.classes = append(s.classes, fmt.Sprintf("%s %s %s", name, rate, parents[name]))
		}
		s.ack = rapid.SampledFrom(append(leaves[:len(leaves):len(leaves)], "", "")).Draw(t, "ack")
		seen := map[netip.Prefix]bool{}
		for range rapid.IntRange(0, 8).Draw(t, "destinations") {
			p := prefixes().Draw(t, "prefix")
			if !seen[p] {
				seen[p] = true
				s.destinations = append(s.destinations, p.String()+" "+rapid.SampledFrom(leaves).Draw(t, "class"))
			}
		}
		return s
	})
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func addresses() *rapid.Generator[netip.Addr] {
	return rapid.Custom(func(t *rapid.T) netip.Addr {
		last := rapid.SampledFrom([]byte{0, 1, 2, 0xff}).Draw(t, "last")
		if rapid.IntRange(0, 3).Draw(t, "v6") == 0 {
			return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: last})
		}
		return netip.AddrFrom4([4]byte{10, 0, rapid.SampledFrom([]byte{0, 9}).Draw(t, "net"), last})
	})
}

func prefixes() *rapid.Generator[netip.Prefix] {
	return rapid.Custom(func(t *rapid.T) netip.Prefix {
		a := addresses().Draw(t, "address")
		lengths := []int{32, 32, 31, 24, 0}
		if a.Is6() {
			lengths = []int{128, 128, 64, 0}
		}
		return netip.PrefixFrom(a, rapid.SampledFrom(lengths).Draw(t, "bits")).Masked()
	})
}
