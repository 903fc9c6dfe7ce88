package bound

import (
	"runtime"
	"testing"
	"time"
)

// recorder is a test that only notes that it failed.
type recorder struct {
	testing.TB
	failed int
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed++ }

// TestWhatIsOverTheBoundFails: a bound that nothing can pass would prove nothing.
func TestWhatIsOverTheBoundFails(t *testing.T) {
	var kept []byte
	for name, c := range map[string]struct {
		size, perByte int
		work          func()
		failed        int
	}{
		"nothing":         {0, 0, func() {}, 0},
		"memory within":   {1 << 20, 16, func() { kept = make([]byte, 10<<20) }, 0},
		"memory beyond":   {1 << 20, 1, func() { kept = make([]byte, 10<<20) }, 1},
		"processor time":  {10, 1, func() { spin(fixedTime + 100*time.Millisecond) }, 1},
		"time of a sleep": {10, 1, func() { time.Sleep(10 * time.Millisecond) }, 0},
	} {
		r := &recorder{TB: t}
		if Check(r, c.size, c.perByte, c.work); r.failed != c.failed {
			t.Errorf("%s: %d bounds broken, want %d", name, r.failed, c.failed)
		}
	}
	runtime.KeepAlive(kept)
}

// spin is busy for d of this thread's time.
func spin(d time.Duration) {
	for end := processorTime() + d; processorTime() < end; {
	}
}
