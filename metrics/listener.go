package metrics

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// These say when a connection may be given up for another, when there are as many as may be: one on which nothing has moved for so long.
const (
	staleAfter = 2 * time.Second
	// busyStaleAfter is for one whose answer we are working on: it may wait for its turn (scrapeWait).
	busyStaleAfter = 2 * scrapeWait
)

// boundedListener holds so many connections at most. A new one is let in all the same, so that a health check is answered beside
// hundreds of clients that say nothing or never read: the one on which nothing has moved for the longest time is closed for it. While
// all are busy the new one waits.
type boundedListener struct {
	net.Listener
	most  int
	stale time.Duration // staleAfter, but for tests

	mu    sync.Mutex
	open  map[*boundedConn]struct{}
	freed chan struct{} // has an element when a connection was closed since the last look

	ended chan struct{}
	end   sync.Once
}

func newBoundedListener(l net.Listener, most int) *boundedListener {
	return &boundedListener{Listener: l, most: most, stale: staleAfter, open: make(map[*boundedConn]struct{}), freed: make(chan struct{}, 1), ended: make(chan struct{})}
}

// Accept gives the next connection when there is room for it.
func (l *boundedListener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &boundedConn{Conn: raw, listener: l}
	c.moved.Store(time.Now().UnixNano())
	for {
		wait, ok := l.admit(c)
		if ok {
			return c, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-l.freed:
		case <-timer.C:
		case <-l.ended:
			timer.Stop()
			_ = raw.Close() // nobody answers any more
			return nil, net.ErrClosed
		}
		timer.Stop()
	}
}

// Close ends also an Accept that waits for room.
func (l *boundedListener) Close() error {
	l.end.Do(func() { close(l.ended) })
	return l.Listener.Close()
}

// admit takes c where there is room, or makes some. Otherwise it says how long from now the first connection will count as stale.
func (l *boundedListener) admit(c *boundedConn) (wait time.Duration, ok bool) {
	l.mu.Lock()
	if len(l.open) < l.most {
		l.open[c] = struct{}{}
		l.mu.Unlock()
		return 0, true
	}
	now := time.Now()
	var stalest *boundedConn
	for other := range l.open {
		if d := other.staleIn(now); stalest == nil || d < wait {
			stalest, wait = other, d
		}
	}
	if wait > 0 {
		l.mu.Unlock()
		return wait, false
	}
	delete(l.open, stalest)
	l.open[c] = struct{}{}
	l.mu.Unlock()
	_ = stalest.Conn.Close() // the server meets the error when it uses it
	return 0, true
}

func (l *boundedListener) forget(c *boundedConn) {
	l.mu.Lock()
	delete(l.open, c)
	l.mu.Unlock()
	select {
	case l.freed <- struct{}{}:
	default:
	}
}

// boundedConn knows when something moved last.
type boundedConn struct {
	net.Conn
	listener *boundedListener
	moved    atomic.Int64 // nanoseconds of the wall clock
	busy     atomic.Bool  // an answer is being made
	writing  atomic.Bool  // and is being sent
}

func (c *boundedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.moved.Store(time.Now().UnixNano())
	}
	return n, err
}

// Write sends in pieces, so that a slow reader is told from one that does not read.
func (c *boundedConn) Write(p []byte) (sent int, err error) {
	const piece = 64 << 10
	c.writing.Store(true)
	defer c.writing.Store(false)
	for sent < len(p) && err == nil {
		var n int
		n, err = c.Conn.Write(p[sent:min(len(p), sent+piece)])
		sent += n
		c.moved.Store(time.Now().UnixNano())
	}
	return sent, err
}

// Close makes room.
func (c *boundedConn) Close() error {
	c.listener.forget(c)
	return c.Conn.Close()
}

// staleIn is how long it is until c counts as stale, 0 or less if it does.
func (c *boundedConn) staleIn(now time.Time) time.Duration {
	limit := c.listener.stale
	if c.busy.Load() && !c.writing.Load() {
		limit = busyStaleAfter
	}
	return time.Unix(0, c.moved.Load()).Add(limit).Sub(now)
}

// noteState is the server's ConnState hook.
func noteState(c net.Conn, state http.ConnState) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if b, ok := c.(*boundedConn); ok {
		b.busy.Store(state == http.StateActive)
	}
}
