package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// endPatience is how long the parts of the daemon have to end once it was told to stop. They need some 30 ms, an HTTP answer that is
	// under way up to 5 s. It is below the unit's TimeoutStopSec: systemd kills without a word what does not end, and then nobody learns why.
	endPatience = 12 * time.Second
	// sayPatience is how long the log is waited for then: it may be what the others wait for.
	sayPatience = time.Second
	// stacksSize is room for the stacks of all goroutines, bytes.
	stacksSize = 1 << 20
)

// ending sees to it that a daemon which was told to stop ends, though a part of it hangs: on a disk that takes nothing, say. The
// shaping stays in the kernel whatever becomes of the daemon, and what it does is made to be cut off anywhere, so to end without such a part
// costs nothing; to stay costs the next start.
type ending struct {
	mu    sync.Mutex
	log   *zap.Logger // nil before there is one
	parts []string    // that have not ended
}

// lateError is that of a daemon that ended without some of its parts.
type lateError struct {
	after time.Duration
	parts []string
}

func (e *lateError) Error() string {
	waited := strings.Join(e.parts, ", ")
	if waited == "" {
		waited = "reading its files"
	}
	return fmt.Sprintf("stop: waited %s in vain for: %s", e.after, waited)
}

// logTo has the ending told in a log.
func (e *ending) logTo(log *zap.Logger) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.log = log
}

// logged tells whether there is a log that has told it.
func (e *ending) logged() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.log != nil
}

// part names a part that is waited for from now until it is called to have ended.
func (e *ending) part(name string) (ended func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.parts = append(e.parts, name)
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if i := slices.Index(e.parts, name); i >= 0 {
			e.parts = slices.Delete(e.parts, i, i+1)
		}
	}
}

// closing does what may hang, under a name.
func (e *ending) closing(name string, do func()) {
	defer e.part(name)()
	do()
}

// within runs serve. Its error is that of serve, or a lateError where serve goes on for longer than patience after the end of ctx.
func (e *ending) within(ctx context.Context, patience time.Duration, serve func() error) error {
	done := make(chan error, 1)
	go func() { done <- serve() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		return e.tooLate(patience)
	}
}

// tooLate tells what is waited for, and at level debug where each goroutine is.
func (e *ending) tooLate(after time.Duration) error {
	e.mu.Lock()
	err, log := &lateError{after, slices.Clone(e.parts)}, e.log
	e.mu.Unlock()
	if log == nil {
		return err
	}
	said := make(chan struct{})
	go func() {
		defer close(said)
		log.Error("told to stop, and not all of it ended: the daemon ends without the rest; the shaping stays",
			zap.Duration("after", after), zap.Strings("waiting_for", err.parts))
		if log.Core().Enabled(zap.DebugLevel) {
			stacks := make([]byte, stacksSize)
			log.Debug("where each goroutine is", zap.ByteString("stacks", stacks[:runtime.Stack(stacks, true)]))
		}
		_ = log.Sync() // who reads it may be what hangs
	}()
	select {
	case <-said:
	case <-time.After(sayPatience):
	}
	return err
}
