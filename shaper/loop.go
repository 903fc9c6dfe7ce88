package shaper

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"bulkshaper/shaper/config"
	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
)

// Notifier tells the service manager how the loop is.
type Notifier interface {
	// Ready is called after the first success, and after a reload that was announced by Reloading.
	Ready()
	Reloading()
	// Status is one line for people; it is called only when the line changes.
	Status(line string)
}

// Options is what a Loop works with. All but Files, Reload and what is said to be optional must be given.
type Options struct {
	Kernel   Kernel
	Inputs   Inputs
	Recorder Recorder
	Notifier Notifier
	Log      *zap.Logger
	// Hostname helps to find this node in the inventory.
	Hostname string
	// Files wakes the loop to read the files again: an edit, or the periodic look at file systems that tell of none.
	Files <-chan struct{}
	// Reload is a person's request (SIGHUP) to read them now.
	Reload <-chan struct{}
	// Overrides are rates that people put over the config's for a while; nil for none. OverridesChanged wakes the loop to read them.
	Overrides        OverrideStore
	OverridesChanged <-chan struct{}
	// Hold says why the first pass has to wait, which an apply that is not confirmed yet is the reason for, "" when it need not any longer;
	// nil for never.
	Hold func() string
	// Unserved says why nobody can ask at metrics.listen, "" while it is served; nil where it is nobody's business.
	Unserved func() string
	// History is told what happens; nil for one that nobody else reads.
	History *History
}

// Loop keeps one interface as the input wants it. One goroutine, Run's, owns everything but the snapshot.
type Loop struct {
	Options
	snapshot  atomic.Pointer[Snapshot]
	known     atomic.Pointer[known]
	began     time.Time
	heartbeat atomic.Int64 // of Run, nanoseconds since began by the monotonic clock

	input Input
	// desired is the last that could be made; planned says that it, or desiredErr, is of this input and these facts.
	desired    *Desired
	desiredErr error
	planned    bool
	facts      plan.Facts
	hits       hits

	// started is the config of the start; fromNextStart are the keys that an edit gave other values, which only a start looks at.
	started       *config.Config
	fromNextStart []string

	// ownedLink is the index of the link that this loop has shaped; a root that is found replaced there is taken back.
	ownedLink int
	// settled says that nothing was asked for since the kernel was last seen as wanted: what differs then is drift.
	settled bool
	// converged has the state of that moment, and what stood there beside ours.
	converged  Outcome
	ready      bool
	starting   bool // a fatal error is returned, not logged
	contention contention
	retry      retry
	draining   map[tc.Handle]time.Time
	former     map[tc.Handle]string // names of the classes of earlier plans
	ahead      <-chan observation   // nil where none is under way
	over       overrides

	loading   bool
	loadAgain bool
	announced bool      // Reloading was said and Ready is owed
	answered  time.Time // when it was last logged that a reading as told brought nothing new
	loaded    chan loadResult
	// reloadPending says that a reload was taken and the log has no line about it yet; edited is what it was about.
	reloadPending bool
	edited        edits
	// warned are the warnings that the log has, by what they say; warnedOf are they as they were told.
	warned   map[string]bool
	warnedOf []string
	// noticed are the kinds of kernel events since the last pass.
	noticed []string

	again       *time.Timer
	wakeAt      time.Time
	wakePending bool
	told        string // to the service manager
}

type loadResult struct {
	input Input
	err   error
	at    time.Time
}

// New makes a loop whose first input is already read, so that a program with bad input ends before it touches anything.
func New(o Options, first Input) *Loop {
	if o.History == nil {
		o.History = NewHistory()
	}
	l := &Loop{Options: o, input: first, started: first.Config, draining: map[tc.Handle]time.Time{}, former: map[tc.Handle]string{}, loaded: make(chan loadResult, 1)}
	now := time.Now()
	l.began = now
	l.publish(func(s *Snapshot) {
		*s = SnapshotOf(first, nil)
		s.Started, s.Reason = now, "not shaped yet"
		s.LastReload, s.LastSuccess = Reload{Time: now, Result: ReloadSuccess, Start: true}, now
	})
	return l
}

