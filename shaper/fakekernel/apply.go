package fakekernel

import (
	"context"
	"fmt"
	"slices"
	"syscall"

	"bulkshaper/shaper/tc"
)

// groupSize is how many filters the kernel package sends at once.
const groupSize = 500

// Apply does ops in order and in groups, as the kernel package does. Consecutive filter operations are a group, deletions apart from
// the rest; a root up to the first leaf is one, and of those that fail nothing stays; every other operation is a group of its
// own. Behind a group with an error nothing is tried.
func (k *Kernel) Apply(ctx context.Context, link tc.Link, ops []tc.Op) []tc.Result {
	results := make([]tc.Result, len(ops))
	for i, op := range ops {
		results[i] = tc.Result{Op: op, Err: tc.ErrNotTried}
	}
	for start := 0; start < len(ops); {
		group := results[start : start+groupOf(ops[start:])]
		start += len(group)
		failed := false
		for i := range group {
			if group[i].Err = ctx.Err(); group[i].Err == nil {
				group[i].Err = k.one(&link, group[i].Op)
			}
			failed = failed || group[i].Err != nil
		}
		if failed {
			k.undoRoot(group)
			break
		}
	}
	return results
}

// groupOf is how many of ops go together.
func groupOf(ops []tc.Op) int {
	n := 1
	switch {
	case ops[0].Object.Type() == "filter":
		for n < min(len(ops), groupSize) && ops[n].Object.Type() == "filter" && (ops[n].Verb == tc.Delete) == (ops[0].Verb == tc.Delete) {
			n++
		}
	case isRoot(ops[0]):
		for n < len(ops) && ops[n].Verb == tc.Add && ops[n].Object.Type() != "filter" {
			n++
			if q, ok := ops[n-1].Object.(tc.Qdisc); ok && q.Parent != tc.Root {
				break
			}
		}
	}
	return n
}

func isRoot(op tc.Op) bool {
	q, ok := op.Object.(tc.Qdisc)
	return ok && q.Parent == tc.Root
}

// undoRoot deletes the root that was made in a group of which something failed.
func (k *Kernel) undoRoot(group []tc.Result) {
	for _, r := range group {
		if isRoot(r.Op) && r.Op.Verb == tc.Add && r.Err == nil {
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
	err := k.do(op)
	if q, ok := op.Object.(tc.Qdisc); ok && err != nil && link != nil {
		err = k.swapLeaf(op.Verb, q, err)
	}
	if err != nil {
		return err
	}
	k.emit(tc.Event{Kind: tc.EventKind(op.Object.Type()), Own: link != nil})
	if link != nil {
		k.applied = append(k.applied, op)
	}
	return nil
}

// swapLeaf replaces a leaf by one of the same handle and another kind, which the kernel refuses and the kernel package does by a
// deletion and an addition.
func (k *Kernel) swapLeaf(verb tc.Verb, q tc.Qdisc, err error) error {
	c := k.classes[q.Parent]
	if verb != tc.Replace || c == nil || c.leaf == nil || c.leaf.Handle != q.Handle || c.leaf.Kind == q.Kind || !isErrno(err, syscall.EINVAL) {
		return err
	}
	c.leaf = nil
	return k.qdisc(tc.Add, q)
}

// do is one operation. Deleting what is not there is no error, as in the kernel package.
func (k *Kernel) do(op tc.Op) error {
	k.count++
	var err error
	switch o := op.Object.(type) {
	case tc.Qdisc:
		err = k.qdisc(op.Verb, o)
	case tc.Class:
		err = k.class(op.Verb, o)
	case tc.Filter:
		err = k.filter(op.Verb, o)
	case tc.Pref:
		if op.Verb == tc.Delete && o.Number != 0 {
			err = k.filter(op.Verb, tc.Filter{Parent: o.Parent, Pref: o.Number, Protocol: o.Protocol, Kind: o.Kind})
		} else {
			err = refused(syscall.EINVAL, "")
		}
	}
	q, ok := op.Object.(tc.Qdisc)
	if op.Verb == tc.Delete && (isErrno(err, syscall.ENOENT) || ok && q.Handle != tc.Unspec && isErrno(err, syscall.EINVAL)) {
		return nil // EINVAL is the answer where a qdisc of another handle stands in the place
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
