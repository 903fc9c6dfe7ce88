package metrics

import (
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"
	"time"

	"bulkshaper/shaper"
)

// pageFiles is the page for people. It needs nothing from elsewhere, and has no script or style inside the HTML.
//
//go:embed page
var pageFiles embed.FS

// pagePolicy lets the page load its own script, style and icon, ask this server, and nothing else.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// pageHandler serves the page's files: the HTML at /, the rest below /page/.
func pageHandler() http.Handler {
	files := http.FileServerFS(pageFiles)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", pagePolicy)
		switch r.URL.Path {
		case "/":
			html, err := fs.ReadFile(pageFiles, "page/index.html")
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write(html) // whoever asked is gone, nothing is left to do
		case "/page/page.css", "/page/page.js", "/page/icon.svg":
			files.ServeHTTP(w, r)
		default:
			http.NotFound(w, r)
		}
	})
}

// Oracle answers questions about the plan in force. The loop is one.
type Oracle interface {
	// Find says which class an address or a server is in, and why; false while there is no plan.
	Find(asked string) (shaper.Finding, bool)
	Rules() []shaper.RuleWords
}

// findTurns is how many searches run at once: one goes through all destinations, some milliseconds of them.
const findTurns = 2

// findWait is how long a search waits for its turn.
const findWait = 2 * time.Second

// maxAsked is the length of the longest name there can be (RFC 1035).
const maxAsked = 253

func explainHandler(o HandlerOptions) http.Handler {
	turns := make(chan struct{}, findTurns)
	refuse := func(w http.ResponseWriter, code int, text string) {
		writeJSON(w, code, map[string]string{"error": text})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := r.URL.Query().Get("dest")
		switch {
		case asked == "":
			refuse(w, http.StatusBadRequest, "nothing is asked for: write ?dest= and a server, an address or a part of one")
			return
		case len(asked) > maxAsked:
			refuse(w, http.StatusBadRequest, fmt.Sprintf("dest has more than %d bytes", maxAsked))
			return
		}
		limit := time.NewTimer(findWait)
		defer limit.Stop()
		select {
		case turns <- struct{}{}:
		case <-r.Context().Done():
			return
		case <-limit.C:
			w.Header().Set("Retry-After", "5")
			refuse(w, http.StatusServiceUnavailable, "too many searches at once")
			return
		}
		finding, ok := func() (shaper.Finding, bool) {
			defer func() { <-turns }() // not held by one who is slow to read the answer
			return o.Oracle.Find(asked)
		}()
		if !ok {
			refuse(w, http.StatusServiceUnavailable, "nothing is planned yet")
			return
		}
		writeJSON(w, http.StatusOK, finding)
	})
}

// rulesHandler answers with the rules in words.
func rulesHandler(o HandlerOptions) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, struct {
			Version string             `json:"version"`
			Rules   []shaper.RuleWords `json:"rules"`
		}{o.Version, o.Oracle.Rules()})
	})
}

// limitWarnings cuts the warnings of a status to what ?warnings=N asks for: a page that asks every other second does not want
// thousands. WarningsTotal stays their number.
func limitWarnings(r *http.Request, s *shaper.Status) {
	if n, err := strconv.ParseUint(r.URL.Query().Get("warnings"), 10, 31); err == nil && int(n) < len(s.Warnings) {
		s.Warnings = s.Warnings[:n]
	}
}
