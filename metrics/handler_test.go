package metrics

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"bulkshaper/shaper"
	"bulkshaper/shaper/tc"
)

func testHandler(source Source, change ...func(*HandlerOptions)) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(NewCollector(source))
	o := HandlerOptions{Gatherer: reg, Source: source, Log: zap.NewNop(), Version: "v1.2.3"}
	for _, c := range change {
		c(&o)
	}
	return NewHandler(o)
}

func ask(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

// TestMethods: GET and HEAD are answered, all else is refused with what is allowed, and every answer has the headers that
// keep a browser quiet.
func TestMethods(t *testing.T) {
	h := testHandler(incident())
	for _, path := range []string{"/", "/metrics", "/-/healthy", "/-/ready", "/api/v1/status", "/api/v1/history"} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} {
			w := ask(h, method, path)
			want := http.StatusMethodNotAllowed
			if method == "GET" || method == "HEAD" {
				want = http.StatusOK
			}
			if w.Code != want {
				t.Errorf("%s %s: %d, want %d", method, path, w.Code, want)
			}
			if want == http.StatusMethodNotAllowed && w.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: Allow is %q", method, path, w.Header().Get("Allow"))
			}
			for _, name := range []string{"X-Content-Type-Options", "X-Frame-Options", "Content-Security-Policy", "Referrer-Policy", "Cache-Control"} {
				if len(w.Header().Values(name)) != 1 {
					t.Errorf("%s %s: %s is %q", method, path, name, w.Header().Values(name))
				}
			}
		}
	}
	for _, path := range []string{"/metric", "/metrics/", "/api/v1/", "/-/reload", "/-/quit", "/debug/pprof/", "/index.html"} {
		if w := ask(h, "GET", path); w.Code != http.StatusNotFound {
			t.Errorf("GET %s: %d, want 404", path, w.Code)
		}
	}
}

func TestReadyAndHealthy(t *testing.T) {
	var broken error
	h := testHandler(incident(), func(o *HandlerOptions) {
		o.Ready = func() error { return broken }
		o.Healthy = o.Ready
	})
	for _, word := range []string{"ready", "healthy"} {
		broken = nil
		if w := ask(h, "GET", "/-/"+word); w.Code != http.StatusOK || w.Body.String() != word+"\n" {
			t.Errorf("%s: %d %q", word, w.Code, w.Body)
		}
		broken = errors.New("eth1 does not exist yet")
		if w := ask(h, "GET", "/-/"+word); w.Code != http.StatusServiceUnavailable || w.Body.String() != "not "+word+": eth1 does not exist yet\n" {
			t.Errorf("%s: %d %q", word, w.Code, w.Body)
		}
	}
}

// TestStatus: the answer is that of shaper.StatusOf, also while there is no interface; counters that cannot be read are no
// zeros but an error.
func TestStatus(t *testing.T) {
	source := incident()
	h := testHandler(source)
	decode := func(w *httptest.ResponseRecorder) shaper.Status {
		t.Helper()
		if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || got != "application/json" {
			t.Fatalf("%d %s: %s", w.Code, got, w.Body)
		}
		var s shaper.Status
		if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	asJSON := func(s shaper.Status) string {
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	got := decode(ask(h, "GET", "/api/v1/status"))
	want := shaper.StatusOf(source.snap, source.stats)
	want.Version = "v1.2.3"
	if diff := cmp.Diff(asJSON(want), asJSON(got)); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if got.Classes[0].SentPackets != 1<<32+5 || got.Direct != 3 {
		t.Errorf("counters: %+v", got)
	}

	source.set(func(f *fakeSource) {
		f.err, f.snap.InSync, f.snap.Reason = tc.ErrNoInterface, false, "eth1 does not exist"
	})
	got = decode(ask(h, "GET", "/api/v1/status"))
	if got.InSync || got.Reason != "eth1 does not exist" || got.Classes[0].Standing {
		t.Errorf("without an interface: %+v", got)
	}

	source.set(func(f *fakeSource) { f.err = errors.New("no buffer space available") })
	w := ask(h, "GET", "/api/v1/status")
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"error": "read counters: no buffer space available"`) {
		t.Errorf("unreadable counters: %d %s", w.Code, w.Body)
	}
}

// TestBrokenCollector: a collector that fails takes its own metrics away, no others, and is logged.
func TestBrokenCollector(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	reg := prometheus.NewRegistry()
	reg.MustRegister(NewCollector(incident()), invalid{prometheus.NewDesc("broken", "Never there.", nil, nil)})
	h := testHandler(incident(), func(o *HandlerOptions) { o.Gatherer, o.Log = reg, zap.New(core) })
	w := ask(h, "GET", "/metrics")
	body, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != http.StatusOK || !strings.Contains(string(body), "\nbulkshaper_in_sync 1\n") {
		t.Errorf("%d %v\n%s", w.Code, err, body)
	}
	if logs.Len() != 1 || !strings.Contains(logs.All()[0].ContextMap()["error"].(string), "out of order") {
		t.Errorf("log: %v", logs.All())
	}
}

type invalid struct{ desc *prometheus.Desc }

func (i invalid) Describe(ch chan<- *prometheus.Desc) { ch <- i.desc }

func (i invalid) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.NewInvalidMetric(i.desc, errors.New("out of order"))
}
