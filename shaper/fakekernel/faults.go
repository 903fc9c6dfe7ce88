package fakekernel

import (
	"context"
	"syscall"

	"bulkshaper/shaper/tc"
)

// faults is what goes wrong on purpose.
type faults struct {
	hook    func(tc.Op) error
	observe []error
}

func (f *faults) takeObserve() error {
	if len(f.observe) == 0 {
		return nil
	}
	err := f.observe[0]
	f.observe = f.observe[1:]
	return err
}

// before asks the hook, which may itself use the kernel.
func (k *Kernel) before(op tc.Op) error {
	k.mu.Lock()
	hook := k.faults.hook
	k.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(op)
}

// Hook has f called before each operation of Apply and Meddle; its error is the operation's, and nil lets the operation go on.
// f may use the kernel, to do something in between.
func (k *Kernel) Hook(f func(tc.Op) error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.faults.hook = f
}

// Fail makes the nth operation from now fail with err, counted from 0, once.
func (k *Kernel) Fail(n int, err error) {
	seen := 0
	k.Hook(func(tc.Op) error {
		if seen++; seen-1 == n {
			return err
		}
		return nil
	})
}

// FailObserve makes the next calls of Observe fail, one with each error.
func (k *Kernel) FailObserve(errs ...error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.faults.observe = append(k.faults.observe, errs...)
}

// Meddle is another hand: it does each of ops, whatever becomes of the others, and its events are not Own.
func (k *Kernel) Meddle(ops ...tc.Op) []tc.Result {
	results := make([]tc.Result, len(ops))
	for i, op := range ops {
		results[i] = tc.Result{Op: op, Err: k.one(nil, op)}
	}
	return results
}

// TakeRoot puts another qdisc at the root, whatever stands there, as YARN's TrafficController does at its start.
func (k *Kernel) TakeRoot(q tc.Qdisc) {
	k.mu.Lock()
	defer k.mu.Unlock()
	q.Parent = tc.Root
	k.clear()
	k.graft(nil, q)
	k.emit(tc.Event{Kind: tc.EventQdisc})
}

// ForceNode adds a node although its handle, table and bucket included, may be taken: what more than 4095 automatic handles in a
// bucket do on some kernels.
func (k *Kernel) ForceNode(f tc.Filter) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.tables[f.Handle.Table()]
	if t == nil {
		return refused(syscall.EINVAL, "Specified hash table not found")
	}
	n := &node{Filter: f}
	n.ClassID, n.Link = 0, 0
	if err := k.point(n, f.ClassID, f.Link); err != nil {
		return err
	}
	t.insert(n)
	return nil
}

// RemoveLink takes the interface away, with all traffic control.
func (k *Kernel) RemoveLink() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.link = nil
	k.clear()
	k.emit(tc.Event{Kind: tc.EventLink})
}

// SetLink makes the interface, or changes what the kernel says of it. With another index it is another interface, where nothing
// stands.
func (k *Kernel) SetLink(link tc.Link) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.link == nil || k.link.Index != link.Index {
		k.clear()
	}
	k.link = &link
	k.emit(tc.Event{Kind: tc.EventLink})
}

// watchBuffer is how many events wait for a slow reader before they are lost.
const watchBuffer = 16

// Watch delivers an event for each change until ctx ends; then the channel is closed. Events that find no room become one
// EventLost.
func (k *Kernel) Watch(ctx context.Context) (<-chan tc.Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ch := make(chan tc.Event, watchBuffer)
	k.mu.Lock()
	k.watchers[ch] = true
	k.mu.Unlock()
	context.AfterFunc(ctx, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.watchers[ch] {
			delete(k.watchers, ch)
			close(ch)
		}
	})
	return ch, nil
}

// Emit sends an event as it is.
func (k *Kernel) Emit(e tc.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.emit(e)
}

func (k *Kernel) emit(e tc.Event) {
	for ch := range k.watchers {
		switch {
		case len(ch) < cap(ch)-1:
			ch <- e
		case len(ch) == cap(ch)-1:
			ch <- tc.Event{Kind: tc.EventLost}
		}
	}
}
