//go:build system

package guest

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// setClock sets the wall clock of the machine, and puts it back at the end of the test.
func setClock(t *testing.T, by time.Duration) {
	t.Helper()
	if err := shiftClock(by); err != nil {
		t.Fatalf("set the clock: %v", err)
	}
	t.Cleanup(func() {
		if err := shiftClock(-by); err != nil {
			t.Errorf("set the clock back: %v", err)
		}
	})
}

func shiftClock(by time.Duration) error {
	to := unix.NsecToTimespec(time.Now().Add(by).UnixNano())
	return unix.ClockSettime(unix.CLOCK_REALTIME, &to)
}

// rate is that of a class as tc shows it.
func (h *host) rate(class string) string {
	m := regexp.MustCompile(`rate (\S+) `).FindStringSubmatch(h.TC("class", "show", "dev", "eth1", "classid", class))
	if m == nil {
		return "none"
	}
	return m[1]
}

func (h *host) hasRate(class, want string) {
	h.t.Helper()
	eventually(h.t, func() string {
		if got := h.rate(class); got != want {
			return fmt.Sprintf("the rate of %s is %s, not %s", class, got, want)
		}
		return ""
	})
}

// TestTheClockIsSet under a running daemon, forth and back by minutes and by years: repairs go on, an override stands until the clock says that
// its end has come, and the log stays short.
//
// PROMISES.md: The machine's clock is set
func TestTheClockIsSet(t *testing.T) {
	const cross, configured = "1:20", "204800Kbit"
	h := newHost(t)
	log, _ := h.daemon("--resync", "1s", "--log-format", "json")
	h.hasRate(cross, configured)
	repaired := func() { // a few times: more would be contention
		t.Helper()
		h.TC("class", "change", "dev", "eth1", "classid", cross, "htb", "rate", "1mbit")
		h.hasRate(cross, configured)
	}

	// On by less than the override has: it stands. Over its end: it goes, within the time that the run folder is looked at without events.
	override := func() {
		t.Helper()
		h.must("override", "cross-cabinet", "rate=50mbit", "--for", "30m", "--run-dir", h.runDir())
		h.hasRate(cross, "50Mbit")
	}
	override()
	setClock(t, 20*time.Minute)
	time.Sleep(3 * time.Second) // several passes of the loop
	h.hasRate(cross, "50Mbit")
	setClock(t, 11*time.Minute)
	h.hasRate(cross, configured)

	// Back: one that is set now stands, though its end was there before.
	setClock(t, -24*time.Hour)
	repaired()
	override()
	time.Sleep(3 * time.Second)
	h.hasRate(cross, "50Mbit")
	setClock(t, 10*365*24*time.Hour)
	h.hasRate(cross, configured)
	repaired()
	setClock(t, -20*365*24*time.Hour)
	repaired()
	if text := h.must("status", "--run-dir", h.runDir()); !strings.Contains(text, "in sync") {
		t.Errorf("status after all that:\n%s", text)
	}
	h.nothingLeft()
	for _, line := range lines(log.String(), `"level":"`) {
		if strings.Contains(line, `"level":"error"`) || strings.Contains(line, `"level":"warn"`) && !strings.Contains(line, "repaired what somebody else changed") {
			t.Errorf("the log has %s", line)
		}
	}
	if n := strings.Count(log.String(), "\n"); n > 40 {
		t.Errorf("%d lines of log:\n%s", n, log)
	}
}
