package traffic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"bulkshaper/shaper/kernel/lab"
)

// bulkPort takes all it is sent. The number is that of a data node.
const bulkPort = 9866

// chunk is how much is read or written at once.
const chunk = 64 << 10

type bulkWorker struct {
	guests map[string]lab.Guest
	names  map[netip.Addr]string
	group  sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	listeners []*net.TCPListener
	taken     map[*net.TCPConn]struct{}
	running   map[Copy][]*flow
	received  map[Pair]*atomic.Uint64
	past      map[Pair]Progress // of connections that have ended
}

// flow is a connection that sends.
type flow struct {
	cancel context.CancelFunc
	mu     sync.Mutex
	conn   *net.TCPConn // nil before it has connected
}

func newBulkWorker(guests map[string]lab.Guest) *bulkWorker {
	w := &bulkWorker{guests: guests, names: map[netip.Addr]string{}, taken: map[*net.TCPConn]struct{}{}, running: map[Copy][]*flow{},
		received: map[Pair]*atomic.Uint64{}, past: map[Pair]Progress{}}
	for _, g := range guests {
		w.names[g.Address] = g.Name
	}
	return w
}

func (w *bulkWorker) nice() int { return niceBulk }

func (w *bulkWorker) open(ctx context.Context) error {
	for _, g := range w.guests {
		l, err := g.Listen(ctx, netip.AddrPortFrom(g.Address, bulkPort))
		if err != nil {
			return err
		}
		w.listeners = append(w.listeners, l)
		w.group.Go(func() { w.accept(l, g.Name) })
	}
	return nil
}

func (w *bulkWorker) accept(l *net.TCPListener, to string) {
	for {
		c, err := l.AcceptTCP()
		if err != nil {
			return
		}
		pair := Pair{w.names[c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()], to}
		w.mu.Lock()
		if w.closed {
			w.mu.Unlock()
			c.Close()
			return
		}
		count := w.received[pair]
		if count == nil {
			count = new(atomic.Uint64)
			w.received[pair] = count
		}
		w.taken[c] = struct{}{}
		w.group.Go(func() { w.receive(c, count) })
		w.mu.Unlock()
	}
}

func (w *bulkWorker) receive(c *net.TCPConn, count *atomic.Uint64) {
	buffer := make([]byte, chunk)
	for {
		n, err := c.Read(buffer)
		count.Add(uint64(n))
		if err != nil {
			break
		}
	}
	w.mu.Lock()
	delete(w.taken, c)
	w.mu.Unlock()
	c.Close()
}

func (w *bulkWorker) take(ctx context.Context, d *json.Decoder) error {
	var copies []Copy
	if err := d.Decode(&copies); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for c, flows := range w.running {
		if !slices.Contains(copies, c) {
			for _, f := range flows {
				f.cancel()
			}
			delete(w.running, c)
		}
	}
	for _, c := range copies {
		for len(w.running[c]) < c.Flows {
			ctx, cancel := context.WithCancel(ctx)
			f := &flow{cancel: cancel}
			w.running[c] = append(w.running[c], f)
			w.group.Go(func() { w.send(ctx, c, f) })
		}
	}
	return nil
}

// again is the wait before a connection that could not be made, or broke, is tried again.
const again = 200 * time.Millisecond

// send keeps a connection and sends by it until ctx ends.
func (w *bulkWorker) send(ctx context.Context, c Copy, f *flow) {
	from, to := w.guests[c.From], w.guests[c.To]
	for ctx.Err() == nil {
		conn, err := from.Dial(ctx, netip.AddrPortFrom(to.Address, bulkPort))
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(again):
			}
			continue
		}
		f.set(conn)
		stop := context.AfterFunc(ctx, func() { _ = conn.SetWriteDeadline(time.Unix(1, 0)) })
		pour(conn, c.Pace/float64(c.Flows))
		stop()
		w.ended(c.Pair, conn)
		f.set(nil)
		_ = conn.SetLinger(0) // what waits to be sent is not sent any more; one that is broken needs no telling
		conn.Close()
	}
}

// pour writes until that fails, pace in bits per second, or as fast as it goes.
func pour(conn *net.TCPConn, pace float64) {
	buffer := make([]byte, chunk)
	if pace == 0 {
		for {
			if _, err := conn.Write(buffer); err != nil {
				return
			}
		}
	}
	// Small pieces, so that a paced copy comes evenly, as from a disk that is read ahead.
	const piece = 16 << 10
	every := time.Duration(piece * 8 / pace * float64(time.Second))
	for next := time.Now(); ; {
		if _, err := conn.Write(buffer[:piece]); err != nil {
			return
		}
		// What could not be written in time is not made up for.
		if next = next.Add(every); time.Until(next) > 0 {
			time.Sleep(time.Until(next))
		} else {
			next = time.Now()
		}
	}
}

func (f *flow) set(conn *net.TCPConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conn = conn
}

// count adds what the connection counts to p.
func (f *flow) count(p *Progress) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conn != nil {
		count(f.conn, p)
	}
}

func count(conn *net.TCPConn, p *Progress) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return // it has ended
	}
	_ = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return
		}
		p.Sent += uint64(info.Data_segs_out)
		p.Again += uint64(info.Total_retrans)
		p.RTT = max(p.RTT, time.Duration(info.Rtt)*time.Microsecond)
	})
}

// ended keeps the counts of a connection.
func (w *bulkWorker) ended(pair Pair, conn *net.TCPConn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.past[pair]
	count(conn, &p)
	p.RTT = 0
	w.past[pair] = p
}

func (w *bulkWorker) report() any {
	w.mu.Lock()
	defer w.mu.Unlock()
	pairs := map[Pair]Progress{}
	for pair, p := range w.past {
		pairs[pair] = p
	}
	for c, flows := range w.running {
		p := pairs[c.Pair]
		for _, f := range flows {
			f.count(&p)
		}
		pairs[c.Pair] = p
	}
	for pair, n := range w.received {
		p := pairs[pair]
		p.Received = n.Load()
		pairs[pair] = p
	}
	s := Sample{At: Now(), Pairs: []Progress{}}
	for pair, p := range pairs {
		p.Pair = pair
		s.Pairs = append(s.Pairs, p)
	}
	slices.SortFunc(s.Pairs, func(a, b Progress) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return s
}

func (w *bulkWorker) close() {
	w.mu.Lock()
	w.closed = true
	var errs []error
	for _, l := range w.listeners {
		errs = append(errs, l.Close())
	}
	for c := range w.taken {
		errs = append(errs, c.Close())
	}
	_ = errors.Join(errs...) // the process ends; nobody is there to be told
	for _, flows := range w.running {
		for _, f := range flows {
			f.cancel()
		}
	}
	w.mu.Unlock()
	w.group.Wait()
}
