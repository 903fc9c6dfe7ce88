package metrics

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

const (
	// scrapesAtOnce is how many scrapes read the kernel at the same time. The others wait their turn, scrapeWait at most.
	scrapesAtOnce = 4
	scrapeWait    = 5 * time.Second
)

// scrapeHandler serves the metrics. It gathers them into memory before it writes, so that a turn lasts as long as our own work
// does: a scraper that does not read its answer holds that answer and a connection until the write times out, and nobody's turn.
// (promhttp's own MaxRequestsInFlight counts until the answer is read, and refuses at once; its CoalesceGather would hand
// others the old answer for as long.)
type scrapeHandler struct {
	next  http.Handler
	turns chan struct{}
	wait  time.Duration
}

func newScrapeHandler(gatherer prometheus.Gatherer, log *zap.Logger) *scrapeHandler {
	return &scrapeHandler{
		next: promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{
			ErrorLog: scrapeLog{log},
			// One collector that fails takes only its own metrics with it.
			ErrorHandling: promhttp.ContinueOnError,
		}),
		turns: make(chan struct{}, scrapesAtOnce),
		wait:  scrapeWait,
	}
}

func (h *scrapeHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	limit := time.NewTimer(h.wait)
	defer limit.Stop()
	select {
	case h.turns <- struct{}{}:
	case <-r.Context().Done():
		return
	case <-limit.C:
		w.Header().Set("Retry-After", "15")
		http.Error(w, fmt.Sprintf("no turn within %s: too many scrapes at once", h.wait), http.StatusServiceUnavailable)
		return
	}
	answer := h.gather(r)
	maps.Copy(w.Header(), answer.header)
	w.Header().Set("Content-Length", strconv.Itoa(answer.body.Len()))
	w.WriteHeader(answer.code)
	_, _ = w.Write(answer.body.Bytes()) // a scraper that went away misses a scrape, and knows it
}

// gather makes the answer. The turn ends also where a metric makes it panic.
func (h *scrapeHandler) gather(r *http.Request) *answer {
	defer func() { <-h.turns }()
	a := &answer{header: make(http.Header), code: http.StatusOK}
	h.next.ServeHTTP(a, r)
	return a
}

// answer is an http.ResponseWriter that keeps what is written.
type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(code int)        { a.code = code }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

// scrapeLog is promhttp's logger.
type scrapeLog struct{ log *zap.Logger }

func (l scrapeLog) Println(v ...any) {
	l.log.Warn("scrape failed", zap.String("error", fmt.Sprint(v...)))
}
