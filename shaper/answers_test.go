package shaper

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bulkshaper/shaper/config"
)

func TestFind(t *testing.T) {
	if _, ok := (&Loop{}).Find("x"); ok {
		t.Error("an answer before there is a plan")
	}
	run(t, nil, func(b *bench) {
		for asked, want := range map[string]struct {
			answers []string
			matches int
		}{
			"hadoop03":       {[]string{"10.0.0.3 hadoop03 same-cabinet same-cabinet 1:10 0"}, 1},
			" HADOOP02 ":     {[]string{"10.0.0.2 hadoop02 cross-cabinet cross-cabinet 1:20 2"}, 1},
			"10.0.0.2":       {[]string{"10.0.0.2 hadoop02 cross-cabinet cross-cabinet 1:20 2"}, 1},
			"10.0.0.2/24":    {[]string{"10.0.0.2 hadoop02 cross-cabinet cross-cabinet 1:20 2"}, 0},
			"203.0.113.9":    {[]string{"203.0.113.9   default 1:100 3"}, 0},
			"::ffff:0a00:02": {[]string{"10.0.0.2 hadoop02 cross-cabinet cross-cabinet 1:20 2"}, 0},
			"hadoop01":       {[]string{"10.0.0.1 hadoop01 own"}, 0},
			"adoop":          {nil, 5},
			"cross-cabinet":  {nil, 3},
			"nobody":         {nil, 0},
			"":               {nil, 0},
			"10.0":           {nil, 5},
		} {
			f, ok := b.Find(asked)
			var answers []string
			for _, a := range f.Answers {
				text := fmt.Sprintf("%s %s %s %s %s %d", a.Address, a.Server, a.Rule, a.Class, a.ClassID, len(a.Tried))
				if a.Own {
					text = a.Address + " " + a.Server + " own"
				}
				answers = append(answers, text)
			}
			if !ok || cmp.Diff(want.answers, answers) != "" || len(f.Matches) != want.matches || f.MatchesTotal != want.matches {
				t.Errorf("%q: %v, %d matches %v", asked, answers, f.MatchesTotal, f.Matches)
			}
		}
		f, _ := b.Find("hadoop02")
		if tried := f.Answers[0].Tried; len(tried) != 2 || tried[0].Rule != "same-cabinet" || !strings.Contains(tried[0].Reason, "cabinet") {
			t.Errorf("tried %v", tried)
		}
	})
}

func TestRulesInWords(t *testing.T) {
	run(t, nil, func(b *bench) {
		var lines []string
		for _, r := range b.Rules() {
			lines = append(lines, r.Matches+" -> "+r.Class)
		}
		want := []string{"address resolution and neighbour discovery -> control", "servers in this node's cabinet (b1) -> same-cabinet",
			"servers with role hadoop_namenode or hadoop_jobtracker or monitoring -> priority-role", "servers with role hadoop_node -> cross-cabinet", "everything else -> default"}
		if d := cmp.Diff(want, lines); d != "" {
			t.Error(d)
		}
		node := b.known.Load().desired.Node
		for want, m := range map[string]config.Match{
			"everything":                           {},
			"addresses in 10.0.0.0/8 or 192.0.2.1": {Address: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.1/32")}},
			"servers with role app, in another cabinet or cabinet b7, in this node's datacenter (unknown), named db* or x, at an address in 10.0.0.0/8": {
				Role: []string{"app"}, Cabinet: []string{"other", "b7"}, Datacenter: []string{"same"}, Server: []string{"db*", "x"}, Address: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		} {
			if got := matchWords(m, node); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
	})
}
