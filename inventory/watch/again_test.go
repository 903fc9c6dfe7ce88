package watch

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestAgain names other folders without any event, as a config that was read does: they are watched at once, and an event makes
// up for what happened in them before. Where they are the same there is none, or reading would lead to reading without end.
func TestAgain(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var folder atomic.Pointer[string]
		folder.Store(&first)
		w := New(func() []string { return []string{*folder.Load()} }, Options{Rescan: time.Hour})
		fake := newFake()
		w.open = func() (notifier, error) { return fake, nil }
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		expect(t, w, Rescan)
		w.Again()
		expect(t, w, "")
		folder.Store(&second)
		w.Again()
		w.Again()
		expect(t, w, Rescan)
		if !fake.added[second] || fake.added[first] {
			t.Errorf("watched: %v", fake.added)
		}
		w.Again()
		expect(t, w, "")
		missing := filepath.Join(second, "not yet")
		folder.Store(&missing)
		w.Again() // the folder above is watched already
		expect(t, w, "")
		if err := os.Mkdir(missing, 0o755); err != nil {
			t.Fatal(err)
		}
		w.Again()
		expect(t, w, Rescan)
		cancel()
		<-done
	})
}