// Snapshot is what the loop last knew.
func (l *Loop) Snapshot() Snapshot {
	s := *l.snapshot.Load()
	if l.History != nil {
		if err := l.History.Unkept(); err != nil {
			s.HistoryError = err.Error()
		}
	}
	if l.Unserved != nil {
		s.HTTPError = l.Unserved()
	}
	return s
}

// Stats reads the counters of the classes.
func (l *Loop) Stats(ctx context.Context) (tc.Stats, error) { return l.Kernel.Stats(ctx) }

// Heartbeat is when the loop last came around; a loop that hangs stops the watchdog.
// The time has a monotonic reading, so that its age is right after the machine's clock was set.
func (l *Loop) Heartbeat() time.Time { return l.began.Add(time.Duration(l.heartbeat.Load())) }

// beat is how often a loop with nothing to do still comes around.
const beat = time.Second

// Run keeps the interface shaped until ctx ends and then leaves the shaping as it is. It returns an error only for what
// waiting cannot mend at the first contact: a root qdisc that is not ours, a missing privilege.
func (l *Loop) Run(ctx context.Context) error {
	l.Recorder.Reload(ReloadSuccess, time.Now())
	events, err := l.Kernel.Watch(ctx)
	if err != nil {
		return fmt.Errorf("watch %s: %w", l.input.Config.Interface, err)
	}
	l.again = time.NewTimer(time.Hour)
	l.again.Stop()
	defer l.again.Stop()
	resync := time.NewTicker(l.input.Config.Resync)
	defer resync.Stop()
	alive := time.NewTicker(beat)
	defer alive.Stop()

	l.hold(ctx, events)
	l.starting = true
	l.readOverrides()
	if err := l.reconcile(ctx, "start"); err != nil && fatal(err) {
		return err
	}
	l.starting = false
	for {
		l.heartbeat.Store(int64(time.Since(l.began)))
		select {
		case <-ctx.Done():
			return nil
		case <-alive.C:
			l.overridesChanged(ctx, l.endOverrides(time.Now()))
		case <-l.OverridesChanged:
			l.overridesChanged(ctx, l.readOverrides())
		case <-l.Files:
			l.load(ctx)
		case <-l.Reload:
			l.announced = true
			l.Notifier.Reloading()
			l.load(ctx)
		case done := <-l.loaded:
			before := l.input.Config.Resync
			l.take(ctx, done)
			if l.input.Config.Resync != before {
				resync.Reset(l.input.Config.Resync)
			}
		case e, ok := <-events:
			if !ok {
				events = l.watchAgain(ctx)
				continue
			}
			if !e.Own {
				l.notice(e.Kind)
				l.contention.noticed(time.Now(), e.By)
				l.wake(settle)
			}
		case <-l.again.C:
			l.wakePending = false
			l.settle(ctx, kernelEvent)
		case <-resync.C:
			l.settle(ctx, "read-back")
		}
	}
}

// fatal says that trying again without a person's help is no use.
func fatal(err error) bool {
	var foreign *diff.ForeignRootError
	return errors.As(err, &foreign) || errors.Is(err, tc.ErrPermission)
}

// settle reconciles unless a contention says to wait.
func (l *Loop) settle(ctx context.Context, cause string) {
	if wait := l.contention.wait(time.Now()); wait > 0 && l.settled && l.look(ctx) {
		l.wake(wait)
		return
	}
	_ = l.reconcile(ctx, cause) // it has logged and published the error, and set the next try
}

// wake makes the loop reconcile after d, or earlier where that is already due.
func (l *Loop) wake(d time.Duration) {
	if !l.wakePending || d < time.Until(l.wakeAt) {
		l.wakePending, l.wakeAt = true, time.Now().Add(d)
		l.again.Reset(d)
	}
}

func (l *Loop) watchAgain(ctx context.Context) <-chan tc.Event {
	events, err := l.Kernel.Watch(ctx)
	if err != nil {
		if ctx.Err() == nil {
			l.Log.Warn("kernel events are lost; the periodic read-back goes on", zap.Error(err))
		}
		return nil
	}
	l.wake(settle)
	return events
}

// publish makes a new snapshot out of the last one.
func (l *Loop) publish(edit func(*Snapshot)) {
	var next Snapshot
	if old := l.snapshot.Load(); old != nil {
		next = *old
	}
	edit(&next)
	l.snapshot.Store(&next)
}
