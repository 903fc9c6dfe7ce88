package shaper

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
)

// TestHistoryThatCannotBeKept is told once in the log, and in what is published until it could be written.
func TestHistoryThatCannotBeKept(t *testing.T) {
	run(t, nil, func(b *bench) {
		dir := filepath.Join(b.t.TempDir(), "run")
		ctx, end := context.WithCancel(b.t.Context())
		ended := make(chan struct{})
		go func() { b.History.Keep(ctx, dir, zap.New(b.Log.Core())); close(ended) }()
		b.wait(0)
		b.History.Add(Event{Kind: EventReload})
		b.wait(2 * historyPause)
		if s := b.Snapshot().HistoryError; !strings.Contains(s, filepath.Join(dir, HistoryFile)+": no such file or directory") {
			t.Errorf("history error %q", s)
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		b.wait(historyRetry)
		if s := b.Snapshot().HistoryError; s != "" {
			t.Errorf("the folder can be written into, and still: %s", s)
		}
		if events, err := ReadHistory(dir); err != nil || len(events) != 2 {
			t.Errorf("%d events, %v", len(events), err)
		}
		end()
		<-ended
		if got := fmt.Sprint(b.messages()); got != "[shaping changed the history cannot be kept over a restart the history is kept over a restart again]" {
			t.Errorf("log: %s", got)
		}
	})
}

// TestLogNamesClasses beside their handles.
func TestLogNamesClasses(t *testing.T) {
	s := &shelf{}
	run(t, withShelf(s), func(b *bench) {
		s.put(crossAt(turned, historyRetry))
		s.wake <- struct{}{}
		b.wait(0)
		for _, e := range b.logs.FilterMessage("shaping changed").All() {
			text := fmt.Sprint(e.ContextMap()["operations"])
			if strings.Contains(text, "change class") {
				if !strings.Contains(text, "cross-cabinet: change class 1:20 (rate is ") {
					t.Errorf("operations: %s", text)
				}
				return
			}
		}
		t.Errorf("no change of a class in %q", b.messages())
	})
}
