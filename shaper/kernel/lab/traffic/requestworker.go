package traffic

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"bulkshaper/shaper/kernel/lab"
)

type requestWorker struct {
	guests  map[string]lab.Guest
	group   sync.WaitGroup
	servers []interface{ Close() error }

	mu       sync.Mutex
	done     [][5]int64
	stalls   [][2]int64
	under    map[*Request]struct{} // way
	idle     map[int][]*net.TCPConn
	queriers map[int]*querier
}

func newRequestWorker(guests map[string]lab.Guest) *requestWorker {
	return &requestWorker{guests: guests, under: map[*Request]struct{}{}, idle: map[int][]*net.TCPConn{}, queriers: map[int]*querier{}}
}

func (w *requestWorker) nice() int { return niceRequests }

// take is told all services at once.
func (w *requestWorker) take(ctx context.Context, d *json.Decoder) error {
	var services []Service
	if err := d.Decode(&services); err != nil {
		return err
	}
	for i, s := range services {
		if s.Kind == Query {
			q, err := newQuerier(w.guests[s.From], w.guests[s.To])
			if err != nil {
				return err
			}
			w.queriers[i] = q
			w.group.Go(q.listen)
		}
		w.group.Go(func() { w.ask(ctx, i, s) })
	}
	w.group.Go(func() { w.watch(ctx) })
	return nil
}

// ask makes the requests of a service by a schedule that does not wait for answers.
func (w *requestWorker) ask(ctx context.Context, index int, s Service) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	base := Now()
	for n := 0; ; n++ {
		// Not quite even, so that nothing beats in time with queues and timers.
		due := base + time.Duration((float64(n)+rand.Float64())*float64(s.Every))
		timer.Reset(due - Now())
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		q := &Request{Service: index, Due: due, Late: max(0, Now()-due)}
		w.mu.Lock()
		w.under[q] = struct{}{}
		w.mu.Unlock()
		w.group.Go(func() {
			start := Now() // before the timeout, so that none is over before it
			ctx, cancel := context.WithTimeout(ctx, Patience)
			defer cancel()
			q.Answered = w.exchange(ctx, index, s)
			q.Latency = Now() - start
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(w.under, q)
			w.done = append(w.done, [5]int64{int64(q.Service), int64(q.Due), int64(q.Late), int64(q.Latency), 0})
			if q.Answered {
				w.done[len(w.done)-1][4] = 1
			}
		})
	}
}

// exchange asks once and tells whether an answer came.
func (w *requestWorker) exchange(ctx context.Context, index int, s Service) bool {
	switch s.Kind {
	case Query:
		return w.queriers[index].query(ctx, s)
	case Kept:
		return w.exchangeKept(ctx, index, s)
	}
	conn, err := w.guests[s.From].Dial(ctx, serviceAt(w.guests[s.To]))
	if err != nil {
		return false
	}
	defer conn.Close()
	return call(ctx, conn, s) == nil
}

// exchangeKept takes a connection that is idle, as an HTTP client does, or makes one. One that did not answer is closed.
func (w *requestWorker) exchangeKept(ctx context.Context, index int, s Service) bool {
	var conn *net.TCPConn
	w.mu.Lock()
	if idle := w.idle[index]; len(idle) > 0 {
		conn, w.idle[index] = idle[len(idle)-1], idle[:len(idle)-1]
	}
	w.mu.Unlock()
	if conn == nil {
		var err error
		if conn, err = w.guests[s.From].Dial(ctx, serviceAt(w.guests[s.To])); err != nil {
			return false
		}
	}
	if call(ctx, conn, s) != nil {
		_ = conn.SetLinger(0) // for the close below only
		conn.Close()
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle[index] = append(w.idle[index], conn)
	return true
}

const (
	// watchEvery is how often the process looks whether it is run when it should be.
	watchEvery = 5 * time.Millisecond
	// minStall is told of.
	minStall = 5 * time.Millisecond
)

// watch looks for times in which the process was not run.
func (w *requestWorker) watch(ctx context.Context) {
	timer := time.NewTimer(watchEvery)
	defer timer.Stop()
	for due := Now() + watchEvery; ; due = Now() + watchEvery {
		timer.Reset(due - Now())
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if late := Now() - due; late >= minStall {
			w.mu.Lock()
			w.stalls = append(w.stalls, [2]int64{int64(due), int64(late)})
			w.mu.Unlock()
		}
	}
}

func (w *requestWorker) report() any {
	w.mu.Lock()
	defer w.mu.Unlock()
	// What is due by now and was not begun yet can be this late; a schedule that is later than that is seen by its stalls.
	const slack = 50 * time.Millisecond
	r := requestReport{Requests: w.done, Stalls: w.stalls, Settled: Now() - slack}
	for q := range w.under {
		r.Settled = min(r.Settled, q.Due)
	}
	w.done, w.stalls = nil, nil
	return r
}

func (w *requestWorker) close() {
	for _, s := range w.servers {
		_ = s.Close() // the process ends; nobody is there to be told
	}
	for _, q := range w.queriers {
		_ = q.conn.Close()
	}
	w.mu.Lock()
	for _, conns := range w.idle {
		for _, c := range conns {
			_ = c.Close()
		}
	}
	w.mu.Unlock()
	w.group.Wait()
}
