package plan_test

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bulkshaper/inventory"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
)

var update = flag.Bool("update", false, "write the golden files anew")

// install is the operations of a first installation.
func install(t interface {
	Fatal(...any)
	Helper()
}, p *plan.Plan) []tc.Op {
	t.Helper()
	ops, err := p.Install()
	if err != nil {
		t.Fatal(err)
	}
	return ops
}

// input is what a plan is made of.
type input struct {
	config       config.Config
	classes      []policy.Class
	destinations []policy.Destination
	facts        plan.Facts
}

func (in input) build() (*plan.Plan, error) {
	node := &inventory.Server{Name: "hadoop27.nyc1.example.net", Cabinet: "b12"}
	return plan.Build(&in.config, in.classes, in.destinations, node, in.facts)
}

func to(prefix, server, class string) policy.Destination {
	return policy.Destination{Prefix: netip.MustParsePrefix(prefix), Server: server, Rule: class, Class: class}
}

// incident is the node of the original story.
func incident() input {
	return input{
		config: config.Config{Interface: "eth1", DefaultClass: "default", Layout: "list"},
		classes: []policy.Class{
			{Name: "same-cabinet", ID: 0x10, Rate: 819_200_000, Ceil: 819_200_000},
			{Name: "cross-cabinet", ID: 0x20, Rate: 204_800_000, Ceil: 204_800_000},
			{Name: "default", ID: 0x100, Rate: 204_800_000, Ceil: 204_800_000},
		},
		destinations: []policy.Destination{
			to("2001:db8:241:28::14/128", "hadoop14", "same-cabinet"), to("10.244.14.0/24", "hadoop14", "same-cabinet"),
			to("10.241.28.14/32", "hadoop14", "same-cabinet"), to("10.241.29.7/32", "hadoop40", "cross-cabinet"), to("10.241.29.8/32", "namenode1", "default"),
		},
		facts: plan.Facts{Link: tc.Link{Name: "eth1", MTU: 1500}, AutoLeaf: tc.KindPFIFO},
	}
}

// acks has a class for acknowledgements.
func acks() input {
	in := incident()
	in.classes = append(in.classes, policy.Class{Name: "acks", ID: 0x40, Rate: 30_000_000, Ceil: 30_000_000})
	in.config.AckClass = "acks"
	return in
}

// tree has the default class below another, several levels, fast and slow classes, and every number written by hand once.
func tree() input {
	in := incident()
	in.classes = []policy.Class{
		{Name: "all", ID: 0x1, Inner: true, Rate: 10e9, Ceil: 10e9},
		{Name: "same-cabinet", ID: 0x10, Parent: "bulk", Prio: 2, Rate: 4e9, Ceil: 10e9, Burst: 1600, Cburst: 3200, Quantum: 9000},
		{Name: "cross-cabinet", ID: 0x20, Parent: "bulk", Prio: 3, Rate: 1e6, Ceil: 2e6, Leaf: config.Leaf{Kind: "bfifo"}},
		{Name: "slow", ID: 0xfffe, Rate: 8, Ceil: 8, Leaf: config.Leaf{Kind: "pfifo", Limit: 7}},
		{Name: "fast", ID: 0x5, Rate: 400e9, Ceil: 400e9, Leaf: config.Leaf{Kind: "bfifo", Limit: 50_000_000}},
		{Name: "bulk", ID: 0x200, Inner: true, Parent: "all", Rate: 8e9, Ceil: 10e9},
		{Name: "default", ID: 0x2, Parent: "all", Rate: 1e9, Ceil: 1e9},
	}
	in.destinations = append(in.destinations, to("0.0.0.0/0", "", "slow"), to("::/0", "", "slow"), to("10.0.0.0/8", "", "fast"))
	in.facts.Link.MTU = 9000
	return in
}

// goldens are the inputs of the golden files.
func goldens() map[string]input {
	return map[string]input{"incident": incident(), "tree": tree(), "hash": hashed(6), "acks": acks(), "tagged": tagged(acks()), "tagged-hash": tagged(hashed(6))}
}

