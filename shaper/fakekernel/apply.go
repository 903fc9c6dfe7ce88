package fakekernel

import (
	"context"
	"fmt"
	"slices"
	"syscall"

	"bulkshaper/shaper/tc"
)

// Apply does ops in order, as the kernel package does: consecutive filter operations are one group, of which each is tried,
// every other operation is a group of its own, and nothing behind a group with an error is tried. A class or leaf that fails
// behind a root just added takes that root along.
func (k *Kernel) Apply(ctx context.Context, link tc.Link, ops []tc.Op) []tc.Result {
	results := make([]tc.Result, len(ops))
	for i, op := range ops {
		results[i] = tc.Result{Op: op, Err: tc.ErrNotTried}
	}
	failed := false
	for i, op := range ops {
		sameGroup := i > 0 && op.Object.Type() == "filter" && ops[i-1].Object.Type() == "filter"
		if failed && !sameGroup {
			break
		}
		err := ctx.Err()
		if err == nil {
			err = k.one(&link, op)
		}
		if results[i].Err = err; err != nil {
			failed = true
			k.undoRoot(ops, i)
		}
	}
	return results
}

// undoRoot deletes the root that was made by the operation one or two before i.
func (k *Kernel) undoRoot(ops []tc.Op, i int) {
	for j := max(0, i-2); j < i; j++ {
		q, ok := ops[j].Object.(tc.Qdisc)
		if ok && ops[j].Verb == tc.Add && q.Parent == tc.Root {
			k.mu.Lock()
			k.clear()
			k.mu.Unlock()
		}
	}
}

func (k *Kernel) one(link *tc.Link, op tc.Op) error {
	if err := k.before(op); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.link == nil || link != nil && link.Index != k.link.Index {
		return k.noInterface()
	}
	if err := k.do(op); err != nil {
		return err
	}
	k.emit(tc.Event{Kind: tc.EventKind(op.Object.Type()), Own: link != nil})
	if link != nil {
		k.applied = append(k.applied, op)
	}
	return nil
}

// do is one operation. Deleting what is not there is no error, as in the kernel package.
func (k *Kernel) do(op tc.Op) error {
	var err error
	switch o := op.Object.(type) {
	case tc.Qdisc:
		err = k.qdisc(op.Verb, o)
	case tc.Class:
		err = k.class(op.Verb, o)
	case tc.Filter:
		err = k.filter(op.Verb, o)
	}
	if op.Verb == tc.Delete && isErrno(err, syscall.ENOENT) {
		return nil
	}
	return err
}

// Applied is every operation that Apply did, in order.
func (k *Kernel) Applied() []tc.Op {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.applied)
}

// refused is an error of the kernel with its text, "" where it has none.
func refused(errno syscall.Errno, text string) error {
	if text == "" {
		return errno
	}
	return fmt.Errorf("%w: %s", errno, text)
}
