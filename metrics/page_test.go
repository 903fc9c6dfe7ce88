package metrics

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"bulkshaper/shaper"
)

// oracle answers with what was asked, and waits where it is told to.
type oracle struct {
	wait chan struct{}
	none bool

	mu            sync.Mutex
	running, most int
}

func (o *oracle) Find(asked string) (shaper.Finding, bool) {
	o.mu.Lock()
	o.running++
	o.most = max(o.most, o.running)
	o.mu.Unlock()
	if o.wait != nil {
		<-o.wait
	}
	o.mu.Lock()
	o.running--
	o.mu.Unlock()
	return shaper.Finding{Asked: asked, Answers: []shaper.Answer{}, Matches: []shaper.Destination{}}, !o.none
}

func (o *oracle) Rules() []shaper.RuleWords {
	return []shaper.RuleWords{{Name: "cross-cabinet", Matches: "servers with role hadoop_node", Class: "cross-cabinet"}}
}

func withOracle(o *oracle) func(*HandlerOptions) { return func(h *HandlerOptions) { h.Oracle = o } }

// TestPageFiles: the page and its parts come with a policy under which they work, and the page has nothing that it forbids.
func TestPageFiles(t *testing.T) {
	h := testHandler(incident(), withOracle(&oracle{}))
	for path, kind := range map[string]string{"/": "text/html; charset=utf-8", "/page/page.js": "text/javascript; charset=utf-8", "/page/page.css": "text/css; charset=utf-8",
		"/page/icon.svg": "image/svg+xml"} {
		w := ask(h, "GET", path)
		policy := w.Header().Get("Content-Security-Policy")
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != kind || w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Body.Len() == 0 {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'"} {
			if !strings.Contains(policy, part) || strings.Contains(policy, "unsafe") {
				t.Errorf("%s: policy %q lacks %s", path, policy, part)
			}
		}
		if w := ask(h, "POST", path); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", path, w.Code)
		}
	}
	for _, path := range []string{"/page/", "/page/index.html", "/page/../handler.go", "/page", "/page/page.js/"} {
		if w := ask(h, "GET", path); w.Code == http.StatusOK {
			t.Errorf("GET %s is answered", path)
		}
	}
	html := ask(h, "GET", "/").Body.String()
	for what, pattern := range map[string]string{"a script in the page": `<script(?:[^>]*)>[^<]`, "a style in the page": `(?i)<style|\sstyle=`, "a handler in the page": `(?i)\son[a-z]+=`,
		"something from elsewhere": `(?i)(?:src|href)="(?:https?:)?//`} {
		if found := regexp.MustCompile(pattern).FindString(html); found != "" {
			t.Errorf("%s: %q", what, found)
		}
	}
	script, err := fs.ReadFile(pageFiles, "page/page.js")
	if err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|https?://|method:`).Find(script); found != nil {
		t.Errorf("the script has %q", found)
	}
	// What the script takes by its id is there.
	for _, id := range regexp.MustCompile(`\$\("([a-z-]+)"\)`).FindAllSubmatch(script, -1) {
		if !strings.Contains(html, `id="`+string(id[1])+`"`) {
			t.Errorf("the page has no %s", id[1])
		}
	}
}

func TestExplainIsBounded(t *testing.T) {
	o := &oracle{wait: make(chan struct{})}
	h := testHandler(incident(), withOracle(o))
	if w := ask(h, "GET", "/api/v1/explain"); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "?dest=") {
		t.Errorf("nothing asked: %d %s", w.Code, w.Body)
	}
	if w := ask(h, "GET", "/api/v1/explain?dest="+strings.Repeat("x", maxAsked+1)); w.Code != http.StatusBadRequest {
		t.Errorf("a long one: %d %s", w.Code, w.Body)
	}
	if w := ask(h, "POST", "/api/v1/explain?dest=x"); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	answers := make(chan int)
	const crowd = 8
	for range crowd {
		go func() { answers <- ask(h, "GET", "/api/v1/explain?dest=hadoop14").Code }()
	}
	for range crowd - findTurns { // those that get no turn in time
		if code := <-answers; code != http.StatusServiceUnavailable {
			t.Errorf("without a turn: %d", code)
		}
	}
	close(o.wait)
	for range findTurns {
		if code := <-answers; code != http.StatusOK {
			t.Errorf("with a turn: %d", code)
		}
	}
	if o.most > findTurns {
		t.Errorf("%d at once", o.most)
	}
	var f shaper.Finding
	if err := json.Unmarshal(ask(h, "GET", "/api/v1/explain?dest=hadoop14").Body.Bytes(), &f); err != nil || f.Asked != "hadoop14" {
		t.Errorf("%v %+v", err, f)
	}
	if w := ask(testHandler(incident(), withOracle(&oracle{none: true})), "GET", "/api/v1/explain?dest=x"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "nothing is planned yet") {
		t.Errorf("without a plan: %d %s", w.Code, w.Body)
	}
	if w := ask(h, "GET", "/api/v1/rules"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "servers with role hadoop_node") || !strings.Contains(w.Body.String(), "v1.2.3") {
		t.Errorf("rules: %d %s", w.Code, w.Body)
	}
}

// TestHistoryAnswer: newest first, and no more than a word where nothing is new.
func TestHistoryAnswer(t *testing.T) {
	history := shaper.NewHistory()
	h := testHandler(incident(), func(o *HandlerOptions) { o.History = history.Events })
	get := func(tag string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", "/api/v1/history", nil)
		r.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	if w := get(""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"events": []`) {
		t.Errorf("empty: %d %s", w.Code, w.Body)
	}
	begin := time.Unix(1_700_000_000, 0)
	for i := range 2*shaper.HistoryLength + 1 {
		history.Add(shaper.Event{Time: begin.Add(time.Duration(i) * time.Second), Kind: shaper.EventChanged})
	}
	w := get("")
	var answer HistoryAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	if n := len(answer.Events); n != shaper.HistoryLength || !answer.Events[0].Time.Equal(begin.Add(2*shaper.HistoryLength*time.Second)) || !answer.Events[n-1].Time.Before(answer.Events[0].Time) {
		t.Errorf("%d events, the first of %s", len(answer.Events), answer.Events[0].Time)
	}
	tag := w.Header().Get("ETag")
	if w := get(tag); w.Code != http.StatusNotModified || w.Body.Len() != 0 {
		t.Errorf("nothing new: %d %s", w.Code, w.Body)
	}
	history.Add(shaper.Event{Time: begin.Add(time.Hour)})
	if w := get(tag); w.Code != http.StatusOK {
		t.Errorf("something new: %d", w.Code)
	}
}

func TestStatusWarnings(t *testing.T) {
	source := incident()
	source.set(func(f *fakeSource) { f.snap.Warnings = strings.Split(strings.Repeat("x ", 99)+"x", " ") })
	h := testHandler(source)
	for query, want := range map[string]int{"": 100, "?warnings=7": 7, "?warnings=0": 0, "?warnings=1000": 100, "?warnings=-1": 100, "?warnings=x": 100} {
		var s shaper.Status
		if err := json.Unmarshal(ask(h, "GET", "/api/v1/status"+query).Body.Bytes(), &s); err != nil || len(s.Warnings) != want || s.WarningsTotal != 100 {
			t.Errorf("%q: %v, %d of %d warnings", query, err, len(s.Warnings), s.WarningsTotal)
		}
	}
}