// tagged is in where packets may leave with a VLAN tag.
func tagged(in input) input {
	in.facts.Link.Tags = []tc.Protocol{tc.ProtocolVLAN}
	return in
}

func lines(t *testing.T, p *plan.Plan) string {
	var b strings.Builder
	for _, op := range install(t, p) {
		b.WriteString(op.TC(p.Interface) + "\n")
	}
	return b.String()
}

func TestGoldens(t *testing.T) {
	for name, in := range goldens() {
		t.Run(name, func(t *testing.T) {
			p, err := in.build()
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(lines(t, p)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), lines(t, p)); diff != "" {
				t.Errorf("%s (run with -update if this is meant, -want +got):\n%s", path, diff)
			}
		})
	}
}

func TestBuild(t *testing.T) {
	p, err := tree().build()
	if err != nil {
		t.Fatal(err)
	}
	if p.Node != "hadoop27.nyc1.example.net" || p.Cabinet != "b12" || p.Interface != "eth1" {
		t.Errorf("%s, %s, %s", p.Node, p.Cabinet, p.Interface)
	}
	var order []string
	for _, c := range p.Classes {
		order = append(order, fmt.Sprintf("%s:%d", c.Name, c.Destinations))
	}
	if want := []string{"all:0", "fast:1", "bulk:0", "same-cabinet:3", "cross-cabinet:1", "slow:2", "control:0", "default:1"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	if last := p.Default(); last.Name != "default" || p.Root.HTB.Default != 2 {
		t.Errorf("default is %s, root %+v", last.Name, p.Root)
	}
	// With -32 and -128 for the longest prefixes, shorter ones come later.
	var prefs []uint16
	for _, f := range p.Filters {
		prefs = append(prefs, f.Pref)
	}
	if want := []uint16{11000, 11001, 11001, 11001, 12000, 12000, 12000, 12008, 12024, 12032, 13000, 13128}; !slices.Equal(prefs, want) {
		t.Errorf("prefs %v, want %v", prefs, want)
	}
}

func TestControl(t *testing.T) {
	in := tree()
	in.classes[6].Prio, in.classes[6].Leaf = 5, config.Leaf{Kind: "pfifo", Limit: 99}
	p, err := in.build()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(p.Classes, func(c plan.Class) bool { return c.Name == tc.ControlName })
	control, standard := p.Classes[i], p.Default()
	if c := control.Class; c.ID != tc.MakeHandle(1, 0xffff) || c.Parent != tc.Root || c.Prio != 0 || c.Rate != standard.Class.Rate || c.Buffer != standard.Class.Buffer {
		t.Errorf("%+v", c)
	}
	if l := control.Leaf; l.Handle != tc.LeafHandle(tc.ControlMinor) || l.Limit != 99 || l.Parent != control.Class.ID {
		t.Errorf("%+v", l)
	}
}

func TestDefaults(t *testing.T) {
	for _, test := range []struct {
		rate           tc.BitRate
		mtu            int
		burst          tc.Bytes
		quantum, limit uint32
	}{
		{8, 1500, 65536, 1514, 64},
		{1e6, 1500, 65536, 12500, 64},
		{20e6, 1500, 65536, 200_000, 82},
		{100e6, 1500, 65536, 200_000, 412},
		{819_200_000, 1500, 102_400, 200_000, 3381},
		{1e9, 9000, 125_000, 200_000, 693},
		{10e9, 1500, 1_250_000, 200_000, 10_000},
		{400e9, 1500, 50_000_000, 200_000, 10_000},
	} {
		in := incident()
		in.classes = []policy.Class{{Name: "default", ID: 1 << 8, Rate: test.rate, Ceil: test.rate}}
		in.destinations, in.facts.Link.MTU = nil, test.mtu
		p, err := in.build()
		if err != nil {
			t.Fatal(err)
		}
		c := p.Default()
		if got := plan.DefaultBurst(test.rate); got != test.burst {
			t.Errorf("%s: burst %d, want %d", test.rate, got, test.burst)
		}
		if c.Class.Quantum != test.quantum || c.Leaf.Limit != test.limit {
			t.Errorf("%s: quantum %d, want %d; limit %d, want %d", test.rate, c.Class.Quantum, test.quantum, c.Leaf.Limit, test.limit)
		}
		if test.rate >= 100e6 && tc.Ticks(15_625_000/100) < c.Class.Buffer {
			t.Errorf("%s: burst is over 10 ms: %d ticks", test.rate, c.Class.Buffer)
		}
	}
}

func TestLeaves(t *testing.T) {
	for _, test := range []struct {
		leaf config.Leaf
		auto string
		want tc.Qdisc
	}{
		{config.Leaf{}, "", tc.Qdisc{Kind: "pfifo", Limit: 845}},
		{config.Leaf{Kind: "auto"}, "fq_codel", tc.Qdisc{Kind: "fq_codel"}},
		{config.Leaf{Kind: "auto", Limit: 5}, "fq_codel", tc.Qdisc{Kind: "fq_codel", Limit: 5}},
		{config.Leaf{Kind: "pfifo"}, "fq_codel", tc.Qdisc{Kind: "pfifo", Limit: 845}},
		{config.Leaf{Kind: "bfifo"}, "pfifo", tc.Qdisc{Kind: "bfifo", Limit: 845 * 1514}},
		{config.Leaf{Kind: "bfifo", Limit: 3000}, "pfifo", tc.Qdisc{Kind: "bfifo", Limit: 3000}},
		{config.Leaf{Kind: "cake"}, "pfifo", tc.Qdisc{Kind: "cake"}},
	} {
		in := incident()
		in.classes[2].Leaf, in.facts.AutoLeaf = test.leaf, test.auto
		p, err := in.build()
		if err != nil {
			t.Fatal(err)
		}
		test.want.Handle, test.want.Parent = tc.LeafHandle(0x100), tc.MakeHandle(1, 0x100)
		if got := *p.Default().Leaf; got != test.want {
			t.Errorf("%+v with auto %q: %+v, want %+v", test.leaf, test.auto, got, test.want)
		}
	}
}

func TestBuildRefuses(t *testing.T) {
	for want, change := range map[string]func(*input){
		`layout "tree" is neither list nor hash`:                    func(in *input) { in.config.Layout = "tree" },
		`the MTU of interface "eth1" is not known`:                  func(in *input) { in.facts.Link.MTU = 0 },
		`default class "nosuch" does not exist`:                     func(in *input) { in.config.DefaultClass = "nosuch" },
		`or has classes below it`:                                   func(in *input) { in.classes[0].Parent = "default" },
		`class "nosuch" is a parent and does not exist`:             func(in *input) { in.classes[0].Parent = "nosuch" },
		`class "same-cabinet": its parents form a circle`:           func(in *input) { in.classes[0].Parent, in.classes[1].Parent = "cross-cabinet", "same-cabinet" },
		`class "cross-cabinet": id b000 is reserved`:                func(in *input) { in.classes[1].ID = 0xb000 },
		`classes "same-cabinet" and "cross-cabinet" have one id 10`: func(in *input) { in.classes[1].ID = 0x10 },
		`class "control": the name is taken`:                        func(in *input) { in.classes[1].Name = "control" },
		`class "same-cabinet": the name is taken`:                   func(in *input) { in.classes[1].Name = "same-cabinet" },
		`class "cross-cabinet": rate 7bit`:                          func(in *input) { in.classes[1].Rate = 7 },
		`ceil 1mbit`:                                                func(in *input) { in.classes[1].Ceil = 1e6 },
		`prio 8 are not possible`:                                   func(in *input) { in.classes[1].Prio = 8 },
		`leaf kind "netem" is none of auto, pfifo`:                  func(in *input) { in.classes[1].Leaf.Kind = "netem" },
		`destination 10.241.29.7/32 (hadoop40): class "x" is not`:   func(in *input) { in.destinations[3].Class = "x" },
		`class "control" is not a leaf class of the config`:         func(in *input) { in.destinations[3].Class = "control" },
		`destination 10.241.28.14/32: it occurs twice`:              func(in *input) { in.destinations[3].Prefix = in.destinations[2].Prefix },
		`10.1.2.3/8 (hadoop40): it is not a plain prefix`:           func(in *input) { in.destinations[3].Prefix = netip.MustParsePrefix("10.1.2.3/8") },
	} {
		in := incident()
		change(&in)
		if _, err := in.build(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
	inner := tree()
	inner.destinations[0].Class = "bulk"
	if _, err := inner.build(); err == nil || !strings.Contains(err.Error(), `class "bulk" is not a leaf class`) {
		t.Errorf("a destination of an inner class: %v", err)
	}
	deep := incident()
	for i := range 9 {
		c := policy.Class{Name: fmt.Sprint(i), ID: uint16(0x300 + i), Rate: 8, Ceil: 8}
		if i > 0 {
			c.Parent = fmt.Sprint(i - 1)
		}
		deep.classes = append(deep.classes, c)
	}
	if _, err := deep.build(); err == nil || !strings.Contains(err.Error(), "more than 8 classes below each other") {
		t.Errorf("nine levels: %v", err)
	}
}

func TestListLimit(t *testing.T) {
	in := incident()
	in.destinations = nil
	for i := range plan.MaxNodes + 1 {
		a := [4]byte{10, 1, byte(i >> 8), byte(i)}
		in.destinations = append(in.destinations, policy.Destination{Prefix: netip.PrefixFrom(netip.AddrFrom4(a), 32), Class: "default"})
		v6 := netip.AddrFrom16([16]byte{0x20, 1, 4: byte(i >> 8), 5: byte(i)})
		in.destinations = append(in.destinations, policy.Destination{Prefix: netip.PrefixFrom(v6, 48), Class: "default"})
	}
	_, err := in.build()
	var list *plan.ListError
	if !errors.As(err, &list) || list.Count != 4001 || list.Bits != 32 || list.Pref != 12000 {
		t.Errorf("%v", err)
	}
	for _, want := range []string{"ip /32 filters (pref 12000): 4001 are needed and a list holds 4000", "ipv6 /48 filters (pref 13080)", "layout: hash"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	in.destinations = in.destinations[:2*plan.MaxNodes]
	p, err := in.build()
	if err != nil {
		t.Fatal(err)
	}
	node := uint32(0)
	for _, op := range install(t, p) {
		if f, ok := op.Object.(tc.Filter); ok {
			node = max(node, f.Handle.Node())
		}
	}
	if node != 0xfa0 {
		t.Errorf("the highest node is %x", node)
	}
}

func TestOwnPref(t *testing.T) {
	var ours int
	for pref := range 1 << 16 {
		protocol, own := plan.OwnPref(uint16(pref))
		if own {
			ours++
		}
		if own != (protocol != 0) {
			t.Errorf("pref %d: %v, %s", pref, own, protocol)
		}
	}
	if ours != 2+2+2+33+129+2*(1+1+2+33+129) { // without a tag, and with each of two
		t.Errorf("%d prefs are ours", ours)
	}
	for prefix, want := range map[string]uint16{"10.0.0.1/32": 12000, "0.0.0.0/0": 12032, "2001:db8::1/128": 13000, "::/0": 13128} {
		if got := plan.DestinationPref(netip.MustParsePrefix(prefix)); got != want {
			t.Errorf("%s: pref %d, want %d", prefix, got, want)
		}
		if got, want := plan.HashPref(netip.MustParsePrefix(prefix)), uint16(11100+b2u(want >= 13000)*100); got != want {
			t.Errorf("%s: pref %d in layout hash, want %d", prefix, got, want)
		}
	}
}

func b2u(b bool) uint16 {
	if b {
		return 1
	}
	return 0
}
