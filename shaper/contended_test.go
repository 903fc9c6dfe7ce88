package shaper

import (
	"strings"
	"testing"
	"time"

	"bulkshaper/shaper/tc"
)

// contend has the root taken until a repair waits.
func (b *bench) contend() {
	b.t.Helper()
	for range 20 {
		b.kernel.TakeRoot(tc.Qdisc{Handle: tc.MakeHandle(0x42, 0), Parent: tc.Root, Kind: tc.KindHTB})
		b.wait(100 * time.Millisecond)
	}
	if s := b.Snapshot(); !s.Contended {
		b.t.Fatalf("not contended: %+v", s)
	}
}

// TestWaitingRepairIsNotInSync tells the truth while a repair waits: what stands is not what is wanted.
func TestWaitingRepairIsNotInSync(t *testing.T) {
	run(t, nil, func(b *bench) {
		b.contend()
		s := b.Snapshot()
		if s.InSync || !strings.Contains(s.Reason, "somebody keeps changing") {
			t.Errorf("in sync %v, %q", s.InSync, s.Reason)
		}
		told := len(b.notes.list())
		for range 5 {
			b.kernel.TakeRoot(tc.Qdisc{Handle: tc.MakeHandle(0x42, 0), Parent: tc.Root, Kind: tc.KindHTB})
			b.wait(10 * time.Millisecond)
		}
		if more := b.notes.list()[told:]; len(more) != 0 {
			t.Errorf("said again: %q", more)
		}
		b.wait(2 * time.Minute)
		b.shaped()
	})
}

// TestContentionDoesNotKeepANewLinkWaiting: an interface that is made again has to be shaped at once, whatever went on with the last.
func TestContentionDoesNotKeepANewLinkWaiting(t *testing.T) {
	run(t, nil, func(b *bench) {
		b.contend()
		b.kernel.RemoveLink()
		b.wait(100 * time.Millisecond)
		if s := b.Snapshot(); s.InterfaceUp || s.InSync {
			t.Errorf("interface up %v, in sync %v", s.InterfaceUp, s.InSync)
		}
		link := testLink()
		link.Index = 9
		b.kernel.SetLink(link)
		b.wait(100 * time.Millisecond)
		b.shaped()
	})
}

// TestErrorThatEndsTheStartIsTheCallersToTell: it is returned, so a line in the log would be a second one.
func TestErrorThatEndsTheStartIsTheCallersToTell(t *testing.T) {
	run(t, func(b *bench) {
		b.kernel.TakeRoot(tc.Qdisc{Handle: tc.MakeHandle(0x42, 0), Parent: tc.Root, Kind: tc.KindHTB})
	}, func(b *bench) {
		err := <-b.done
		if err == nil || !strings.Contains(err.Error(), "42:") {
			t.Errorf("the loop ended with %v", err)
		}
		if lines := b.messages(); len(lines) != 0 {
			t.Errorf("log: %q", lines)
		}
		b.done <- nil
	})
}
