package shaper

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"bulkshaper/shaper/config"
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

// TestClassThatGoesHasItsName in the log, the history and what the last reload changed.
func TestClassThatGoesHasItsName(t *testing.T) {
	run(t, nil, func(b *bench) {
		next := benchInput(nil)
		next.Config.Classes = slices.DeleteFunc(next.Config.Classes, func(c config.Class) bool { return c.Name == "priority-role" })
		next.Config.Rules = slices.DeleteFunc(next.Config.Rules, func(r config.Rule) bool { return r.Class == "priority-role" })
		b.inputs.set(next, nil)
		b.files <- struct{}{}
		b.wait(0)
		all := b.logs.All()
		if text := fmt.Sprint(all[len(all)-1].ContextMap()["operations"]); !strings.Contains(text, "priority-role: delete class 1:30") {
			t.Errorf("log: %s", text)
		}
		if text := strings.Join(b.Snapshot().LastReload.Changed, "; "); !strings.Contains(text, "remove priority-role 1:30 (not in the plan any more)") {
			t.Errorf("changed: %s", text)
		}
		events := b.History.Events()
		if text := fmt.Sprintf("%+v", events[len(events)-1].Operations); !strings.Contains(text, "{Object:class 1:30 Class:priority-role") {
			t.Errorf("history: %s", text)
		}
	})
}

// TestNodeThatTheConfigNames is known before the interface is there.
func TestNodeThatTheConfigNames(t *testing.T) {
	if s := SnapshotOf(benchInput(nil), nil); s.Node != "hadoop01" || s.Cabinet != "b1" {
		t.Errorf("node %q in cabinet %q", s.Node, s.Cabinet)
	}
}
