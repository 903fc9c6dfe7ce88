package metrics

import "github.com/prometheus/client_golang/prometheus"

// dumpsCollector counts readings of the kernel's lists.
type dumpsCollector struct {
	desc  *prometheus.Desc
	count func(object string) uint64
}

// NewDumpsCollector tells how often the kernel's lists of qdiscs, classes and filters were read. A scrape reads the first two and never
// the filters, which may be many: the count shows it. count is shaper/kernel's Dumps.
func NewDumpsCollector(count func(object string) uint64) prometheus.Collector {
	return dumpsCollector{prometheus.NewDesc(prometheus.BuildFQName(namespace, "kernel", "dumps_total"),
		"How often the kernel was asked for its list of such objects. A scrape asks for no filters.", []string{"object"}, nil), count}
}

// Describe implements prometheus.Collector.
func (c dumpsCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements prometheus.Collector.
func (c dumpsCollector) Collect(ch chan<- prometheus.Metric) {
	for _, object := range []string{"qdisc", "class", "filter"} {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, float64(c.count(object)), object)
	}
}
