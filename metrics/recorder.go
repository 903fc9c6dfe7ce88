package metrics

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bulkshaper/shaper"
	"bulkshaper/shaper/tc"
)

// namespace is the first word of all our metric names.
const namespace = "bulkshaper"

// The values of the label result of bulkshaper_operations_total.
const (
	resultSuccess  = "success"
	resultFailure  = "failure"
	resultNotTried = "not_tried"
)

// Recorder is the shaper.Recorder whose counters Prometheus scrapes. All of them exist from 0, so that the first failure
// of a process shows in rate() and increase(). It may be used by any number of goroutines.
type Recorder struct {
	reloads    *prometheus.CounterVec
	operations *prometheus.CounterVec
	applied    prometheus.Histogram
	drift      *prometheus.CounterVec
	rebuilds   prometheus.Counter
}

var _ shaper.Recorder = (*Recorder)(nil)

// NewRecorder makes a Recorder and registers its metrics with reg, which must not have those of another.
func NewRecorder(reg prometheus.Registerer) *Recorder {
	r := &Recorder{
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "inventory_reloads_total",
			Help: "Readings of the config and inventory files, by how they ended.",
		}, []string{"result"}),
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "operations_total",
			Help: "Operations on the kernel's qdiscs, classes and filters; not_tried are those behind one that failed.",
		}, []string{"verb", "object", "result"}),
		applied: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "apply_duration_seconds",
			Help: "Time that one run of operations on the kernel took.",
			// A change of one server takes about a millisecond, 10,000 new filters some tens, a busy kernel seconds.
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		drift: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "drift_repairs_total",
			Help: "Objects that somebody else had changed or removed and that were put right.",
		}, []string{"object"}),
		rebuilds: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "rebuilds_total",
			Help: "Times that the root qdisc was set up again: it had to be taken down, or somebody else had done that.",
		}),
	}
	reg.MustRegister(r.reloads, r.operations, r.applied, r.drift, r.rebuilds)
	r.zero()
	return r
}

// zero makes every series that can occur.
func (r *Recorder) zero() {
	for _, result := range []shaper.ReloadResult{shaper.ReloadSuccess, shaper.ReloadFailure, shaper.ReloadUnchanged} {
		r.reloads.WithLabelValues(string(result))
	}
	for _, object := range []string{tc.Qdisc{}.Type(), tc.Class{}.Type(), tc.Filter{}.Type()} {
		r.drift.WithLabelValues(object)
		for _, verb := range []tc.Verb{tc.Add, tc.Change, tc.Replace, tc.Delete} {
			if verb == tc.Replace && object != (tc.Qdisc{}).Type() {
				continue // only qdiscs are replaced: for a filter it would silently keep the old match
			}
			for _, result := range []string{resultSuccess, resultFailure, resultNotTried} {
				r.operations.WithLabelValues(string(verb), object, result)
			}
		}
	}
}

// Reload counts a reading of the files. When it was is told by the Collector, from the snapshot.
func (r *Recorder) Reload(result shaper.ReloadResult, _ time.Time) {
	r.reloads.WithLabelValues(string(result)).Inc()
}

// Operation counts an operation on the kernel and how it ended.
func (r *Recorder) Operation(op tc.Op, err error) {
	result := resultSuccess
	switch {
	case errors.Is(err, tc.ErrNotTried):
		result = resultNotTried
	case err != nil:
		result = resultFailure
	}
	r.operations.WithLabelValues(string(op.Verb), op.Object.Type(), result).Inc()
}

// Applied measures one run of operations.
func (r *Recorder) Applied(took time.Duration) { r.applied.Observe(took.Seconds()) }

// DriftRepaired counts an object that was put right.
func (r *Recorder) DriftRepaired(object string) { r.drift.WithLabelValues(object).Inc() }

// Rebuilt counts a root set up again.
func (r *Recorder) Rebuilt() { r.rebuilds.Inc() }
