package lab

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// chunk is how much is read or written at once.
const chunk = 64 << 10

// Sink takes all that is sent to a TCP port of a server, and counts it by sender.
type Sink struct {
	at       netip.AddrPort
	listener *net.TCPListener
	group    sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	conns    map[*net.TCPConn]struct{}
	received map[netip.Addr]*atomic.Uint64
}

// Sink opens a port that takes all it is sent; port 0 takes a free one.
func (h *Host) Sink(ctx context.Context, port uint16) (*Sink, error) {
	l, err := h.Listen(ctx, netip.AddrPortFrom(h.Address, port))
	if err != nil {
		return nil, err
	}
	s := &Sink{
		at: l.Addr().(*net.TCPAddr).AddrPort(), listener: l,
		conns: map[*net.TCPConn]struct{}{}, received: map[netip.Addr]*atomic.Uint64{},
	}
	s.group.Go(s.accept)
	return s, nil
}

// At is the address to send to.
func (s *Sink) At() netip.AddrPort { return s.at }

// Received is how many bytes of payload came from a sender.
func (s *Sink) Received(from netip.Addr) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.received[from]; n != nil {
		return n.Load()
	}
	return 0
}

// Close ends all connections.
func (s *Sink) Close() error {
	s.mu.Lock()
	s.closed = true
	errs := []error{s.listener.Close()}
	for c := range s.conns {
		errs = append(errs, c.Close())
	}
	s.mu.Unlock()
	s.group.Wait()
	return errors.Join(errs...)
}

func (s *Sink) accept() {
	for {
		c, err := s.listener.AcceptTCP()
		if err != nil {
			return
		}
		from := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			c.Close()
			return
		}
		s.conns[c] = struct{}{}
		if s.received[from] == nil {
			s.received[from] = new(atomic.Uint64)
		}
		count := s.received[from]
		s.group.Go(func() { s.take(c, count) })
		s.mu.Unlock()
	}
}

func (s *Sink) take(c *net.TCPConn, count *atomic.Uint64) {
	buffer := make([]byte, chunk)
	for {
		n, err := c.Read(buffer)
		count.Add(uint64(n))
		if err != nil {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.conns[c]; open && !s.closed {
		delete(s.conns, c)
		c.Close()
	}
}

// Flow is a TCP connection that sends as fast as it can.
type Flow struct {
	conn *net.TCPConn
	done chan struct{}
	err  error
}

// Flow connects and sends until it is closed.
func (h *Host) Flow(ctx context.Context, to netip.AddrPort) (*Flow, error) {
	conn, err := h.Dial(ctx, to)
	if err != nil {
		return nil, err
	}
	f := &Flow{conn: conn, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		buffer := make([]byte, chunk)
		for f.err == nil {
			_, f.err = conn.Write(buffer)
		}
	}()
	return f, nil
}

// Close breaks the connection off, what waits to be sent is not sent any more. The error is that of a connection that had
// ended before.
func (f *Flow) Close() error {
	_ = f.conn.SetLinger(0) // fails only where the connection has ended, as Write has told
	if err := f.conn.Close(); err != nil {
		return err
	}
	<-f.done
	if errors.Is(f.err, net.ErrClosed) || errors.Is(f.err, io.EOF) {
		return nil
	}
	return f.err
}
