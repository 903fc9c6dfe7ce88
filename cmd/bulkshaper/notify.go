package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"bulkshaper/shaper"
)

// systemd tells systemd how the daemon is (sd_notify(3)); without NOTIFY_SOCKET nothing is told. Messages wait in a list until the
// manager takes them: one that does not read, since it hangs or is frozen, may not keep the loop from its work.
type systemd struct {
	ready   atomic.Bool
	mu      sync.Mutex
	waiting []message // one of a kind at most
	wake    chan struct{}
}

type message struct{ kind, text string }

const (
	// tellPatience is how long a message waits for room in the manager's socket before it is looked whether there is a newer one.
	tellPatience = time.Second
	// statusKind is that of STATUS=, of which the newest stands for all.
	statusKind = "STATUS"
)

func newSystemd() *systemd { return &systemd{wake: make(chan struct{}, 1)} }

func (s *systemd) Ready() {
	s.ready.Store(true)
	s.tell(message{daemon.SdNotifyReady, daemon.SdNotifyReady})
}

func (s *systemd) Reloading() {
	text := daemon.SdNotifyReloading
	if now, err := monotonic(); err == nil {
		text += fmt.Sprintf("\nMONOTONIC_USEC=%d", now.Microseconds())
	}
	s.tell(message{daemon.SdNotifyReloading, text})
}

func (s *systemd) Status(line string) { s.tell(message{statusKind, "STATUS=" + line}) }

// readyError is nil while the interface is there and was shaped once. That what stands was changed since is told by in_sync: the
// daemon is as ready to put it right as it can be.
func readyError(s *systemd, snap shaper.Snapshot) error {
	switch {
	case !s.ready.Load():
		return fmt.Errorf("%s was not shaped yet: %s", snap.Interface, snap.Reason)
	case snap.InterfaceGone:
		return fmt.Errorf("%s is not shaped: %s", snap.Interface, snap.Reason)
	}
	return nil
}

// tell puts a message behind those that wait; an older one of its kind goes.
func (s *systemd) tell(m message) {
	s.mu.Lock()
	s.waiting = append(slices.DeleteFunc(s.waiting, func(w message) bool { return w.kind == m.kind }), m)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take removes the message that waits longest.
func (s *systemd) take() (message, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		return message{}, false
	}
	m := s.waiting[0]
	s.waiting = slices.Delete(s.waiting, 0, 1)
	return m, true
}

// putBack has a message that found no room wait again, first, unless there is a newer one of its kind.
func (s *systemd) putBack(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.ContainsFunc(s.waiting, func(w message) bool { return w.kind == m.kind }) {
		s.waiting = slices.Insert(s.waiting, 0, m)
	}
}

// deliver sends what waits until ctx ends.
func (s *systemd) deliver(ctx context.Context) {
	socket := os.Getenv("NOTIFY_SOCKET")
	for {
		m, ok := s.take()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-s.wake:
			}
			continue
		}
		if socket == "" {
			continue
		}
		if err := notify(socket, m.text); errors.Is(err, os.ErrDeadlineExceeded) { // any other error is a manager that is not there
			s.putBack(m)
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// notify sends one message to the manager's socket.
func notify(socket, text string) error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(tellPatience)); err != nil {
		return err
	}
	_, err = conn.Write([]byte(text))
	return err
}

// watchdog tells systemd that the daemon lives for as long as the loop comes around.
func (s *systemd) watchdog(ctx context.Context, heartbeat func() time.Time) {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil || interval == 0 {
		return
	}
	tick := time.NewTicker(interval / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if time.Since(heartbeat()) < max(stuckAfter, interval) {
				s.tell(message{daemon.SdNotifyWatchdog, daemon.SdNotifyWatchdog})
			}
		}
	}
}
