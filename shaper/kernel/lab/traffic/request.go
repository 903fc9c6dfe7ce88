package traffic

import (
	"context"
	"os"
	"time"

	"bulkshaper/shaper/kernel/lab"
)

// Kind is how a service is asked.
type Kind string

const (
	// Fresh is a request over a TCP connection of its own.
	Fresh Kind = "fresh"
	// Kept is a request over a TCP connection that was kept open.
	Kept Kind = "kept"
	// Query is a UDP packet and its answer, as of DNS. It is not sent again.
	Query Kind = "query"
)

// Service is asked again and again.
type Service struct {
	Kind Kind   `json:"kind"`
	From string `json:"from"`
	To   string `json:"to"`
	// Every is the mean time between two requests, which are sent whether those before were answered or not.
	Every time.Duration `json:"every"`
	// Work is how long the server takes for an answer, Answer how many bytes that has.
	Work   time.Duration `json:"work"`
	Answer int           `json:"answer"`
}

// Patience is how long an answer is waited for. A request with a deadline runs on beyond it, so that its latency is known.
const Patience = 2 * time.Second

// Request is one that was made.
type Request struct {
	// Service is its index.
	Service int
	// Due is when it was to be sent, Late by how much the process missed that.
	Due, Late time.Duration
	// Latency is from then on to the answer; for one without an answer how long that was waited for.
	Latency  time.Duration
	Answered bool
}

// Stall is a time for which the process that makes the requests did not run, though it was to.
type Stall struct{ At, Length time.Duration }

// requestReport is how a worker tells of what has ended since the report before.
type requestReport struct {
	// Requests are service, due, late, latency (nanoseconds), and 1 for an answer.
	Requests [][5]int64 `json:"requests"`
	Stalls   [][2]int64 `json:"stalls"`
	// Settled: of what was due before then, nothing is under way.
	Settled time.Duration `json:"settled"`
}

// Requests asks services.
type Requests struct {
	remote   *remote
	services []Service
	requests []Request
	stalls   []Stall
	settled  time.Duration
}

// StartRequests starts the worker, which asks all services until Close: args lead to Serve with KindRequests.
func StartRequests(c *lab.Cluster, services []Service, args []string, log *os.File) (*Requests, error) {
	worker, err := c.Worker(args, log)
	if err != nil {
		return nil, err
	}
	r := &Requests{remote: newRemote(worker), services: services}
	go listen(r.remote, r.add)
	if err := r.remote.order(services); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Requests) add(report requestReport) {
	for _, v := range report.Requests {
		r.requests = append(r.requests, Request{Service: int(v[0]), Due: time.Duration(v[1]), Late: time.Duration(v[2]),
			Latency: time.Duration(v[3]), Answered: v[4] == 1})
	}
	for _, v := range report.Stalls {
		r.stalls = append(r.stalls, Stall{time.Duration(v[0]), time.Duration(v[1])})
	}
	r.settled = report.Settled
}

// Between waits until all that was due in [from, to) has ended and returns it, in no order, with the stalls of that time.
func (r *Requests) Between(ctx context.Context, from, to time.Duration) ([]Request, []Stall, error) {
	if err := r.remote.wait(ctx, func() bool { return r.settled >= to }); err != nil {
		return nil, nil, err
	}
	r.remote.mu.Lock()
	defer r.remote.mu.Unlock()
	var requests []Request
	for _, q := range r.requests {
		if q.Due >= from && q.Due < to {
			requests = append(requests, q)
		}
	}
	var stalls []Stall
	for _, s := range r.stalls {
		if s.At+s.Length >= from && s.At < to {
			stalls = append(stalls, s)
		}
	}
	return requests, stalls, nil
}

// All is every request that has ended.
func (r *Requests) All() []Request {
	r.remote.mu.Lock()
	defer r.remote.mu.Unlock()
	return r.requests[:len(r.requests):len(r.requests)]
}

// Close ends the asking.
func (r *Requests) Close() error { return r.remote.worker.Close() }
