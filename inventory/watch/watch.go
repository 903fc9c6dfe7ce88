package watch

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
)

// Kind is what made an event.
type Kind string

const (
	// FileEvent says that something happened in a watched folder.
	FileEvent Kind = "file event"
	// Rescan says that it is time to look, whether or not anything happened.
	Rescan Kind = "rescan"
)

// Event says that files should be read again.
type Event struct{ Kind Kind }

// DefaultRescan is the time between two looks where Options has none.
const DefaultRescan = time.Minute

// Options are the times of a watcher, and its log.
type Options struct {
	// Debounce is how long it must be quiet after an event; 0 tells of each at once.
	Debounce time.Duration
	// Rescan is the time between two looks without any event.
	Rescan time.Duration
	// Plain tells of a path that an event named whether it can only be that of a file, so that the folders stay the same. nil is no.
	Plain func(path string) bool
	// Idle tells of a path that an event named whether nothing that is read can depend on it. Such an event is none: a log that grows
	// beside the config would put off every reading. nil is no.
	Idle func(path string) bool
	// Log may be nil.
	Log *zap.Logger
}

// Watcher tells when files in folders may have changed.
type Watcher struct {
	folders func() []string
	opts    Options
	events  chan Event
	again   chan struct{}
	open    func() (notifier, error)
	changes changes

	// What follows belongs to Run.
	notify  notifier // nil in poll mode
	watched map[string]folderID
	polling bool
}

// notifier is what is used of fsnotify.
type notifier interface {
	Add(folder string) error
	Remove(folder string) error
	WatchList() []string
	Close() error
	Events() <-chan fsnotify.Event
	Errors() <-chan error
}

type inotify struct{ *fsnotify.Watcher }

func (n inotify) Events() <-chan fsnotify.Event { return n.Watcher.Events }
func (n inotify) Errors() <-chan error          { return n.Watcher.Errors }

func openInotify() (notifier, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("open inotify: %w", err)
	}
	return inotify{w}, nil
}

// New makes a watcher of the folders that folders returns. It is asked again at every event and rescan and by Again, and may name
// folders that do not exist. Nothing is watched before Run.
func New(folders func() []string, opts Options) *Watcher {
	if opts.Rescan <= 0 {
		opts.Rescan = DefaultRescan
	}
	if opts.Log == nil {
		opts.Log = zap.NewNop()
	}
	return &Watcher{folders: folders, opts: opts, events: make(chan Event, 1), again: make(chan struct{}, 1), open: openInotify, watched: make(map[string]folderID)}
}

// C has the events. Those that come before one is taken are one event.
func (w *Watcher) C() <-chan Event { return w.events }

// Again has the folders asked for again, since there may be others now: what was read named them. Files in those that are watched
// from now on may have been changed unseen, so there is an event if there are any.
func (w *Watcher) Again() {
	select {
	case w.again <- struct{}{}:
	default:
	}
}

// Run watches until ctx is done and returns its error. The first event, a Rescan, comes as soon as the folders are watched:
// whoever read files before that may have missed a change. Where folders cannot be watched (no inotify, no watches or
// descriptors left) the rescans go on, with one warning in the log.
func (w *Watcher) Run(ctx context.Context) error {
	defer w.close()
	w.arm()
	w.rescan()
	burst := debouncer{quiet: w.opts.Debounce}
	timer := time.NewTimer(0)
	timer.Stop()
	defer timer.Stop()
	tick := time.NewTicker(w.opts.Rescan)
	defer tick.Stop()
	for {
		var events <-chan fsnotify.Event
		var errs <-chan error
		if w.notify != nil {
			events, errs = w.notify.Events(), w.notify.Errors()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event, ok := <-events:
			if !ok {
				w.poll(fsnotify.ErrClosed)
				continue
			}
			if _, folder := w.watched[event.Name]; !folder && w.opts.Idle != nil && w.opts.Idle(event.Name) {
				continue
			}
			w.forget(event)
			burst.event(time.Now())
			w.changes.note(event.Name)
		case err, ok := <-errs:
			if !ok {
				w.poll(fsnotify.ErrClosed)
				continue
			}
			// Events were lost (a queue overflow), or may have been.
			w.opts.Log.Debug("file events lost", zap.Error(err))
			burst.event(time.Now())
			w.changes.noteAll()
		case <-timer.C:
		case <-w.again:
			before := maps.Clone(w.watched)
			if w.arm(); !maps.Equal(before, w.watched) {
				w.rescan()
			}
		case <-tick.C:
			w.arm()
			w.rescan()
		}
		if !burst.pending {
			continue
		}
		if wait := burst.due(time.Now()); wait > 0 {
			timer.Reset(wait)
			continue
		}
		burst.done()
		if !w.changes.settle(w.opts.Plain) {
			w.arm() // before the event: what changes after it was read is an event again
		}
		w.emit(FileEvent)
	}
}

// rescan tells of a look at everything.
func (w *Watcher) rescan() {
	w.changes.expectAll()
	w.emit(Rescan)
}

// emit puts an event into the channel. One that waits there already stands for both; a file event is the stronger.
func (w *Watcher) emit(kind Kind) {
	select {
	case w.events <- Event{kind}:
		return
	default:
	}
	if kind != FileEvent {
		return
	}
	select {
	case <-w.events:
	default:
	}
	select {
	case w.events <- Event{kind}:
	default: // cannot be: nobody else writes
	}
}

// forget drops what is known of a folder that went away, so that it is watched anew.
func (w *Watcher) forget(event fsnotify.Event) {
	if _, folder := w.watched[event.Name]; folder {
		w.changes.noteAll()
	}
	if event.Has(fsnotify.Remove) || event.Has(fsnotify.Rename) {
		delete(w.watched, event.Name)
	}
}

// poll gives up watching until the next rescan tries again, and says so once.
func (w *Watcher) poll(err error) {
	w.close()
	if !w.polling {
		w.opts.Log.Warn("folders cannot be watched: files are only looked at again from time to time", zap.Error(err),
			zap.Duration("every", w.opts.Rescan), zap.String("remedy", "raise fs.inotify.max_user_watches and fs.inotify.max_user_instances (sysctl), or LimitNOFILE"))
	}
	w.polling = true
}

func (w *Watcher) close() {
	if w.notify != nil {
		_ = w.notify.Close() // nothing is left to lose
		w.notify = nil
	}
	clear(w.watched)
}
