package traffic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"bulkshaper/shaper/kernel/lab"
)

// The kinds of workers.
const (
	KindBulk     = "bulk"
	KindRequests = "requests"
)

// Scheduling priorities of the two. Requests go first: their clients and servers stand for machines that have nothing else to do.
const (
	niceBulk     = 10
	niceRequests = -10
)

// Serve is the main function of a worker: it does what it is told on in, and tells on out, until in ends.
func Serve(ctx context.Context, kind string, guests []lab.Guest, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	byName := map[string]lab.Guest{}
	for _, g := range guests {
		byName[g.Name] = g
	}
	var b body
	switch kind {
	case KindBulk:
		b = newBulkWorker(byName)
	case KindRequests:
		b = newRequestWorker(byName)
	default:
		return fmt.Errorf("traffic: %q is no kind of worker", kind)
	}
	if err := lab.SetNice(b.nice()); err != nil && kind == KindBulk {
		return err // a better priority may not be had; then the requests are late more often, which is seen
	}
	if err := b.open(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer cancel()
		decoder := json.NewDecoder(in)
		for {
			if err := b.take(ctx, decoder); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return fmt.Errorf("read orders: %w", err)
			}
		}
	})
	group.Go(func() error { return tell(ctx, b, out) })
	err := group.Wait()
	b.close()
	return err
}

// body is what a worker does.
type body interface {
	nice() int
	// open makes what stands for the whole life of the worker.
	open(ctx context.Context) error
	// take reads one order and follows it.
	take(ctx context.Context, d *json.Decoder) error
	// report is what there is to tell now.
	report() any
	close()
}

// tellEvery is how often a worker reports.
const tellEvery = 100 * time.Millisecond

func tell(ctx context.Context, b body, out io.Writer) error {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	encoder := json.NewEncoder(out)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := encoder.Encode(b.report()); err != nil {
				return fmt.Errorf("report: %w", err)
			}
		}
	}
}

// remote is the other side of a worker.
type remote struct {
	worker  *lab.Worker
	encoder *json.Encoder

	mu      sync.Mutex
	changed chan struct{} // closed and made anew with every report
	err     error
}

func newRemote(worker *lab.Worker) *remote {
	return &remote{worker: worker, encoder: json.NewEncoder(worker.In), changed: make(chan struct{})}
}

// listen takes reports until the worker ends. add is called with the lock held.
func listen[T any](r *remote, add func(T)) {
	decoder := json.NewDecoder(r.worker.Out)
	for {
		var report T
		err := decoder.Decode(&report)
		r.mu.Lock()
		if err == nil {
			add(report)
		} else {
			r.err = fmt.Errorf("a traffic worker has ended: %w", err)
		}
		close(r.changed)
		r.changed = make(chan struct{})
		r.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// wait waits until good, which is asked after every report with the lock held.
func (r *remote) wait(ctx context.Context, good func() bool) error {
	for {
		r.mu.Lock()
		done, err, changed := good(), r.err, r.changed
		r.mu.Unlock()
		switch {
		case done:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

func (r *remote) order(v any) error {
	if err := r.encoder.Encode(v); err != nil {
		return fmt.Errorf("tell a traffic worker: %w", err)
	}
	return nil
}
