package watch

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeNotifier stands in for inotify: events are what the test sends.
type fakeNotifier struct {
	events chan fsnotify.Event
	errs   chan error
	added  map[string]bool
	addErr error
	closed bool
}

func newFake() *fakeNotifier {
	return &fakeNotifier{events: make(chan fsnotify.Event), errs: make(chan error), added: make(map[string]bool)}
}

func (f *fakeNotifier) Add(folder string) error {
	if f.addErr != nil {
		return f.addErr
	}
	f.added[folder] = true
	return nil
}

func (f *fakeNotifier) Remove(folder string) error {
	if !f.added[folder] {
		return fsnotify.ErrNonExistentWatch
	}
	delete(f.added, folder)
	return nil
}

func (f *fakeNotifier) WatchList() (list []string) {
	for folder := range f.added {
		list = append(list, folder)
	}
	return list
}

func (f *fakeNotifier) Close() error                  { f.closed = true; return nil }
func (f *fakeNotifier) Events() <-chan fsnotify.Event { return f.events }
func (f *fakeNotifier) Errors() <-chan error          { return f.errs }

// bubble runs test inside a synctest bubble with a watcher whose notifiers come from open (nil: one that works), already past
// its first event. Channels must be made within the bubble.
func bubble(t *testing.T, opts Options, open func() (notifier, error), test func(t *testing.T, w *Watcher, fake *fakeNotifier)) {
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := New(func() []string { return []string{folder} }, opts)
		var last *fakeNotifier
		w.open = func() (notifier, error) {
			last = newFake()
			return last, nil
		}
		if open != nil {
			w.open = open
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		synctest.Wait()
		expect(t, w, Rescan)
		test(t, w, last)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v, want the context's error", err)
		}
	})
}

// expect wants exactly one event waiting, of a kind, or none for "".
func expect(t *testing.T, w *Watcher, kind Kind) {
	t.Helper()
	synctest.Wait()
	var got Kind
	select {
	case e := <-w.C():
		got = e.Kind
	default:
	}
	if got != kind {
		t.Fatalf("event %q at %v, want %q", got, time.Now().Format("05.000"), kind)
	}
	if len(w.C()) != 0 {
		t.Fatal("a second event waits")
	}
}

func write(name string) fsnotify.Event { return fsnotify.Event{Name: name, Op: fsnotify.Write} }

func TestBurstIsOneEvent(t *testing.T) {
	bubble(t, Options{Debounce: 200 * time.Millisecond}, nil, func(t *testing.T, w *Watcher, fake *fakeNotifier) {
		for range 5 {
			fake.events <- write("x.json")
			time.Sleep(199 * time.Millisecond)
			expect(t, w, "")
		}
		time.Sleep(time.Millisecond)
		expect(t, w, FileEvent)
		time.Sleep(10 * time.Second)
		expect(t, w, "")
	})
}

func TestConstantStreamIsToldOfAllTheSame(t *testing.T) {
	bubble(t, Options{Debounce: 200 * time.Millisecond}, nil, func(t *testing.T, w *Watcher, fake *fakeNotifier) {
		events, start := 0, time.Now()
		for time.Since(start) < 20*time.Second {
			fake.events <- write("x.json")
			time.Sleep(50 * time.Millisecond)
			select {
			case <-w.C():
				events++
			default:
			}
		}
		if events < 8 || events > 10 {
			t.Errorf("%d events in 20 s of a constant stream, want one each 2 s", events)
		}
	})
}

func TestNoDebounceTellsAtOnce(t *testing.T) {
	bubble(t, Options{}, nil, func(t *testing.T, w *Watcher, fake *fakeNotifier) {
		start := time.Now()
		for range 3 {
			fake.events <- write("x.json")
			expect(t, w, FileEvent)
		}
		if time.Since(start) != 0 {
			t.Errorf("it took %v", time.Since(start))
		}
	})
}

