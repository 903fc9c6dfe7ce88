package watch

import (
	"strings"
	"testing"
	"time"
)

// TestIdleEventsPutOffNothing has a log grow all the time: an edit is told of when it has been quiet but for that, and the log alone is
// never told of.
func TestIdleEventsPutOffNothing(t *testing.T) {
	idle := func(path string) bool { return strings.HasSuffix(path, ".log") }
	bubble(t, Options{Debounce: 200 * time.Millisecond, Rescan: time.Minute, Idle: idle}, nil, func(t *testing.T, w *Watcher, fake *fakeNotifier) {
		grow := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				fake.events <- write("x.log")
			}
		}
		grow(5 * time.Second)
		expect(t, w, "")
		fake.events <- write("x.json")
		grow(190 * time.Millisecond)
		expect(t, w, "")
		grow(20 * time.Millisecond)
		expect(t, w, FileEvent)
		grow(5 * time.Second)
		expect(t, w, "")
	})
}
