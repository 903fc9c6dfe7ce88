package metrics

import (
	"fmt"
	"sync"
	"time"
)

// WatchWebConfig is a question that may be asked at any time: why nobody is let in by the web config at path as it is now, "" where people
// are, or where there is none. It is read for each connection, so one that breaks locks everybody out at once, while the port stays open.
func WatchWebConfig(path string) func() string {
	if path == "" {
		return func() string { return "" }
	}
	var mu sync.Mutex
	var looked time.Time
	var problem string
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); looked.IsZero() || now.Sub(looked) >= lookAgain {
			looked, problem = now, ""
			if err := CheckWebConfig(path); err != nil {
				problem = fmt.Sprintf("read metrics.web_config %s: %v", path, err)
			}
		}
		return problem
	}
}
