package metrics

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"bulkshaper/shaper"
	"bulkshaper/shaper/tc"
)

// TestRecorder: each call raises one series by one, and one that existed at 0 before.
func TestRecorder(t *testing.T) {
	refused := errors.New("invalid argument")
	for _, test := range []struct {
		series string
		count  func(*Recorder)
	}{
		{"bulkshaper_inventory_reloads_total{result=success,}", func(r *Recorder) { r.Reload(shaper.ReloadSuccess, time.Now()) }},
		{"bulkshaper_inventory_reloads_total{result=failure,}", func(r *Recorder) { r.Reload(shaper.ReloadFailure, time.Now()) }},
		{"bulkshaper_inventory_reloads_total{result=unchanged,}", func(r *Recorder) { r.Reload(shaper.ReloadUnchanged, time.Now()) }},
		{"bulkshaper_operations_total{object=qdisc,result=success,verb=replace,}",
			func(r *Recorder) { r.Operation(tc.Op{Verb: tc.Replace, Object: tc.Qdisc{}}, nil) }},
		{"bulkshaper_operations_total{object=class,result=failure,verb=change,}",
			func(r *Recorder) { r.Operation(tc.Op{Verb: tc.Change, Object: tc.Class{}}, refused) }},
		{"bulkshaper_operations_total{object=filter,result=not_tried,verb=delete,}",
			func(r *Recorder) {
				r.Operation(tc.Op{Verb: tc.Delete, Object: tc.Filter{}}, fmt.Errorf("delete filter: %w", tc.ErrNotTried))
			}},
		{"bulkshaper_apply_duration_seconds{}", func(r *Recorder) { r.Applied(time.Millisecond) }},
		{"bulkshaper_drift_repairs_total{object=qdisc,}", func(r *Recorder) { r.DriftRepaired("qdisc") }},
		{"bulkshaper_drift_repairs_total{object=class,}", func(r *Recorder) { r.DriftRepaired("class") }},
		{"bulkshaper_drift_repairs_total{object=filter,}", func(r *Recorder) { r.DriftRepaired("filter") }},
		{"bulkshaper_rebuilds_total{}", func(r *Recorder) { r.Rebuilt() }},
	} {
		reg := prometheus.NewRegistry()
		r := NewRecorder(reg)
		before := gather(t, reg)
		test.count(r)
		for id, v := range gather(t, reg) {
			was, existed := before[id]
			want := 0.0
			if id == test.series {
				want = 1
			}
			if !existed || was != 0 || v != want {
				t.Errorf("%s: %s went from %v (there: %v) to %v, want from 0 to %v", test.series, id, was, existed, v, want)
			}
		}
	}
}

// TestStartTime: the process's start is told with and without /proc/stat, and a Gather takes both.
func TestStartTime(t *testing.T) {
	started := time.UnixMilli(1_700_000_000_500)
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(NewProcessCollector(started))
	if got := gather(t, reg)[startTimeName+"{}"]; got == 0 {
		t.Error("no start time")
	}
	reg = prometheus.NewPedanticRegistry()
	reg.MustRegister(withStart{blind{collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}, started})
	if got := gather(t, reg)[startTimeName+"{}"]; got != 1_700_000_000.5 {
		t.Errorf("start time without /proc/stat is %f", got)
	}
}

// blind describes what a process collector does and collects nothing, as where /proc is hidden.
type blind struct{ prometheus.Collector }

func (blind) Collect(chan<- prometheus.Metric) {}
