package metrics

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bulkshaper/shaper"
	"bulkshaper/shaper/tc"
)

// statsTimeout bounds one reading of the counters. Prometheus gives up after 10 s by default.
const statsTimeout = 5 * time.Second

// Source is what the loop knows and what the kernel counted. Both may be asked by any number of goroutines at once.
type Source interface {
	Snapshot() shaper.Snapshot
	Stats(ctx context.Context) (tc.Stats, error)
}

// Collector reads the counters of the classes from the kernel at each scrape, in one reading and never the filters, and the
// rest from the loop's last snapshot.
//
// The classes are those of the plan. Rate, ceil and destinations are always there. The kernel's counters are there for a class
// that stands; one that has not stood yet has zeros, so that its first packets show as an increase. A class that has stood and
// is not seen now has none: a gap, since a zero between two readings of a counter would look like a reset, and so like a burst
// of all it ever sent. The same holds for bulkshaper_direct_packets_total and the root. Where the counters cannot be read,
// bulkshaper_scrape_errors_total rises and the other metrics are served.
//
// The kernel's counters have 64 bits. Prometheus keeps float64, which is exact up to 2^53 (9 petabytes) and above it to
// 1 part in 10^16.
//
// bulkshaper_rule_matched_packets_total comes with the snapshot, too: the loop adds it up whenever it reads the filters, which a scrape
// must not. Where the kernel does not count, it is absent.
type Collector struct {
	source Source
	errors prometheus.Counter

	mu sync.Mutex
	// stood has the classes that were seen in the kernel since the process began, and the root qdisc as its own handle.
	stood map[tc.Handle]bool
}

var _ prometheus.Collector = (*Collector)(nil)

// NewCollector makes a Collector of what source knows.
func NewCollector(source Source) *Collector {
	return &Collector{
		source: source,
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "scrape_errors_total",
			Help: "Scrapes at which the kernel's counters could not be read.",
		}),
		stood: make(map[tc.Handle]bool),
	}
}

// Describe sends the descriptions of all metrics.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range countedMetrics() {
		ch <- m.desc
	}
	for _, m := range plannedMetrics() {
		ch <- m.desc
	}
	for _, m := range nodeMetrics() {
		ch <- m.desc
	}
	ch <- nodeInfo()
	ch <- directPackets()
	ch <- ruleMatched()
	ch <- overrideActive()
	ch <- overrideEnd()
	c.errors.Describe(ch)
}

// Collect reads the counters and sends all metrics.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), statsTimeout)
	defer cancel()
	snap := c.source.Snapshot()
	stats, err := c.source.Stats(ctx)
	if err != nil {
		c.errors.Inc()
	}
	c.errors.Collect(ch)
	for _, m := range nodeMetrics() {
		ch <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, m.value(snap))
	}
	classes := classLabels(snap)
	for _, m := range plannedMetrics() {
		for _, class := range classes {
			ch <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, m.value(snap, class.info), class.labels...)
		}
	}
	if snap.Interface != "" {
		ch <- prometheus.MustNewConstMetric(nodeInfo(), prometheus.GaugeValue, 1,
			label(snap.Interface), label(snap.Node), label(snap.Cabinet), label(snap.Datacenter))
	}
	collectOverrides(ch, snap, classes)
	for rule, packets := range ruleLabels(snap) {
		ch <- prometheus.MustNewConstMetric(ruleMatched(), prometheus.CounterValue, float64(packets), rule)
	}
	if err != nil {
		return
	}
	standing := c.standing(stats, classes)
	for _, m := range countedMetrics() {
		for _, class := range classes {
			if counted, ok := standing[class.info.Class.ID]; ok {
				ch <- prometheus.MustNewConstMetric(m.desc, m.kind, float64(m.value(counted)), class.labels...)
			}
		}
	}
	if c.rootCounts(stats.Root) {
		ch <- prometheus.MustNewConstMetric(directPackets(), prometheus.CounterValue, float64(stats.DirectPackets))
	}
}

// standing gives the counters of the classes that have any: those in stats, and zeros for those that have not stood yet.
func (c *Collector) standing(stats tc.Stats, planned []labelledClass) map[tc.Handle]tc.ClassStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	standing := make(map[tc.Handle]tc.ClassStats, len(stats.Classes))
	for _, counted := range stats.Classes {
		standing[counted.Class.ID] = counted
		c.stood[counted.Class.ID] = true
	}
	for _, class := range planned {
		if id := class.info.Class.ID; !c.stood[id] {
			standing[id] = tc.ClassStats{}
		}
	}
	return standing
}

// rootCounts tells whether the count of direct packets is there: the root is htb, or none has stood yet.
func (c *Collector) rootCounts(root tc.Qdisc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	handle := tc.MakeHandle(tc.Major, 0)
	if root.Kind == tc.KindHTB && root.Handle == handle {
		c.stood[handle] = true
		return true
	}
	return !c.stood[handle]
}

// labelledClass is a class of the plan with the values of classLabelNames.
type labelledClass struct {
	info   shaper.ClassInfo
	labels []string
}

// classLabels gives each classid of the plan once, since a series that occurs twice fails the whole scrape. Labels must be
// UTF-8, which an interface's name need not be.
func classLabels(snap shaper.Snapshot) []labelledClass {
	seen := make(map[tc.Handle]bool, len(snap.Classes))
	classes := make([]labelledClass, 0, len(snap.Classes))
	for _, info := range snap.Classes {
		if seen[info.Class.ID] {
			continue
		}
		seen[info.Class.ID] = true
		kind := "inner"
		if info.Leaf {
			kind = "leaf"
		}
		classes = append(classes, labelledClass{info, []string{label(snap.Interface), label(info.Name), info.Class.ID.String(), kind}})
	}
	return classes
}

// collectOverrides sends a 0 or a 1 for each class, so that the first override of a process shows as a change.
func collectOverrides(ch chan<- prometheus.Metric, snap shaper.Snapshot, classes []labelledClass) {
	ends := make(map[string]time.Time, len(snap.Overrides))
	for _, o := range snap.Overrides {
		ends[o.Class] = o.Until
	}
	seen := make(map[string]bool, len(classes))
	for _, class := range classes {
		labels := class.labels[:2]
		if class.info.Name == tc.ControlName || seen[labels[1]] {
			continue
		}
		seen[labels[1]] = true
		end, active := ends[class.info.Name]
		ch <- prometheus.MustNewConstMetric(overrideActive(), prometheus.GaugeValue, number(active), labels...)
		if active {
			ch <- prometheus.MustNewConstMetric(overrideEnd(), prometheus.GaugeValue, seconds(end), labels...)
		}
	}
}

// ruleLabels gives each value of the label rule once.
func ruleLabels(snap shaper.Snapshot) map[string]uint64 {
	packets := make(map[string]uint64, len(snap.RuleMatches))
	for _, m := range snap.RuleMatches {
		packets[label(m.Rule)] += m.Packets
	}
	return packets
}

func label(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
