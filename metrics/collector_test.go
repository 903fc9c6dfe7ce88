package metrics

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"bulkshaper/shaper"
	"bulkshaper/shaper/tc"
)

// TestGolden holds the whole text of /metrics, names, labels, help and all. promtool's lints find nothing in it but the two
// names that the contract fixes: rates of links are in bits everywhere else, in tc too, and people compare them.
func TestGolden(t *testing.T) {
	reg := prometheus.NewRegistry()
	source := incident()
	r := NewRecorder(reg)
	reg.MustRegister(NewCollector(source))
	r.Reload(shaper.ReloadSuccess, time.Now())
	r.Operation(tc.Op{Verb: tc.Change, Object: tc.Class{}}, nil)
	r.Operation(tc.Op{Verb: tc.Add, Object: tc.Filter{}}, errors.New("file exists"))
	r.Operation(tc.Op{Verb: tc.Delete, Object: tc.Filter{}}, fmt.Errorf("delete filter: %w", tc.ErrNotTried))
	r.Applied(3 * time.Millisecond)
	r.DriftRepaired("filter")
	r.Rebuilt()
	source.set(func(f *fakeSource) {
		// One class is inner, one is planned and not in the kernel, one is in the kernel and not planned.
		f.snap.Classes[0].Leaf = false
		planned := tc.Class{ID: classID(0x30), Parent: tc.Root, Rate: 8_000_000_000, Ceil: 400_000_000_000}
		f.snap.Classes = append(f.snap.Classes, shaper.ClassInfo{Name: "priority-role", Class: planned, Leaf: true, Destinations: 1})
		f.stats.Classes = append(f.stats.Classes, tc.ClassStats{Class: tc.Class{ID: classID(0x999)}, SentBytes: 1})
	})

	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, p := range problems {
		found = append(found, p.Metric+": "+p.Text)
	}
	slices.Sort(found)
	if diff := cmp.Diff([]string{
		`bulkshaper_class_ceil_bits_per_second: use base unit "bytes" instead of "bits"`,
		`bulkshaper_class_rate_bits_per_second: use base unit "bytes" instead of "bits"`,
	}, found); diff != "" {
		t.Errorf("lint (-want +got):\n%s", diff)
	}
	answer := httptest.NewRecorder()
	newScrapeHandler(reg, zap.NewNop()).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	golden(t, "metrics.golden", answer.Body.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (run with -update if this is meant, -want +got):\n%s", path, diff)
	}
}

// TestContract has the names that other people's dashboards rest on, apart from the golden, which is easily written anew.
func TestContract(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "metrics.golden"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for _, want := range []string{
		"class_sent_bytes_total{", "class_sent_packets_total{", "class_dropped_packets_total{", "class_overlimits_total{",
		"class_requeues_total{", "class_borrowed_packets_total{", "class_lent_packets_total{", "class_backlog_bytes{",
		"class_backlog_packets{", "class_rate_bits_per_second{", "class_ceil_bits_per_second{", "class_destinations{",
		"direct_packets_total ", `rule_matched_packets_total{rule="same-cabinet"} `, `rule_matched_packets_total{rule="default"} `, "in_sync ", "interface_up ", "contended ", `drift_repairs_total{object="qdisc"}`,
		`operations_total{object="class",result="success",verb="change"}`, "apply_duration_seconds_bucket{", "rebuilds_total ",
		`inventory_reloads_total{result="success"}`, `inventory_reloads_total{result="failure"}`, `inventory_reloads_total{result="unchanged"}`,
		"last_reload_successful ", "last_reload_success_timestamp_seconds ", "inventory_servers ", "inventory_warnings ",
		`node_info{cabinet="b12",datacenter="nyc1",interface="eth1",node="hadoop27"} 1`, "inventory_hash ", "class_default{", "override_active{", "override_end_timestamp_seconds{",
		`rule_matched_packets_total{rule="ack_class"} `,
	} {
		found := 0
		for _, line := range lines {
			if !strings.HasPrefix(line, "bulkshaper_"+want) {
				continue
			}
			found++
			if labels := []string{`interface="eth1"`, `class="`, `classid="1:`, `kind="`}; strings.HasPrefix(want, "class_") {
				for _, l := range labels {
					if !strings.Contains(line, l) {
						t.Errorf("no label %s in %s", l, line)
					}
				}
			}
		}
		if found == 0 {
			t.Errorf("no series bulkshaper_%s", want)
		}
	}
}

