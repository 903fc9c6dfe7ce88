package monitortest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// known are the metrics with their labels: the daemon's, as metrics' golden has them and those that main adds, what Prometheus itself
// makes of a target, and what client_golang tells of a process.
func known(t *testing.T) map[string][]string {
	t.Helper()
	labels := map[string][]string{
		"bulkshaper_build_info":         {"version", "revision", "goversion"},
		"bulkshaper_kernel_dumps_total": {"object"},
		"up":                            nil, "scrape_duration_seconds": nil, "ALERTS": {"alertname", "alertstate", "severity"},
		"process_start_time_seconds": nil, "process_cpu_seconds_total": nil, "process_resident_memory_bytes": nil, "go_goroutines": nil,
	}
	for _, line := range strings.Split(string(read(t, metricsFile)), "\n") {
		series := regexp.MustCompile(`^(bulkshaper_\w+)(?:\{(.*)\})? `).FindStringSubmatch(line)
		if series == nil {
			continue
		}
		var names []string
		for _, label := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(series[2], -1) {
			names = append(names, label[1])
		}
		labels[series[1]] = names
	}
	if len(labels) < 30 {
		t.Fatalf("the golden has few metrics: %q", slices.Sorted(maps.Keys(labels)))
	}
	return labels
}

// asked are all queries of rules and dashboard.
func asked(t *testing.T) (all []query) {
	for _, r := range rules(t) {
		all = append(all, query{"alert " + r.Alert, r.Expr})
	}
	d := loadDashboard(t)
	for _, v := range d.Templating.List[1:] {
		selector, label := v.values(t)
		all = append(all, query{"variable " + v.Name, fmt.Sprintf("count by (%s) (%s)", label, selector)})
	}
	return append(all, d.queries()...)
}

// selectors are the metrics of a query with what stands in their braces. Words of the language, labels and quoted text are none.
func selectors(expr string) (found [][2]string) {
	bare := regexp.MustCompile(`\s*\b(?:by|on|without|group_left|group_right|ignoring) \([^)]*\)`).ReplaceAllString(expr, "")
	for _, m := range regexp.MustCompile(`([A-Za-z_]\w*)(\{[^}]*\})?([( ]*)`).FindAllStringSubmatch(withoutText(bare), -1) {
		name, braces, behind := m[1], m[2], m[3]
		if braces == "" && (strings.HasPrefix(behind, "(") || strings.HasPrefix(behind, " (") || slices.Contains([]string{"and", "or", "unless", "by", "m", "h", "s"}, name)) {
			continue
		}
		found = append(found, [2]string{name, braces})
	}
	return found
}

// withoutText empties quoted text and ranges.
func withoutText(expr string) string {
	expr = regexp.MustCompile(`"[^"]*"`).ReplaceAllString(expr, `""`)
	return regexp.MustCompile(`\[[^\]]*\]`).ReplaceAllString(expr, "")
}

// TestQueriesKnowTheMetrics: a metric or label that the daemon does not have gives an alert that never fires and a panel that stays empty,
// without any error.
func TestQueriesKnowTheMetrics(t *testing.T) {
	metrics := known(t)
	target := []string{"job", "instance", "cluster"} // of every series
	used := map[string]bool{}
	for _, q := range asked(t) {
		found := selectors(q.expr)
		if len(found) == 0 {
			t.Errorf("%s asks for no metric: %s", q.where, q.expr)
		}
		reachable := slices.Clone(target)
		for _, s := range found {
			labels, ok := metrics[s[0]]
			if !ok {
				t.Errorf("%s: there is no metric %s", q.where, s[0])
			}
			used[s[0]] = true
			reachable = append(reachable, labels...)
			if strings.HasSuffix(s[0], "_bucket") {
				reachable = append(reachable, "le")
			}
			for _, m := range regexp.MustCompile(`(\w+)(?:=~|!~|!=|=)`).FindAllStringSubmatch(s[1], -1) {
				if !slices.Contains(append(labels, append(target, "class")...), m[1]) || m[1] == "class" && s[0] != "ALERTS" && !slices.Contains(labels, "class") {
					t.Errorf("%s: metric %s has no label %s", q.where, s[0], m[1])
				}
			}
		}
		for _, clause := range regexp.MustCompile(`\b(?:by|on|group_left) \(([^)]*)\)`).FindAllStringSubmatch(q.expr, -1) {
			for _, label := range strings.Split(clause[1], ", ") {
				if label != "" && !slices.Contains(reachable, label) {
					t.Errorf("%s: no metric there has a label %s: %s", q.where, label, q.expr)
				}
			}
		}
	}
	for name := range metrics {
		if base := strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count"); !used[name] && !used[base+"_bucket"] {
			t.Errorf("nobody looks at %s", name)
		}
	}
}

// TestRulesAreForPeople: each alert says who should look, what it means and what to do, and has a unit test.
func TestRulesAreForPeople(t *testing.T) {
	tests, table := string(read(t, unitFile)), string(read(t, tableFile))
	names := map[string]bool{}
	for _, r := range rules(t) {
		if names[r.Alert] || !strings.HasPrefix(r.Alert, "Bulkshaper") {
			t.Errorf("alert %q occurs twice, or could be anybody's", r.Alert)
		}
		names[r.Alert] = true
		if s := r.Labels["severity"]; !slices.Contains([]string{"page", "ticket", "note"}, s) || len(r.Labels) != 1 {
			t.Errorf("%s: labels %v", r.Alert, r.Labels)
		}
		if len(r.Annotations["summary"]) < 20 || len(r.Annotations["description"]) < 80 || len(r.Annotations) != 2 {
			t.Errorf("%s says too little: %v", r.Alert, r.Annotations)
		}
		if r.For != "" {
			if _, err := time.ParseDuration(strings.Replace(r.For, "1d", "24h", 1)); err != nil {
				t.Errorf("%s: %v", r.Alert, err)
			}
		}
		if !strings.Contains(table, "\n| "+r.Alert+" | ") {
			t.Errorf("%s is not in the table of %s", r.Alert, tableFile)
		}
		if !strings.Contains(tests, "alertname: "+r.Alert) && !strings.Contains(tests, `alertname="`+r.Alert+`"`) {
			t.Errorf("%s has no unit test in %s", r.Alert, unitFile)
		}
	}
	for _, want := range []string{"Down", "OutOfSync", "ReloadFailing", "InventoryOld", "InventoryDiffers", "Contended", "DropsHigh", "MostTrafficInDefault", "DirectPackets", "OverrideLong"} {
		if !names["Bulkshaper"+want] {
			t.Errorf("there is no alert Bulkshaper%s", want)
		}
	}
}
