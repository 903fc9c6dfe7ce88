package scenario

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// stoodStill is the most that counts of the time between two looks. A machine that stood still, or was stopped for minutes by whatever it
// runs on, has let the daemon do as little as it let us look.
const stoodStill = patience / 4

// wait is how long something was waited for.
type wait struct {
	waited  time.Duration // what counts of it
	looks   int
	longest time.Duration // between two looks
	began   time.Time
	last    time.Time
	stalls  [2]time.Duration
}

func beginWait() *wait {
	now := time.Now()
	return &wait{began: now, last: now, stalls: stalls()}
}

func (w *wait) looked() {
	now := time.Now()
	since := now.Sub(w.last)
	w.last = now
	w.looks++
	w.longest = max(w.longest, since)
	w.waited += min(since, stoodStill)
}

// String tells what the machine did meanwhile, so that a daemon that hangs is told from a machine that does.
func (w *wait) String() string {
	now := stalls()
	return fmt.Sprintf("%s (%d looks, at most %s between two; everything on the machine stood for memory %s, for its disk %s)",
		w.last.Sub(w.began).Round(time.Millisecond), w.looks, w.longest.Round(time.Millisecond), now[0]-w.stalls[0], now[1]-w.stalls[1])
}

var fullStall = regexp.MustCompile(`(?m)^full .*total=(\d+)$`)

// stalls is for how long all that could have run waited for memory, and for disks, since the machine began; 0 on a kernel that does not
// count it (CONFIG_PSI).
func stalls() (stood [2]time.Duration) {
	for i, what := range []string{"memory", "io"} {
		text, err := os.ReadFile("/proc/pressure/" + what)
		if err != nil {
			continue
		}
		if m := fullStall.FindSubmatch(text); m != nil {
			us, _ := strconv.ParseInt(string(m[1]), 10, 64) // digits they are
			stood[i] = time.Duration(us) * time.Microsecond
		}
	}
	return stood
}

// TestWaitCountsWhatItSaw has a machine stand still once, and a condition that takes its time.
func TestWaitCountsWhatItSaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := beginWait()
		time.Sleep(10 * patience)
		if w.looked(); w.waited != stoodStill || w.longest != 10*patience {
			t.Errorf("a machine that stood still counts %s, longest %s", w.waited, w.longest)
		}
		if told := w.String(); !strings.Contains(told, "1 looks, at most "+(10*patience).String()) {
			t.Errorf("it tells %s", told)
		}
		for w.waited <= patience {
			time.Sleep(stoodStill / 3)
			w.looked()
		}
		if took := time.Since(w.began) - 10*patience; took > patience {
			t.Errorf("looked for %s besides, and not for %s", took, patience-stoodStill)
		}
	})
}