func TestOneReadingAScrape(t *testing.T) {
	reg, source := prometheus.NewRegistry(), incident()
	reg.MustRegister(NewCollector(source))
	for range 3 {
		gather(t, reg)
	}
	if source.reads != 3 {
		t.Errorf("3 scrapes read the counters %d times", source.reads)
	}
}

// TestGaps is about classes that are not in the kernel: zeros until they have been there once, nothing afterwards, since a
// zero between two large values looks like a reset.
func TestGaps(t *testing.T) {
	source := incident()
	stats := source.stats
	reg := prometheus.NewRegistry()
	reg.MustRegister(NewCollector(source))
	sent := series("bulkshaper_class_sent_bytes_total", "cross-cabinet", "1:20", "leaf")
	rate := series("bulkshaper_class_rate_bits_per_second", "cross-cabinet", "1:20", "leaf")
	const direct, failed = "bulkshaper_direct_packets_total{}", "bulkshaper_scrape_errors_total{}"
	gap := math.NaN()

	for _, step := range []struct {
		name                       string
		stats                      tc.Stats
		err                        error
		sent, direct, rate, failed float64
	}{
		{"the first reading fails", tc.Stats{}, errors.New("no buffer space available"), gap, gap, 204_800_000, 1},
		{"nothing stands yet", tc.Stats{}, nil, 0, 0, 204_800_000, 1},
		{"a foreign root", tc.Stats{Root: tc.Qdisc{Kind: "fq", Handle: 0x80010000}, DirectPackets: 9}, nil, 0, 9, 204_800_000, 1},
		{"all stands", stats, nil, 1_000_000, 3, 204_800_000, 1},
		{"a reading fails", tc.Stats{}, errors.New("no buffer space available"), gap, gap, 204_800_000, 2},
		{"the class is not seen", tc.Stats{Root: stats.Root, Classes: stats.Classes[:1]}, nil, gap, 0, 204_800_000, 2},
		{"all stands again", stats, nil, 1_000_000, 3, 204_800_000, 2},
		{"the root is gone", tc.Stats{}, nil, gap, gap, 204_800_000, 2},
		{"the interface is gone", tc.Stats{}, tc.ErrNoInterface, gap, gap, 204_800_000, 3},
	} {
		source.set(func(f *fakeSource) { f.stats, f.err = step.stats, step.err })
		values := gather(t, reg)
		check := func(id string, want float64) {
			t.Helper()
			got, ok := values[id]
			if ok == math.IsNaN(want) || ok && got != want {
				t.Errorf("%s: %s = %v, %v, want %v", step.name, id, got, ok, want)
			}
		}
		check(sent, step.sent)
		check(direct, step.direct)
		check(rate, step.rate)
		check(failed, step.failed)
		check("bulkshaper_in_sync{}", 1)
	}
}

// TestRuleMatches: the sums are the snapshot's, also when the kernel's counters cannot be read, and absent where the kernel does not
// count the hits of filters.
func TestRuleMatches(t *testing.T) {
	source := incident()
	reg := prometheus.NewRegistry()
	reg.MustRegister(NewCollector(source))
	of := func(values map[string]float64) map[string]float64 {
		found := map[string]float64{}
		for id, v := range values {
			if rule, ok := strings.CutPrefix(id, "bulkshaper_rule_matched_packets_total{rule="); ok {
				found[strings.TrimSuffix(rule, ",}")] = v
			}
		}
		return found
	}
	want := map[string]float64{"ack_class": 77, "same-cabinet": 1<<32 + 2, "priority-role": 0, "cross-cabinet": 690, "default": 4}
	for _, err := range []error{nil, errors.New("no buffer space available")} {
		source.set(func(f *fakeSource) { f.err = err })
		if diff := cmp.Diff(want, of(gather(t, reg))); diff != "" {
			t.Errorf("counters read: %v (-want +got):\n%s", err, diff)
		}
	}
	source.set(func(f *fakeSource) { f.snap.RuleMatches = nil })
	if got := of(gather(t, reg)); len(got) != 0 {
		t.Errorf("of a kernel that does not count: %v", got)
	}
}

