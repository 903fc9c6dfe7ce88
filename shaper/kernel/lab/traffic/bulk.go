package traffic

import (
	"context"
	"os"
	"time"

	"bulkshaper/shaper/kernel/lab"
)

// Pair is two servers, of which the first sends to the second.
type Pair struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Copy is bulk data from one server to another: so many TCP connections that send as fast as they can or, with a Pace, that fast
// together, as a copy from a disk does.
type Copy struct {
	Pair
	Flows int `json:"flows"`
	// Pace is in bits of payload per second; 0 is as fast as TCP can.
	Pace float64 `json:"pace,omitempty"`
}

// Progress is how far the copies of a pair are, since the worker began.
type Progress struct {
	Pair
	// Received is the payload that arrived, in bytes.
	Received uint64 `json:"received"`
	// Sent and Again are segments that were sent, and those among them that were sent again (tcpi_total_retrans).
	Sent  uint64 `json:"sent"`
	Again uint64 `json:"again"`
	// RTT is the smoothed round trip of the slowest connection now.
	RTT time.Duration `json:"rtt"`
}

// Sample is the progress of all pairs at one time.
type Sample struct {
	At    time.Duration `json:"at"`
	Pairs []Progress    `json:"pairs"`
}

// Bulk makes copies.
type Bulk struct {
	remote  *remote
	samples []Sample
}

// StartBulk starts the worker: args lead to Serve with KindBulk.
func StartBulk(c *lab.Cluster, args []string, log *os.File) (*Bulk, error) {
	worker, err := c.Worker(args, log)
	if err != nil {
		return nil, err
	}
	b := &Bulk{remote: newRemote(worker)}
	go listen(b.remote, func(s Sample) { b.samples = append(b.samples, s) })
	return b, nil
}

// Set makes copies be all that run: what runs and is not among them ends, what is missing begins.
func (b *Bulk) Set(copies []Copy) error {
	if copies == nil {
		copies = []Copy{}
	}
	return b.remote.order(copies)
}

// Samples are all so far, in the order of time.
func (b *Bulk) Samples() []Sample {
	b.remote.mu.Lock()
	defer b.remote.mu.Unlock()
	return b.samples[:len(b.samples):len(b.samples)]
}

// Until waits for a sample that was taken at or after a time, and returns all so far.
func (b *Bulk) Until(ctx context.Context, at time.Duration) ([]Sample, error) {
	err := b.remote.wait(ctx, func() bool { n := len(b.samples); return n > 0 && b.samples[n-1].At >= at })
	return b.Samples(), err
}

// Close ends all copies.
func (b *Bulk) Close() error { return b.remote.worker.Close() }
