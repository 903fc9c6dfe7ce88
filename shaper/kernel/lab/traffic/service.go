package traffic

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"bulkshaper/shaper/kernel/lab"
)

// The ports of the services: one for TCP, and that of DNS.
const (
	servicePort = 8080
	queryPort   = 53
)

func serviceAt(g lab.Guest) netip.AddrPort { return netip.AddrPortFrom(g.Address, servicePort) }

// A request is its number, the server's work in microseconds and the length of the answer, which begins with the number.
const (
	requestBytes = 16
	answerBytes  = 8 // at least
	maxAnswer    = 1 << 20
)

func encodeRequest(id uint64, s Service) []byte {
	b := make([]byte, 0, requestBytes)
	b = binary.BigEndian.AppendUint64(b, id)
	b = binary.BigEndian.AppendUint32(b, uint32(s.Work.Microseconds()))
	return binary.BigEndian.AppendUint32(b, uint32(max(answerBytes, s.Answer)))
}

// work does what a request asks for and returns the answer.
func work(request []byte) []byte {
	time.Sleep(time.Duration(binary.BigEndian.Uint32(request[8:])) * time.Microsecond)
	answer := make([]byte, min(maxAnswer, max(answerBytes, binary.BigEndian.Uint32(request[12:]))))
	copy(answer, request[:8])
	return answer
}

// open makes every server a server of everything.
func (w *requestWorker) open(ctx context.Context) error {
	for _, g := range w.guests {
		l, err := g.Listen(ctx, serviceAt(g))
		if err != nil {
			return err
		}
		w.servers = append(w.servers, l)
		w.group.Go(func() { w.serveTCP(l) })
		c, err := g.ListenUDP(netip.AddrPortFrom(g.Address, queryPort))
		if err != nil {
			return err
		}
		w.servers = append(w.servers, c)
		w.group.Go(func() { serveUDP(c) })
	}
	return nil
}

func (w *requestWorker) serveTCP(l *net.TCPListener) {
	for {
		c, err := l.AcceptTCP()
		if err != nil {
			return
		}
		go func() { // it ends with its client
			defer c.Close()
			request := make([]byte, requestBytes)
			for {
				if _, err := io.ReadFull(c, request); err != nil {
					return
				}
				if _, err := c.Write(work(request)); err != nil {
					return
				}
			}
		}()
	}
}

func serveUDP(c *net.UDPConn) {
	buffer := make([]byte, 512)
	for {
		n, from, err := c.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || n != requestBytes {
			continue
		}
		request := append([]byte(nil), buffer[:n]...)
		go func() { _, _ = c.WriteToUDPAddrPort(work(request), from) }() // a lost answer is what is measured
	}
}

// call sends a request by a connection and reads the answer.
func call(ctx context.Context, conn *net.TCPConn, s Service) error {
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := conn.Write(encodeRequest(1, s)); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, conn, int64(max(answerBytes, s.Answer)))
	return err
}

// querier asks by UDP, from one socket, and gives each answer to who asked.
type querier struct {
	conn *net.UDPConn
	to   netip.AddrPort

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan struct{}
}

func newQuerier(from, to lab.Guest) (*querier, error) {
	conn, err := from.ListenUDP(netip.AddrPortFrom(from.Address, 0))
	if err != nil {
		return nil, err
	}
	return &querier{conn: conn, to: netip.AddrPortFrom(to.Address, queryPort), waiting: map[uint64]chan struct{}{}}, nil
}

func (q *querier) listen() {
	buffer := make([]byte, 2048)
	for {
		n, _, err := q.conn.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || n < answerBytes {
			continue
		}
		id := binary.BigEndian.Uint64(buffer)
		q.mu.Lock()
		if answer, ok := q.waiting[id]; ok {
			close(answer)
			delete(q.waiting, id)
		}
		q.mu.Unlock()
	}
}

func (q *querier) query(ctx context.Context, s Service) bool {
	answer := make(chan struct{})
	q.mu.Lock()
	q.last++
	id := q.last
	q.waiting[id] = answer
	q.mu.Unlock()
	if _, err := q.conn.WriteToUDPAddrPort(encodeRequest(id, s), q.to); err != nil {
		return false
	}
	select {
	case <-answer:
		return true
	case <-ctx.Done():
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.waiting, id)
		return false
	}
}