// TestNodeInfo: it is there once the interface is known, with what is known of the node; names that are no UTF-8 do not fail a scrape.
func TestNodeInfo(t *testing.T) {
	source := &fakeSource{}
	reg := prometheus.NewRegistry()
	reg.MustRegister(NewCollector(source))
	of := func() (found []string) {
		for id, v := range gather(t, reg) {
			if strings.HasPrefix(id, "bulkshaper_node_info") && v == 1 {
				found = append(found, id)
			}
		}
		return found
	}
	if got := of(); got != nil {
		t.Errorf("before anything is known: %q", got)
	}
	for _, step := range []struct{ iface, node, cabinet, datacenter string }{
		{"eth1", "", "", ""}, {"eth1", "hadoop27", "b12", "nyc1"}, {"eth1", "hadoop27", "b13", "nyc1"}, {"eth\xff", "hadoop27", "", ""},
	} {
		source.set(func(f *fakeSource) {
			f.snap.Interface, f.snap.Node, f.snap.Cabinet, f.snap.Datacenter = step.iface, step.node, step.cabinet, step.datacenter
		})
		want := fmt.Sprintf("bulkshaper_node_info{cabinet=%s,datacenter=%s,interface=%s,node=%s,}", step.cabinet, step.datacenter, strings.ToValidUTF8(step.iface, "\uFFFD"), step.node)
		if got := of(); !slices.Equal(got, []string{want}) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestDefaultClass: one class has a 1, whatever it is called.
func TestDefaultClass(t *testing.T) {
	source := incident()
	reg := prometheus.NewRegistry()
	reg.MustRegister(NewCollector(source))
	for _, name := range []string{"default", "cross-cabinet"} {
		source.set(func(f *fakeSource) { f.snap.DefaultClass = name })
		values := gather(t, reg)
		for class, id := range map[string]string{"same-cabinet": "1:10", "cross-cabinet": "1:20", "default": "1:100"} {
			if got := values[series("bulkshaper_class_default", class, id, "leaf")]; got != number(class == name) {
				t.Errorf("default_class %s: %v for %s", name, got, class)
			}
		}
	}
}

// TestBeforeTheFirstSnapshot is a scrape in the moment when nothing is known yet.
func TestBeforeTheFirstSnapshot(t *testing.T) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(NewCollector(&fakeSource{}))
	values := gather(t, reg)
	for _, id := range []string{"bulkshaper_in_sync{}", "bulkshaper_last_reload_successful{}", "bulkshaper_last_reload_success_timestamp_seconds{}"} {
		if v, ok := values[id]; !ok || v != 0 {
			t.Errorf("%s = %v, %v, want 0", id, v, ok)
		}
	}
}

// TestLargeCounters: nothing wraps at 2^32, and above 2^53 what is lost is the last digits.
func TestLargeCounters(t *testing.T) {
	source := incident()
	reg := prometheus.NewRegistry()
	reg.MustRegister(NewCollector(source))
	id := series("bulkshaper_class_sent_packets_total", "same-cabinet", "1:10", "leaf")
	for _, n := range []uint64{1<<32 - 1, 1 << 32, 1<<32 + 5, 1<<53 - 1, 1 << 53, 1<<53 + 1, 1<<63 + 1<<40, math.MaxUint64} {
		source.set(func(f *fakeSource) { f.stats.Classes[0].SentPackets = n })
		got := gather(t, reg)[id]
		if want := float64(n); got != want {
			t.Errorf("%d packets are shown as %f, want %f", n, got, want)
		}
		if n <= 1<<53 && uint64(got) != n {
			t.Errorf("%d packets are shown as %d", n, uint64(got))
		}
	}
}

// TestNeverADuplicate: whatever loop and kernel say, a scrape is valid: no series twice, no bad label.
func TestNeverADuplicate(t *testing.T) {
	minor := rapid.SampledFrom([]uint16{0x10, 0x20, 0x100, 0xffff})
	name := rapid.OneOf(rapid.SampledFrom([]string{"default", "a", "", "\xff", "a\nb", `"`}), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		source := &fakeSource{}
		source.snap.Interface = name.Draw(t, "interface")
		for range rapid.IntRange(0, 6).Draw(t, "planned") {
			source.snap.Classes = append(source.snap.Classes, shaper.ClassInfo{
				Name: name.Draw(t, "name"), Class: tc.Class{ID: classID(minor.Draw(t, "id"))}, Leaf: rapid.Bool().Draw(t, "leaf"),
			})
		}
		for range rapid.IntRange(0, 6).Draw(t, "rules") {
			source.snap.RuleMatches = append(source.snap.RuleMatches, shaper.RuleMatch{Rule: name.Draw(t, "rule"), Packets: rapid.Uint64().Draw(t, "matched")})
		}
		for range rapid.IntRange(0, 6).Draw(t, "standing") {
			source.stats.Classes = append(source.stats.Classes, tc.ClassStats{
				Class: tc.Class{ID: classID(minor.Draw(t, "id"))}, SentBytes: rapid.Uint64().Draw(t, "bytes"),
			})
		}
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(NewCollector(source))
		if _, err := reg.Gather(); err != nil {
			t.Fatal(err)
		}
	})
}
