package watch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

func plainNames(path string) bool { return !strings.Contains(path, "folder") }

// expectChanges wants these paths since the last time; "*" stands for all.
func expectChanges(t *testing.T, w *Watcher, want ...string) {
	t.Helper()
	paths, all := w.Changes()
	if all {
		paths = append(paths, "*")
	}
	if !slices.Equal(paths, want) {
		t.Errorf("changes %q, want %q", paths, want)
	}
}

// TestChanges follows what events name, until they are taken.
func TestChanges(t *testing.T) {
	bubble(t, Options{Debounce: time.Second, Rescan: time.Minute, Plain: plainNames}, nil, func(t *testing.T, w *Watcher, fake *fakeNotifier) {
		burst := func(names ...string) {
			for _, name := range names {
				fake.events <- write(name)
			}
			time.Sleep(time.Second)
			expect(t, w, FileEvent)
		}
		expectChanges(t, w, "*") // whoever read before the first event may have missed a change
		burst("b", "a", "b")
		expectChanges(t, w, "a", "b")
		expectChanges(t, w)
		burst("a")
		burst("c")
		expectChanges(t, w, "a", "c")
		burst("a", "folder")
		burst("a")
		expectChanges(t, w, "*")
		burst("a")
		fake.errs <- fsnotify.ErrEventOverflow
		time.Sleep(time.Second)
		expect(t, w, FileEvent)
		expectChanges(t, w, "*")
		burst("a")
		w.Everything()
		expectChanges(t, w, "*")
		var many []string
		for i := range maxPaths + 1 {
			many = append(many, fmt.Sprint(i))
		}
		burst(many...)
		expectChanges(t, w, "*")
		burst(many[:maxPaths]...)
		burst(many[maxPaths])
		expectChanges(t, w, "*")
		burst("a")
		time.Sleep(time.Minute)
		expect(t, w, Rescan)
		expectChanges(t, w, "*")
		for folder := range fake.added { // the folder itself went away
			fake.events <- fsnotify.Event{Name: folder, Op: fsnotify.Remove}
			break
		}
		time.Sleep(time.Second)
		expect(t, w, FileEvent)
		expectChanges(t, w, "*")
	})
}

// TestPlainChangesLeaveFoldersAlone counts how often the folders are asked for.
func TestPlainChangesLeaveFoldersAlone(t *testing.T) {
	bubble(t, Options{Plain: plainNames}, nil, func(t *testing.T, w *Watcher, fake *fakeNotifier) {
		asked := 0
		folders := w.folders
		w.folders = func() []string { asked++; return folders() }
		fake.events <- write("x.json")
		expect(t, w, FileEvent)
		if asked != 0 {
			t.Errorf("asked %d times after a plain change", asked)
		}
		fake.events <- write("folder")
		expect(t, w, FileEvent)
		if asked == 0 {
			t.Error("not asked after another")
		}
	})
}

// TestWithoutPlainEverythingMayHaveChanged is for those who do not know.
func TestWithoutPlainEverythingMayHaveChanged(t *testing.T) {
	bubble(t, Options{}, nil, func(t *testing.T, w *Watcher, fake *fakeNotifier) {
		expectChanges(t, w, "*")
		fake.events <- write("x.json")
		expect(t, w, FileEvent)
		expectChanges(t, w, "*")
	})
}
