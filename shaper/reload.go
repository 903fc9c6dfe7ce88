package shaper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"bulkshaper/inventory"
	"bulkshaper/shaper/config"
)

// load reads the files in a goroutine of its own, so that a slow file system does not keep repairs waiting. One reading at a
// time: a wish during one gives one more after it.
func (l *Loop) load(ctx context.Context) {
	if l.loading {
		l.loadAgain = true
		return
	}
	l.loading = true
	go func() {
		input, err := l.Inputs.Load(ctx)
		l.loaded <- loadResult{input, err, time.Now()}
	}()
}

// take uses what was read, or keeps the last good input.
func (l *Loop) take(ctx context.Context, done loadResult) {
	l.loading = false
	if l.loadAgain {
		l.loadAgain = false
		l.load(ctx)
	}
	if ctx.Err() != nil {
		return
	}
	err := done.err
	if err == nil {
		if problems := Unchangeable(l.input.Config, done.input.Config); len(problems) > 0 {
			err = problems
		}
	}
	if err == nil {
		err = inventory.CheckShrink(l.input.Inventory, done.input.Inventory, done.input.Config.MaxShrink)
	}
	unchanged := err == nil && l.Snapshot().LastReload.Result == ReloadSuccess && sameInput(l.input, done.input)
	var desired *Desired
	if err == nil && !unchanged && l.desired != nil {
		l.lookAhead(ctx)
		defer l.lookNoMore()
		desired, err = Desire(done.input, l.Hostname, l.facts, l.over.list()...)
	}
	switch {
	case err != nil:
		l.refuse(done.at, err)
	case unchanged:
		l.Recorder.Reload(ReloadUnchanged, done.at)
		l.answerReload(done.at)
	default:
		l.accept(ctx, done, desired)
	}
	if l.announced && !l.loading {
		l.announced = false
		l.Notifier.Ready()
	}
}

// answerReload says to a person who asked for a reading that it was done, where nothing else does. Of many such wishes at once one is answered.
func (l *Loop) answerReload(at time.Time) {
	if l.announced && (l.answered.IsZero() || at.Sub(l.answered) >= answerPause) {
		l.answered = at
		l.Log.Info("files read again as told to (SIGHUP): nothing has changed", zap.Int("servers", len(l.input.Inventory.Servers)))
	}
}

func (l *Loop) refuse(at time.Time, err error) {
	problems := problemLines(err)
	last := l.Snapshot().LastReload
	l.Recorder.Reload(ReloadFailure, at)
	if last.Result != ReloadFailure || strings.Join(last.Problems, "\n") != strings.Join(problems, "\n") {
		l.remember(Event{Kind: EventRefused, Why: "files are wrong, so the last good ones stay in force", Problems: problems})
		l.Log.Error("input refused, the last good shaping stays", zap.Int("problems", len(problems)), zap.Strings("first", problems[:min(3, len(problems))]))
	}
	l.publish(func(s *Snapshot) { s.LastReload = Reload{Time: at, Result: ReloadFailure, Problems: problems} })
}

// accept takes a new input. Its plan is nil only while none could ever be made, since the link is not known yet.
func (l *Loop) accept(ctx context.Context, done loadResult, desired *Desired) {
	note := "files edited"
	if l.Snapshot().LastReload.Result == ReloadFailure {
		note = "files mended"
	}
	// Compared with what the daemon was started with: what is put back is in use.
	if keys := FromNextStart(l.started, done.input.Config); !slices.Equal(keys, l.fromNextStart) {
		if l.fromNextStart = keys; len(keys) > 0 {
			l.Log.Warn("used from the next start on", zap.Strings("keys", keys))
		}
	}
	if !l.reloadPending {
		l.edited = edits{}
	}
	l.edited.join(editsBetween(l.input, done.input))
	l.input, l.planned, l.settled, l.reloadPending = done.input, false, false, true
	if desired != nil {
		l.adopt(desired, l.facts)
	}
	l.publish(func(s *Snapshot) {
		s.LastReload, s.LastSuccess = Reload{Time: done.at, Result: ReloadSuccess}, done.at
		s.describe(l.input, l.desired)
	})
	l.tellWarnings()
	l.Recorder.Reload(ReloadSuccess, done.at)
	_ = l.reconcile(ctx, note) // it has logged and published the error, and set the next try
}

// sameInput tells whether nothing that was read makes a difference.
func sameInput(a, b Input) bool {
	return a.Inventory.Equal(b.Inventory) && sameConfig(a, b)
}

func sameConfig(a, b Input) bool { return reflect.DeepEqual(a.Config, b.Config) }

// Unchangeable is what a running daemon cannot change, and so refuses; nothing where all can be followed.
func Unchangeable(old, next *config.Config) inventory.Problems {
	var names []string
	differ := func(name, a, b string) {
		if a != b {
			names = append(names, fmt.Sprintf("%s (%s, now %s)", name, cmp.Or(a, "none"), cmp.Or(b, "none")))
		}
	}
	differ("interface", old.Interface, next.Interface)
	differ("metrics.listen", old.Listen, next.Listen)
	differ("metrics.web_config", old.WebConfig, next.WebConfig)
	differ("run_dir", old.RunDir, next.RunDir)
	if len(names) == 0 {
		return nil
	}
	return inventory.Problems{{File: next.File, Message: "changed while the daemon runs: " + strings.Join(names, ", "),
		Remedy: "restart the service to use it, or put it back"}}
}

// FromNextStart are the keys that differ and that only the start of the daemon looks at. The shaping does not depend on them, so the rest
// of the config is taken.
func FromNextStart(old, next *config.Config) (keys []string) {
	for _, key := range []struct {
		name    string
		differs bool
	}{
		{"inventory.debounce", old.Debounce != next.Debounce},
		{"inventory.rescan", old.Rescan != next.Rescan},
		{"log.level", old.Log.Level != next.Log.Level},
		{"log.format", old.Log.Format != next.Log.Format},
	} {
		if key.differs {
			keys = append(keys, key.name)
		}
	}
	return keys
}

// problemLines is an error as lines for the status.
func problemLines(err error) []string {
	var problems inventory.Problems
	if !errors.As(err, &problems) {
		return []string{err.Error()}
	}
	lines := make([]string, 0, min(len(problems), maxProblemLines))
	for i, p := range problems {
		if i == maxProblemLines {
			return append(lines, fmt.Sprintf("and %d more: run `bulkshaper check`", len(problems)-i))
		}
		lines = append(lines, p.String())
	}
	return lines
}

// maxProblemLines bounds what the status holds of a thoroughly broken inventory.
const maxProblemLines = 100
