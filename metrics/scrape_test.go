package metrics

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// blocked is a collector that lets go when told.
type blocked struct{ release chan struct{} }

func (b blocked) Describe(ch chan<- *prometheus.Desc) {
	ch <- prometheus.NewDesc("blocked", "Blocked.", nil, nil)
}

func (b blocked) Collect(chan<- prometheus.Metric) { <-b.release }

// TestTurns: more scrapes than there are turns wait, are refused after a while with a word of it, and a turn that ends is
// the next one's.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := blocked{make(chan struct{})}
		reg := prometheus.NewRegistry()
		reg.MustRegister(b)
		h := newScrapeHandler(reg, zap.NewNop())
		answers := make(chan *httptest.ResponseRecorder, 2*scrapesAtOnce)
		for range scrapesAtOnce {
			go func() { answers <- ask(h, "GET", "/metrics") }()
		}
		synctest.Wait()

		began := time.Now()
		w := ask(h, "GET", "/metrics")
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "too many scrapes") {
			t.Errorf("with no turn free: %d %s", w.Code, w.Body)
		}
		if waited := time.Since(began); waited != scrapeWait {
			t.Errorf("refused after %s, want %s", waited, scrapeWait)
		}

		gone, cancel := context.WithCancel(t.Context())
		cancel()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil).WithContext(gone)) // returns at once

		go func() { answers <- ask(h, "GET", "/metrics") }()
		synctest.Wait()
		close(b.release)
		for range scrapesAtOnce + 1 {
			if w := <-answers; w.Code != http.StatusOK {
				t.Errorf("a scrape that got its turn: %d %s", w.Code, w.Body)
			}
		}
	})
}