func TestRescanGoesOn(t *testing.T) {
	bubble(t, Options{Rescan: 30 * time.Second}, nil, func(t *testing.T, w *Watcher, fake *fakeNotifier) {
		for range 3 {
			time.Sleep(30*time.Second - time.Millisecond)
			expect(t, w, "")
			time.Sleep(time.Millisecond)
			expect(t, w, Rescan)
		}
	})
}

// TestWaitingEventsAreOne leaves events untaken: one is left, and a file event is not hidden by a rescan.
func TestWaitingEventsAreOne(t *testing.T) {
	bubble(t, Options{Rescan: time.Second}, nil, func(t *testing.T, w *Watcher, fake *fakeNotifier) {
		time.Sleep(3 * time.Second)
		expect(t, w, Rescan)
		time.Sleep(time.Second)
		fake.events <- write("x.json")
		time.Sleep(time.Second)
		expect(t, w, FileEvent)
	})
}

func TestOverflowIsAnEvent(t *testing.T) {
	bubble(t, Options{Debounce: time.Second}, nil, func(t *testing.T, w *Watcher, fake *fakeNotifier) {
		fake.errs <- fsnotify.ErrEventOverflow
		time.Sleep(time.Second)
		expect(t, w, FileEvent)
	})
}

// TestPollMode takes inotify away in every way it can be missing: rescans go on, one warning is given, and watching is taken up
// again when it works.
func TestPollMode(t *testing.T) {
	for _, test := range []struct {
		name    string
		openErr error
		addErr  error
	}{
		{"no instances left", syscall.EMFILE, nil},
		{"no inotify", syscall.ENOSYS, nil},
		{"no watches left", nil, syscall.ENOSPC},
		{"no descriptors left", nil, syscall.EMFILE},
		{"no memory left", nil, &os.PathError{Op: "inotify_add_watch", Err: syscall.ENOMEM}},
	} {
		t.Run(test.name, func(t *testing.T) {
			core, logs := observer.New(zap.InfoLevel)
			var fakes []*fakeNotifier
			var failing atomic.Bool
			failing.Store(true)
			open := func() (notifier, error) {
				fake := newFake()
				if failing.Load() {
					if test.openErr != nil {
						return nil, test.openErr
					}
					fake.addErr = test.addErr
				}
				fakes = append(fakes, fake)
				return fake, nil
			}
			opts := Options{Rescan: time.Minute, Log: zap.New(core)}
			bubble(t, opts, open, func(t *testing.T, w *Watcher, _ *fakeNotifier) {
				for range 3 {
					time.Sleep(time.Minute)
					expect(t, w, Rescan)
				}
				if n := logs.FilterLevelExact(zap.WarnLevel).Len(); n != 1 {
					t.Errorf("%d warnings, want 1: %v", n, logs.All())
				}
				failing.Store(false)
				time.Sleep(time.Minute)
				expect(t, w, Rescan)
				fakes[len(fakes)-1].events <- write("x.json")
				expect(t, w, FileEvent)
			})
			for i, fake := range fakes {
				if !fake.closed {
					t.Errorf("notifier %d of %d was left open", i, len(fakes))
				}
			}
			if logs.Len() != 2 {
				t.Errorf("log has %v, want one line when watching fails and one when it works again", logs.All())
			}
		})
	}
}

func TestClosedNotifierIsOpenedAgain(t *testing.T) {
	var fakes []*fakeNotifier
	open := func() (notifier, error) {
		fakes = append(fakes, newFake())
		return fakes[len(fakes)-1], nil
	}
	bubble(t, Options{Rescan: time.Minute}, open, func(t *testing.T, w *Watcher, _ *fakeNotifier) {
		close(fakes[0].events)
		time.Sleep(time.Minute)
		expect(t, w, Rescan)
		fakes[1].events <- write("x.json")
		expect(t, w, FileEvent)
	})
}
