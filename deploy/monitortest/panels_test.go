//go:build system

package monitortest

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// chosen puts values of variables into a query, as Grafana does.
func chosen(expr string, choice map[string]string) string {
	return regexp.MustCompile(`\$\w+`).ReplaceAllStringFunc(expr, func(word string) string {
		if value, ok := choice[word[1:]]; ok {
			return value
		}
		return word
	})
}

// choice is what a person chose, all of the rest; names are as Grafana writes several: (a|b).
func choice(names map[string]string) map[string]string {
	all := map[string]string{"cluster": ".*", "datacenter": ".*", "cabinet": ".*", "node": ".*", "class": ".*", "__rate_interval": "20s"}
	maps.Copy(all, names)
	return all
}

// panelsOf asks every query of the dashboard and gives the answers by the name of the panel and query.
func panelsOf(t *testing.T, p *scraper, names map[string]string) map[string][]sample {
	t.Helper()
	answers := map[string][]sample{}
	d := loadDashboard(t)
	for _, q := range d.queries() {
		samples, err := p.ask(chosen(q.expr, choice(names)))
		if err != nil {
			t.Errorf("%s: %v", q.where, err)
		}
		for _, s := range samples {
			if math.IsInf(s.value(t), 0) || math.IsNaN(s.value(t)) && !strings.Contains(q.expr, "histogram_quantile") {
				t.Errorf("%s shows %v for %v", q.where, s.At[1], s.Labels)
			}
			for label, value := range names {
				if got, ok := s.Labels[label]; ok && !regexp.MustCompile("^(?:"+value+")$").MatchString(got) {
					t.Errorf("%s with %s=%s shows %v", q.where, label, value, s.Labels)
				}
			}
		}
		answers[q.where] = samples
	}
	for _, pan := range d.all() {
		if pan.FieldConfig.Defaults.Unit != "percentunit" {
			continue
		}
		for where, samples := range answers {
			for _, s := range samples {
				if strings.HasPrefix(where, pan.Title+" ") && (s.value(t) < 0 || s.value(t) > 1.2) { // a scrape that came late makes a second of more than a second
					t.Errorf("%s shows %v of a whole for %v", where, s.At[1], s.Labels)
				}
			}
		}
	}
	return answers
}

func empty(answers map[string][]sample) (names []string) {
	for where, samples := range answers {
		if len(samples) == 0 {
			names = append(names, where)
		}
	}
	return slices.Sorted(slices.Values(names))
}

// countless adds to the queries without an answer what a kernel that does not count the hits of filters leaves empty, of which the scrapes are
// the witness. (TestRuleMatches of shaper/kernel/qemutest is about kernels that do.)
func countless(t *testing.T, p *scraper, names []string) []string {
	t.Helper()
	samples, err := p.ask(`bulkshaper_rule_matched_packets_total{rule="ack_class"}`)
	if err != nil {
		t.Error(err)
	}
	if len(samples) == 0 {
		names = append(names, "Packets, by rule A")
	}
	return slices.Sorted(slices.Values(names))
}

// value is that of the one series of a panel's answer that has the labels.
func value(t *testing.T, answers map[string][]sample, where string, labels map[string]string) float64 {
	t.Helper()
	var found []float64
	for _, s := range answers[where] {
		fits := true
		for name, v := range labels {
			fits = fits && s.Labels[name] == v
		}
		if fits {
			found = append(found, s.value(t))
		}
	}
	if len(found) != 1 {
		t.Errorf("%s has %v for %v, not one value: %v", where, found, labels, answers[where])
		return math.NaN()
	}
	return found[0]
}

