package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"bulkshaper/shaper"
	"bulkshaper/shaper/tc"
)

// HandlerOptions is what NewHandler serves.
type HandlerOptions struct {
	// Gatherer has the metrics of /metrics.
	Gatherer prometheus.Gatherer
	// Source has the status.
	Source Source
	// Meter knows what the classes send; without it the status does not say.
	Meter *shaper.Meter
	// Ready is nil once the interface was shaped as planned for the first time; Healthy is nil while the loop turns.
	// A missing one counts as always nil.
	Ready, Healthy func() error
	// History gives the last events, oldest first; a missing one gives none.
	History func() []shaper.Event
	// Oracle answers what the page asks of the plan; without one there is nothing to ask.
	Oracle Oracle
	// Log hears of what could not be served.
	Log     *zap.Logger
	Version string
}

// NewHandler serves /metrics, /-/healthy, /-/ready, what is below /api/v1/, and at / a page for people. Nothing that it serves changes
// anything, and only GET and HEAD are answered.
func NewHandler(o HandlerOptions) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", newScrapeHandler(o.Gatherer, o.Log))
	mux.Handle("GET /-/healthy", stateHandler("healthy", o.Healthy))
	mux.Handle("GET /-/ready", stateHandler("ready", o.Ready))
	mux.Handle("GET /api/v1/status", statusHandler(o))
	if o.Meter != nil {
		mux.HandleFunc("GET /api/v1/rates", func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK, o.Meter.Recent(o.Source.Snapshot().Classes))
		})
	}
	mux.Handle("GET /api/v1/history", historyHandler(o))
	if o.Oracle != nil {
		mux.Handle("GET /api/v1/explain", explainHandler(o))
		mux.Handle("GET /api/v1/rules", rulesHandler(o))
	}
	mux.Handle("GET /{$}", pageHandler())
	mux.Handle("GET /page/", pageHandler())
	return http.MaxBytesHandler(secure(mux), 0) // nobody has to send us a body
}

// secure sets the headers that keep a browser from doing more with an answer than to show it.
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

func stateHandler(word string, check func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if check != nil {
			if err := check(); err != nil {
				http.Error(w, "not "+word+": "+err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte(word + "\n")) // whoever asked is gone, nothing is left to do
	})
}

// statusHandler answers with the JSON of `bulkshaper status --format json`. An interface that is not there is a state to be
// told like others; counters that cannot be read are an error, since zeros would be believed.
func statusHandler(o HandlerOptions) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		snap := o.Source.Snapshot()
		ctx, cancel := context.WithTimeout(r.Context(), statsTimeout)
		defer cancel()
		stats, err := o.Source.Stats(ctx)
		if err != nil && !errors.Is(err, tc.ErrNoInterface) {
			writeJSON(w, http.StatusServiceUnavailable, map[string]string{"error": "read counters: " + err.Error()})
			return
		}
		status := shaper.StatusOf(snap, stats)
		status.Version = o.Version
		if o.History != nil {
			status.Lately = shaper.Lately(o.History(), time.Now())
		}
		if o.Meter != nil {
			o.Meter.Fill(&status, stats)
		}
		limitWarnings(r, &status)
		writeJSON(w, http.StatusOK, status)
	})
}

// HistoryAnswer is the answer of /api/v1/history and of `bulkshaper history --format json`.
type HistoryAnswer struct {
	Interface string `json:"interface"`
	Node      string `json:"node"`
	// Events are the last hundred, newest first.
	Events []shaper.Event `json:"events"`
}

func historyHandler(o HandlerOptions) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		snap := o.Source.Snapshot()
		answer := HistoryAnswer{Interface: snap.Interface, Node: snap.Node, Events: []shaper.Event{}}
		if o.History != nil {
			answer.Events = append(answer.Events, o.History()...)
			slices.Reverse(answer.Events)
		}
		// Events only come, so that the last one says whether there is anything new.
		tag := `"none"`
		if len(answer.Events) > 0 {
			tag = fmt.Sprintf(`"%d-%d"`, len(answer.Events), answer.Events[0].Time.UnixNano())
		}
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		writeJSON(w, http.StatusOK, answer)
	})
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // the values are plain: what fails is the connection, and its owner knows
}
