package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"bulkshaper/cmd/bench/shapes"
	"bulkshaper/inventory"
)

// costFlow is a TCP connection over a bed's wire that sends all the time.
type costFlow struct {
	conn     net.Conn
	listener net.Listener
	received atomic.Uint64
}

// pour connects to an address behind the wire and sends, as fast as it goes or paced to bytes per second.
func (b *bed) pour(ctx context.Context, to netip.Addr, congestion string, pace int) (*costFlow, error) {
	f := &costFlow{}
	var err error
	f.conn, f.listener, err = b.connect(ctx, to, congestion, pace, func(conn net.Conn) {
		buffer := make([]byte, 256<<10)
		for {
			n, err := conn.Read(buffer)
			f.received.Add(uint64(n))
			if err != nil {
				return
			}
		}
	})
	if err != nil {
		return nil, err
	}
	go func() {
		buffer := make([]byte, 64<<10)
		for {
			if _, err := f.conn.Write(buffer); err != nil {
				return
			}
		}
	}()
	return f, nil
}

// connect makes a connection, of which serve gets the far end.
func (b *bed) connect(ctx context.Context, to netip.Addr, congestion string, pace int, serve func(net.Conn)) (net.Conn, net.Listener, error) {
	var listener net.Listener
	var conn net.Conn
	err := enter(b.far, func() (err error) {
		listener, err = net.Listen("tcp4", "0.0.0.0:0")
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("listen: %w", err)
	}
	go func() {
		far, err := listener.Accept()
		if err != nil {
			return
		}
		defer far.Close()
		serve(far)
	}()
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			if failed = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, congestion); failed != nil {
				failed = fmt.Errorf("use congestion control %s: %w; load the module tcp_%s", congestion, failed, congestion)
			} else if pace > 0 {
				failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE, pace)
			}
		})
		if err != nil {
			return err
		}
		return failed
	}}
	err = enter(b.near, func() (err error) {
		conn, err = dialer.DialContext(ctx, "tcp4", netip.AddrPortFrom(to, uint16(listener.Addr().(*net.TCPAddr).Port)).String())
		return err
	})
	if err != nil {
		listener.Close()
		return nil, nil, fmt.Errorf("connect: %w", err)
	}
	return conn, listener, nil
}

func (f *costFlow) close() {
	f.conn.(*net.TCPConn).SetLinger(0) // what waits need not arrive
	f.conn.Close()
	f.listener.Close()
}

// carried is what arrives during a window, in Mbit/s of payload a flow: the slope of the line through many readings of the counts. TCP
// hands over at once what waited behind a lost packet, which the difference of two readings would take for rate. The window is longer
// where a flow got nothing in it.
func carried(ctx context.Context, window time.Duration, flows ...*costFlow) ([]float64, error) {
	const readings = 100
	start, tick := time.Now(), time.NewTicker(window/readings)
	defer tick.Stop()
	sums := make([]struct{ n, x, y, xx, xy float64 }, len(flows))
	rates := make([]float64, len(flows))
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
		x, all := time.Since(start).Seconds(), true
		for i, f := range flows {
			s, y := &sums[i], float64(f.received.Load())*8/1e6
			s.n, s.x, s.y, s.xx, s.xy = s.n+1, s.x+x, s.y+y, s.xx+x*x, s.xy+x*y
			if spread := s.n*s.xx - s.x*s.x; spread > 0 {
				rates[i] = (s.n*s.xy - s.x*s.y) / spread
			}
			all = all && rates[i] > 0
		}
		if all && time.Since(start) >= window {
			return rates, nil
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// exchange asks and answers over a connection that was kept, each with as many bytes.
type exchange struct {
	conn     net.Conn
	listener net.Listener
	buffer   []byte
}

func (b *bed) exchange(ctx context.Context, to netip.Addr, bytes int) (*exchange, error) {
	e := &exchange{buffer: make([]byte, bytes)}
	var err error
	e.conn, e.listener, err = b.connect(ctx, to, "cubic", 0, func(conn net.Conn) {
		buffer := make([]byte, bytes)
		for {
			if _, err := io.ReadFull(conn, buffer); err != nil {
				return
			}
			if _, err := conn.Write(buffer); err != nil {
				return
			}
		}
	})
	return e, err
}

func (e *exchange) close() {
	e.conn.Close()
	e.listener.Close()
}

// take makes exchanges, one every exchangeEvery, and returns the median of what one takes, in microseconds.
func (e *exchange) take(times int) (float64, error) {
	if err := e.conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return 0, err
	}
	took := make([]float64, times)
	for i := range took {
		time.Sleep(exchangeEvery)
		start := time.Now()
		if _, err := e.conn.Write(e.buffer); err != nil {
			return 0, fmt.Errorf("ask: %w", err)
		}
		if _, err := io.ReadFull(e.conn, e.buffer); err != nil {
			return 0, fmt.Errorf("read the answer: %w", err)
		}
		took[i] = float64(time.Since(start)) / float64(time.Microsecond)
	}
	return median(took), nil
}

func inventoryOf(servers int) *inventory.Inventory {
	return inventory.New(shapes.All()[0].Servers(servers), shapes.Roles())
}
