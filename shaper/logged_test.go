package shaper

import (
	"fmt"
	"strings"
	"testing"

	"bulkshaper/shaper/tc"
)

// TestLoopLogsWhatItDidAndNotThatItWaited: a time for packets under way is no operation to an operator, as it is none in the history.
func TestLoopLogsWhatItDidAndNotThatItWaited(t *testing.T) {
	run(t, nil, func(b *bench) {
		other := benchInput(nil)
		other.Config.Layout = "list"
		b.inputs.set(other, nil)
		b.files <- struct{}{}
		b.wait(0)
		b.shaped()
		if b.counts.get("change class done") == 0 {
			t.Fatal("there was no time to wait for")
		}
		lines := b.logs.FilterMessage("shaping changed").All()
		text := fmt.Sprint(lines[len(lines)-1].ContextMap()["operations"])
		if !strings.Contains(text, "delete filter") || strings.Contains(text, "class") {
			t.Errorf("operations: %s", text)
		}
	})
}

// TestBecauseIsInWords, of an event as of several, and of those that were lost.
func TestBecauseIsInWords(t *testing.T) {
	t.Parallel()
	for want, kinds := range map[string][]tc.EventKind{
		"retry":                              nil,
		"changed in the kernel: filter":      {tc.EventFilter, tc.EventFilter},
		"changed in the kernel: class, link": {tc.EventLink, tc.EventClass},
		"events of the kernel were lost":     {tc.EventLost},
		"events of the kernel were lost; changed in the kernel: qdisc": {tc.EventQdisc, tc.EventLost},
	} {
		l := &Loop{}
		for _, kind := range kinds {
			l.notice(kind)
		}
		if got := l.because(kernelEvent); got != want {
			t.Errorf("%q: %q", kinds, got)
		}
	}
}
