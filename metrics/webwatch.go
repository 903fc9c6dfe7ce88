package metrics

import (
	"fmt"
	"sync"
	"time"
)

// lookAgain is the least time between two readings of the web config, however often it is asked.
const lookAgain = time.Second

// webWatch knows whether the web config is right, as of a moment ago.
type webWatch struct {
	path string

	mu     sync.Mutex
	looked time.Time
	err    error
}

// problem is what is wrong with the web config, nil for nothing.
func (w *webWatch) problem() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); w.looked.IsZero() || now.Sub(w.looked) >= lookAgain {
		w.looked, w.err = now, CheckWebConfig(w.path)
	}
	return w.err
}

// WatchWebConfig is a question that may be asked at any time: why nobody is let in by the web config at path as it is now, "" where people
// are, or where there is none. It is read for each connection, so one that breaks locks everybody out at once, while the port stays open.
func WatchWebConfig(path string) func() string {
	w := &webWatch{path: path}
	return func() string {
		if err := w.problem(); err != nil {
			return fmt.Sprintf("read metrics.web_config %s: %v", path, err)
		}
		return ""
	}
}
