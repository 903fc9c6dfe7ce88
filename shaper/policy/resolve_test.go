package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bulkshaper/inventory"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/tc"
)

const shareOne = "default_class: a\nrules: []\nclasses:\n  a: {id: 10, rate: "

func TestResolve(t *testing.T) {
	inv := cluster(`
n1 b1@x hadoop_node         10.0.0.1
n2 b1@x hadoop_node,monitoring 10.0.0.2
n3 b1@x hadoop_node         10.0.0.3
n4 b2@x hadoop_node         10.0.0.4
n5 b1@y hadoop_node         10.0.0.5
n6 -    hadoop_node         10.0.0.6
a1 b1@x app                 10.0.0.7`, "spare")
	share := func(rest string) string { return shareOne + "{of: 10gbit, use: 80%, " + rest + "}}\n" }
	for _, c := range []struct {
		name, text, node string
		link             tc.BitRate
		want             string
	}{
		{"packaged on 1gbit", "", "n1", 1e9, "10 800mbit/800mbit, 20 200mbit/200mbit, 30 200mbit/200mbit, 100 200mbit/200mbit"},
		{"link_rate wins", "link_rate: 100mbit\n", "n1", 1e9, "10 80mbit/80mbit, 20 20mbit/20mbit, 30 20mbit/20mbit, 100 20mbit/20mbit"},
		{"unknown speed", "", "n1", 0,
			"c.yaml: eth1 does not tell its speed, and rates are in percent of it: rate 80% of class same-cabinet, rate 20% of class cross-cabinet, " +
				"rate 20% of class priority-role, rate 20% of class default; set link_rate or --link-rate, for example 10gbit"},
		{"unknown speed, fixed rates", shareOne + "1mbit, ceil: 2mbit}\n", "n1", 0, "10 1mbit/2mbit"},
		{"unknown speed, ceil", shareOne + "1mbit, ceil: 50%}\n", "n1", 0,
			"c.yaml: eth1 does not tell its speed, and rates are in percent of it: ceil 50% of class a; set link_rate or --link-rate, for example 10gbit"},
		{"cut to bytes", shareOne + "33.333333333%}\n", "n1", 1e6, "10 333328bit/333328bit"},
		{"nothing left", shareOne + "1%}\n", "n1", 100, "c.yaml:5:3: class a: rate 1% comes to less than 8bit; raise it, or link_rate"},
		{"mixed over ceil", shareOne + "80%, ceil: 100mbit}\n", "n1", 1e9, "c.yaml:5:3: class a: rate 80% (800mbit) is over its ceil 100mbit; lower the rate or raise the ceil"},
		{"mixed under ceil", shareOne + "80%, ceil: 100mbit}\n", "n1", 100e6, "10 80mbit/100mbit"},
		{"children over parent", "default_class: b\nrules: []\nclasses:\n  a: {id: 1, rate: 100mbit}\n  b: {id: 2, rate: 60%, parent: a}\n  c: {id: 3, rate: 60mbit, parent: a}\n", "n1", 1e8,
			"c.yaml:5:3: class a: the rates of its children (2) come to 120mbit, over its ceil 100mbit; lower theirs or raise its ceil"},

		{"share of a cabinet", share("among: {role: hadoop_node, cabinet: same}"), "n1", 0, "10 2666666664bit/2666666664bit"},
		{"share of all", share("among: {role: hadoop_node}"), "n1", 0, "10 1333333328bit/1333333328bit"},
		{"share of others", share("among: {role: hadoop_node, cabinet: other}"), "n1", 0, "10 2gbit/2gbit\n" +
			"c.yaml:5:3: class a: rate: this node, n1, does not match among {role: hadoop_node, cabinet: other}, so the others do not count it"},
		{"share of a named cabinet", share("among: {cabinet: b2}"), "n4", 0, "10 8gbit/8gbit"},
		{"share by names", share("among: {server: ['n[12]', n3]}"), "n1", 0, "10 2666666664bit/2666666664bit"},
		{"not in among", share("among: {role: hadoop_node, cabinet: same}"), "a1", 0, "10 2gbit/2gbit\n" +
			"c.yaml:5:3: class a: rate: this node, a1, does not match among {role: hadoop_node, cabinet: same}, so the others do not count it"},
		{"max", share("among: {cabinet: same}, max: 1gbit"), "n1", 0, "10 1gbit/1gbit"},
		{"min", share("among: {cabinet: same}, min: 3gbit"), "n1", 0, "10 3gbit/3gbit\n" +
			"c.yaml:5:3: class a: rate: min 3gbit for each of 4 servers is 12gbit together, over the 8gbit that they share; lower min, or give more"},
		{"min without effect", share("among: {cabinet: same}, min: 1gbit"), "n1", 0, "10 2gbit/2gbit"},
		{"min just what it is", share("among: {cabinet: same}, min: 2gbit"), "n1", 0, "10 2gbit/2gbit"},
		{"share as ceil", shareOne + "1mbit, ceil: {of: 10gbit, use: 80%, among: {cabinet: same}}}\n", "n1", 0, "10 1mbit/2gbit"},
		{"share over ceil", shareOne + "{of: 10gbit, use: 80%, among: {cabinet: same}}, ceil: 1gbit}\n", "n1", 0,
			"c.yaml:5:3: class a: rate {of: 10gbit, use: 80%, among: {cabinet: same}} (2gbit) is over its ceil 1gbit; lower the rate or raise the ceil"},
		{"share too small", shareOne + "{of: 16bit, use: 50%, among: {cabinet: same}}}\n", "n1", 0, "c.yaml:5:3: class a: rate: the share of each of 4 servers comes to less than 8bit; give more, or set min"},
		{"unknown cabinet", share("among: {role: hadoop_node, cabinet: same}"), "n6", 0,
			"c.yaml:5:3: class a: rate: the share counts by cabinet, and that of this node, n6, is unknown; add it to n6.json"},
		{"unknown cabinet, other", share("among: {role: hadoop_node, cabinet: other}"), "n6", 0,
			"c.yaml:5:3: class a: rate: the share counts by cabinet, and that of this node, n6, is unknown; add it to n6.json"},
		{"unknown datacenter", share("among: {role: hadoop_node, datacenter: same}"), "n6", 0,
			"c.yaml:5:3: class a: rate: the share counts by datacenter, and that of this node, n6, is unknown; add it to n6.json"},
		{"unknown cabinet does not matter", share("among: {role: hadoop_node}"), "n6", 0, "10 1333333328bit/1333333328bit"},
		{"unknown role", share("among: {role: hadop_node}"), "n1", 0,
			`c.yaml:5:3: class a: rate: among: the inventory declares no role "hadop_node"; did you mean hadoop_node?`},
		{"one unknown role", share("among: {role: [hadoop_node, spaer], cabinet: same}"), "n1", 0, "10 2666666664bit/2666666664bit\n" +
			`c.yaml:5:3: class a: rate: among: the inventory declares no role "spaer"; did you mean spare?`},
		{"role of nobody", share("among: {role: spare}"), "n1", 0, "10 8gbit/8gbit\n" +
			"c.yaml:5:3: class a: rate: this node, n1, does not match among {role: spare}, so the others do not count it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			classes, warnings, err := Resolve(parse(t, c.text), inv, find(t, inv, c.node), c.link)
			var lines []string
			if err != nil {
				lines = append(lines, err.Error())
				if classes != nil {
					t.Error("classes beside an error")
				}
			}
			var list []string
			for _, class := range classes {
				list = append(list, fmt.Sprintf("%x %s/%s", class.ID, class.Rate, class.Ceil))
			}
			if list != nil {
				lines = append(lines, strings.Join(list, ", "))
			}
			if len(warnings) > 0 {
				lines = append(lines, printed(warnings))
			}
			if got := strings.Join(lines, "\n"); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestResolveKeepsTheRest(t *testing.T) {
	cfg := parse(t, `
default_class: b
rules: []
classes:
  a: {id: 1, rate: 100mbit, ceil: 1gbit}
  b: {id: 2, rate: 10mbit, parent: a, prio: 3, burst: 1600b, cburst: 2kb, quantum: 1500, leaf: {kind: pfifo, limit: 7}}
`)
	inv := cluster("n1 a r 10.0.0.1")
	classes, _, err := Resolve(cfg, inv, inv.Servers[0], 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []Class{
		{Name: "a", ID: 1, Inner: true, Rate: 100e6, Ceil: 1e9, Leaf: config.Leaf{Kind: config.LeafAuto}},
		{Name: "b", ID: 2, Parent: "a", Prio: 3, Rate: 10e6, Ceil: 10e6, Burst: 1600, Cburst: 2048, Quantum: 1500, Leaf: config.Leaf{Kind: "pfifo", Limit: 7}},
	}
	if !slices.Equal(classes, want) {
		t.Errorf("%+v", classes)
	}
}

// TestSharesStayWithinUse resolves a share on every node that matches it: whatever the inventory, together they stay within
// use of the whole unless a warning says otherwise, and none is under min or over max.
func TestSharesStayWithinUse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var servers []*inventory.Server
		for i := range rapid.IntRange(1, 40).Draw(t, "servers") {
			s := &inventory.Server{Name: fmt.Sprintf("s%d", i), Cabinet: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "cabinet"),
				Datacenter: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "datacenter")}
			if rapid.Bool().Draw(t, "bulk") {
				s.Roles = []string{"bulk"}
			}
			servers = append(servers, s)
		}
		inv := inventory.New(servers, []string{"bulk"})
		share := &config.Share{Of: tc.BitRate(rapid.Uint64Range(8e6, 400e9).Draw(t, "of")),
			Use:   float64(rapid.IntRange(1, 1000).Draw(t, "use")) / 1000,
			Among: config.Match{Role: []string{"bulk"}, Cabinet: []string{config.Same}}}
		if rapid.Bool().Draw(t, "has min") {
			share.Min = tc.BitRate(rapid.Uint64Range(8, 1e9).Draw(t, "min"))
		}
		if rapid.Bool().Draw(t, "has max") {
			share.Max = share.Min + tc.BitRate(rapid.Uint64Range(8, 10e9).Draw(t, "max"))
		}
		cfg := &config.Config{Classes: []config.Class{{Name: "a", ID: 1, Rate: config.Rate{Share: share}}}, DefaultClass: "a"}
		total, members, warned := map[string]tc.BitRate{}, map[string]tc.BitRate{}, false
		for _, s := range inv.Servers {
			if !s.HasRole("bulk") {
				continue
			}
			classes, warnings, err := Resolve(cfg, inv, s, 0)
			if err != nil {
				t.Fatal(err)
			}
			r := classes[0].Rate
			if r != r.WholeBytes() || r < share.Min.WholeBytes() || share.Max != 0 && r > share.Max {
				t.Fatalf("%d is not between %d and %d, in whole bytes", r, share.Min, share.Max)
			}
			cabinet := s.Datacenter + "/" + s.Cabinet
			total[cabinet] += r
			members[cabinet]++
			warned = warned || len(warnings) > 0
		}
		exceeded := false
		for cabinet, sum := range total {
			whole := share.Each(1)
			exceeded = exceeded || sum > whole
			// Cutting loses at most a byte a node, and a min or a max is the only other reason to leave something.
			if share.Max == 0 && sum+8*members[cabinet]+8 < whole {
				t.Fatalf("cabinet %s: %d of %d", cabinet, sum, whole)
			}
		}
		if exceeded != warned {
			t.Fatalf("exceeded %t, warned %t", exceeded, warned)
		}
	})
}
