package view

import (
	"fmt"
	"strings"
	"testing"

	"bulkshaper/cmd/bulkshaper/screen"
)

// TestExplainFits holds the screens of answers of all kinds, and that none is wider than the terminal.
func TestExplainFits(t *testing.T) {
	t.Parallel()
	shared := &Shared{Servers: 12, Destinations: 14, Roles: map[string]int{"hadoop_node": 12, "monitoring": 1}}
	full := Explanation{Destination: "hadoop14", Address: "10.241.28.14", Server: "hadoop14", Cabinet: "b12", Datacenter: "nyc1", Roles: []string{"hadoop_node"}, Rule: "cross-cabinet", Class: "cross-cabinet",
		ClassID: "1:20", File: "nyc1/jsons/hadoop14.json", Prefix: "10.241.28.14/32", Matches: "role hadoop_node", RulePlace: "config.yaml:23", Rate: 204_800_000, Ceil: 204_800_000, Shared: shared,
		Tried:  []Tried{{"same-cabinet", "cabinet nyc1/b12, not this node's (nyc1/b13)"}},
		Kernel: KernelAnswer{ClassID: "1:20", Class: "cross-cabinet", Filter: "filter ip pref 11100 1:e:1 dst 10.241.28.14/32", Agrees: true, Rate: 204_800_000}}
	slow, wrong, unasked := full, full, full
	slow.Kernel.Rate, slow.Ceil = 50_000_000, 1_000_000_000
	wrong.Kernel = KernelAnswer{ClassID: "1:100", Class: "default", Filter: "no filter, so the default class"}
	unasked.Kernel, unasked.Rate, unasked.RateText = KernelAnswer{Unasked: true, Note: "not permitted"}, 0, "rate 20% of the link, whose speed is not known here"
	nobody := Explanation{Destination: "8.8.8.8", Address: "8.8.8.8", Class: "default", ClassID: "1:100", Shared: &Shared{Rest: true}, Kernel: KernelAnswer{Note: "eth1 is not shaped by us: its root qdisc is htb 42:"}}
	own := Explanation{Destination: "hadoop27", Address: "10.241.29.27", Server: "hadoop27", Own: true, Kernel: KernelAnswer{Agrees: true, Note: "packets to this node itself do not leave by the interface"}}

	members := Members{Class: "cross-cabinet", ClassID: "1:20", Rate: 204_800_000, Ceil: 204_800_000, Standing: 50_000_000, Shared: *shared, Rules: map[string]int{"cross-cabinet": 10_000},
		Checked: Checked{Asked: 10_000, Disagree: []Disagree{{Address: "10.0.0.1", Server: "s1", Wanted: "cross-cabinet 1:20", Kernel: "default 1:100"}}}}
	members.Shared.Cabinets = map[string]int{}
	between := Between{Prefix: "10.0.0.0/8", Checked: Checked{Note: "--no-kernel was given"}}
	for i := range 10_000 {
		a := fmt.Sprintf("10.0.%d.%d", i>>8, i&255)
		members.Destinations = append(members.Destinations, Member{a + "/32", strings.Repeat("server-of-a-long-name-", 2) + fmt.Sprint(i), "b12", []string{"hadoop_node", "yarn_node"}, "cross-cabinet"})
		members.Shared.Cabinets[fmt.Sprintf("b%d", i%40)]++
		between.Ranges = append(between.Ranges, Range{First: a, Last: a, Class: []string{"default", "cross-cabinet"}[i%2], ClassID: "1:20", Own: i == 3, Servers: []string{"s1", "s2", "s3", "s4"}[:i%5]})
	}
	for _, width := range []int{80, 200} {
		st := screen.Style{Width: width, Unicode: true}
		for name, lines := range map[string][]string{
			"explain":         ExplainLines(st, []Explanation{full, slow, wrong, unasked, nobody, own}),
			"explain-class":   MemberLines(st, members, false),
			"explain-between": BetweenLines(st, between, false),
		} {
			for _, line := range lines {
				if got := screen.Cells(line); got > width {
					t.Errorf("%s at %d: a line of %d: %s", name, width, got, line)
				}
			}
			golden(t, fmt.Sprintf("%s-%d.txt", name, width), strings.Join(lines, "\n")+"\n")
		}
		for name, lines := range map[string][]string{"class": MemberLines(st, members, true), "between": BetweenLines(st, between, true)} {
			if len(lines) < 10_000 {
				t.Errorf("--all of %s has %d lines", name, len(lines))
			}
		}
	}
}
