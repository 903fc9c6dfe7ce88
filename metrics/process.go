package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

const startTimeName = "process_start_time_seconds"

// NewProcessCollector is client_golang's process collector, with process_start_time_seconds also where the unit's
// ProcSubset=pid hides /proc/stat, from which it takes the time of boot. The series is what tells a restart, so started stands
// in for it there: the time at the beginning of main.
func NewProcessCollector(started time.Time) prometheus.Collector {
	process := collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})
	probe := prometheus.NewRegistry()
	probe.MustRegister(process)
	families, err := probe.Gather()
	if err != nil {
		return process
	}
	for _, f := range families {
		if f.GetName() == startTimeName {
			return process
		}
	}
	return withStart{process, started}
}

// withStart adds the start time to a process collector that describes it and cannot collect it.
type withStart struct {
	prometheus.Collector
	started time.Time
}

// Collect implements prometheus.Collector.
func (s withStart) Collect(ch chan<- prometheus.Metric) {
	s.Collector.Collect(ch)
	// Name and help are those that the process collector has described.
	desc := prometheus.NewDesc(startTimeName, "Start time of the process since unix epoch in seconds.", nil, nil)
	ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, seconds(s.started))
}