// checkWell looks at the dashboard of a cluster that is well: only what tells of trouble is empty.
func checkWell(t *testing.T, p *scraper) {
	t.Helper()
	answers := panelsOf(t, p, nil)
	want := []string{"Alerts A", "Operations on the kernel A", "Overrides A", "Overrides B", "Restarts A", "Scrapes B", "annotation Overrides", "annotation Root set up again"}
	if got := empty(answers); !slices.Equal(got, countless(t, p, want)) {
		t.Errorf("empty are %q, want %q", got, want)
	}
	for where, want := range map[string]float64{"Nodes that answer A": 5, "Nodes that do not A": 0, "Out of sync A": 0, "Interface away A": 0, "Files refused A": 0,
		"Contended A": 0, "Overridden classes A": 0, "Inventories A": 1} {
		if got := value(t, answers, where, nil); got != want {
			t.Errorf("%s: %v, want %v", where, got, want)
		}
	}
	if got := len(answers["Nodes A"]); got != 5 {
		t.Errorf("the table of nodes has %d lines", got)
	}
	// 40 packets of 1042 bytes a second within the cabinet, 20 beyond.
	for class, want := range map[string]float64{"same-cabinet": 40 * 1042 * 8, "cross-cabinet": 20 * 1042 * 8} {
		if got := value(t, answers, "Sent, by cabinet and class A", map[string]string{"cabinet": "b13", "class": class}); !(got > want/2 && got < want*1.5) {
			t.Errorf("cabinet b13 sends %.0f bit/s in class %s, want about %.0f", got, class, want)
		}
	}
	d := loadDashboard(t)
	values := map[string][]string{
		"cluster": {"lab"}, "datacenter": {"nyc1"}, "cabinet": {"b12", "b13"}, "node": {"hadoop01", "hadoop02", "hadoop03", "hadoop04", "hadoop05"},
		"class": {"acks", "control", "cross-cabinet", "priority-role", "rest", "same-cabinet"},
	}
	for _, v := range d.Templating.List[1:] {
		selector, label := v.values(t)
		var got []string
		if err := p.get("label/"+label+"/values", url.Values{"match[]": {chosen(selector, choice(nil))}}, &got); err != nil || !slices.Equal(got, values[v.Name]) {
			t.Errorf("variable %s may be %q, %v; want %q", v.Name, got, err, values[v.Name])
		}
	}
	// One cabinet, as Grafana writes a choice of one, and of several nodes of it.
	answers = panelsOf(t, p, map[string]string{"cluster": "lab", "cabinet": "b12", "node": "(hadoop01|hadoop02)"})
	if got := len(answers["Nodes A"]); got != 2 {
		t.Errorf("two nodes are chosen, and the table has %d", got)
	}
	if answers = panelsOf(t, p, map[string]string{"cluster": "elsewhere"}); len(answers["Sent, by class A"]) != 0 {
		t.Error("a cluster that is not there sends")
	}
}

// checkTroubled looks at the dashboard while all is wrong: each panel that tells of trouble shows it where it is. A node that is down has no
// place in the inventory any more, so that its restarts are seen before.
func checkTroubled(t *testing.T, p *scraper) {
	t.Helper()
	eventually(t, "the dashboard in trouble", func() error {
		answers := panelsOf(t, p, nil)
		if got := empty(answers); !slices.Equal(got, countless(t, p, []string{"Restarts A", "Scrapes B"})) {
			return fmt.Errorf("empty are %q", got)
		}
		for where, want := range map[string]float64{"Nodes that answer A": 4, "Nodes that do not A": 1, "Files refused A": 1, "Contended A": 1, "Overridden classes A": 1, "Inventories A": 2} {
			if got := value(t, answers, where, nil); got != want {
				return fmt.Errorf("%s: %v, want %v", where, got, want)
			}
		}
		if all, well := value(t, answers, "Nodes in sync, by cluster B", nil), value(t, answers, "Nodes in sync, by cluster A", nil); all != 4 || well < 3 {
			return fmt.Errorf("%v of %v nodes are in sync", well, all)
		}
		if got := value(t, answers, "In the default class A", map[string]string{"node": "hadoop02"}); !(got > 0.5) {
			return fmt.Errorf("%v of what hadoop02 sends is in the default class", got)
		}
		if got := value(t, answers, "Fullest A", map[string]string{"node": "hadoop03", "class": "cross-cabinet"}); !(got > 0.8) {
			return fmt.Errorf("the class that is overrun is full to %v", got)
		}
		if got := value(t, answers, "Past all classes, by node A", map[string]string{"node": "hadoop03"}); !(got > 20) {
			return fmt.Errorf("%v packets a second past all classes", got)
		}
		if got := value(t, answers, "Overrides B", map[string]string{"node": "hadoop02"}); got != 2e6 {
			return fmt.Errorf("the override is to %v", got)
		}
		if got := value(t, answers, "Overrides A", map[string]string{"node": "hadoop02"}); !(got > 20*60 && got <= 30*60) {
			return fmt.Errorf("the override ends in %v s", got)
		}
		return nil
	})
}
