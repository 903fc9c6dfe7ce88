package kernel

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"bulkshaper/shaper/tc"
)

// filtersAtOnce is how many filter messages go into one sendto. From 500 on more do not make it faster, and so the answers fit into a
// socket's buffer of the default size even if every message fails.
const filtersAtOnce = 500

// Apply does the operations in order and says what became of each; an Err is the cause alone, since the result has the operation.
//
// Operations go out in groups (see groupOf). A group is not a transaction: if one of its operations fails, the others
// of the group are done all the same, and nothing of the groups behind it is sent (tc.ErrNotTried). To delete what is gone
// already is no error. tc.ErrPermission and tc.ErrNoInterface are wrapped where they are the cause.
func (k *Kernel) Apply(ctx context.Context, link tc.Link, ops []tc.Op) []tc.Result {
	results := make([]tc.Result, len(ops))
	for i, op := range ops {
		results[i] = tc.Result{Op: op, Err: tc.ErrNotTried}
	}
	k.write.mu.Lock()
	defer k.write.mu.Unlock()
	defer k.applied.Store(len(ops) > 0)
	for rest := results; len(rest) > 0; {
		kind, size := groupOf(rest)
		group := rest[:size]
		rest = rest[size:]
		if err := ctx.Err(); err != nil {
			group[0].Err = err
			return results
		}
		k.applyGroup(link, kind, group)
		failed := false
		for _, r := range group {
			failed = failed || r.Err != nil
			if entry := k.log.Check(zap.DebugLevel, "operation"); entry != nil {
				entry.Write(zap.String("interface", k.name), zap.Stringer("operation", r.Op), zap.String("why", r.Op.Why), zap.Error(r.Err))
			}
		}
		if failed {
			return results
		}
	}
	return results
}

type groupKind int

const (
	single     groupKind = iota
	foundation           // a root qdisc up to the first leaf, from which it is known to be ours
	filters
)

// groupOf is the group that ops begin with.
//
// A foundation is a root qdisc with all behind it up to the first leaf, and with the deletion before it of the root that it
// follows. It goes out in one sendto: the kernel runs that to its end even if this process is killed, so there is no moment at which
// a root of ours stands that the next start would not know as ours.
//
// Filters go many at once. Deletions are kept apart from the rest, so that nothing is deleted when its replacement failed.
func groupOf(ops []tc.Result) (groupKind, int) {
	switch ops[0].Op.Object.(type) {
	case tc.Qdisc:
		if n := foundationSize(ops); n > 0 {
			return foundation, n
		}
	case tc.Filter, tc.Pref:
		n := 1
		for n < len(ops) && n < filtersAtOnce && ops[n].Op.Object.Type() == "filter" && (ops[n].Op.Verb == tc.Delete) == (ops[0].Op.Verb == tc.Delete) {
			n++
		}
		return filters, n
	}
	return single, 1
}

// foundationSize is how many operations at the head of ops are a foundation, 0 if it is none.
func foundationSize(ops []tc.Result) int {
	root := 0
	if isRoot(ops[0].Op, tc.Delete) && len(ops) > 1 {
		root = 1
	}
	if !isRoot(ops[root].Op, tc.Add) && !isRoot(ops[root].Op, tc.Replace) {
		return 0
	}
	for i := root + 1; i < len(ops); i++ {
		op := ops[i].Op
		if op.Verb != tc.Add {
			break
		}
		switch op.Object.(type) {
		case tc.Qdisc:
			return i + 1
		case tc.Class:
			continue
		}
		break
	}
	return root + 1
}

func isRoot(op tc.Op, verb tc.Verb) bool {
	q, ok := op.Object.(tc.Qdisc)
	return ok && op.Verb == verb && q.Parent == tc.Root
}

func (k *Kernel) applyGroup(link tc.Link, kind groupKind, group []tc.Result) {
	switch {
	case kind == foundation:
		k.applyFoundation(link.Index, group)
	case kind == single && k.encodes(group[0].Op):
		group[0].Err = k.applyEncoded(link.Index, group[0].Op)
	default:
		k.applyBatch(link.Index, group)
	}
	if q, ok := group[0].Op.Object.(tc.Qdisc); ok && group[0].Op.Verb == tc.Replace && sameHandleOtherKind(group[0].Err) {
		group[0].Err = k.swapLeaf(link.Index, q)
	}
	for i := range group {
		if isGone(group[i].Op, group[i].Err) {
			group[i].Err = nil
		}
	}
}

// swapLeaf takes a leaf away and puts q in its place, in one sendto: the kernel does not replace a qdisc by one of the same handle
// and another kind. Packets in between meet the leaf that the kernel makes. A kind that the kernel does not know takes nothing away.
func (k *Kernel) swapLeaf(index int, q tc.Qdisc) error {
	known, err := probe(k.write, index, tc.MakeHandle(0x7ff1, 0), q.Kind)
	if err != nil {
		return err
	}
	if !known {
		return fmt.Errorf("the kernel knows no qdisc of kind %q: %w", q.Kind, unix.ENOENT)
	}
	b := newBatch(k.write)
	for _, op := range []tc.Op{{Verb: tc.Delete, Object: tc.Qdisc{Handle: q.Handle, Parent: q.Parent}}, {Verb: tc.Add, Object: q}} {
		if err := b.op(index, op); err != nil {
			return err
		}
	}
	return errors.Join(b.send()...)
}

// applyBatch sends a group in one sendto.
func (k *Kernel) applyBatch(index int, group []tc.Result) {
	b := newBatch(k.write)
	for i := range group {
		if err := b.op(index, group[i].Op); err != nil {
			group[i].Err = err
			return
		}
	}
	errs := b.send()
	for i := range group {
		group[i].Err = errs[i]
	}
}

// applyFoundation sends a foundation. If an operation of it fails, those that were done are taken back: a part of it would not be known
// as ours, or would lie in a root that somebody else made in the meantime.
func (k *Kernel) applyFoundation(index int, group []tc.Result) {
	root := 0
	if group[0].Op.Verb == tc.Delete {
		root = 1
	}
	b := newBatch(k.write)
	offset := 0 // of the messages against the operations
	if group[root].Op.Verb == tc.Replace {
		// A root of the same handle would be changed, which htb refuses, and one of another handle replaced: so the old one goes
		// first, whatever it is.
		b.deleteRoot(index)
		offset = 1
	}
	for i := range group {
		if err := b.op(index, group[i].Op); err != nil {
			group[i].Err = err
			return
		}
	}
	errs := b.send()[offset:]
	failed := -1
	for i := range group {
		group[i].Err = errs[i]
		if failed < 0 && errs[i] != nil && !isGone(group[i].Op, errs[i]) {
			failed = i
		}
	}
	if failed < 0 {
		return
	}
	undo := newBatch(k.write)
	if errs[root] == nil {
		undo.deleteRoot(index)
	} else {
		for i := len(group) - 1; i > root; i-- {
			if op := group[i].Op; errs[i] == nil && undo.op(index, tc.Op{Verb: tc.Delete, Object: op.Object}) != nil {
				continue
			}
		}
	}
	var undone error
	if undo.count > 0 {
		undone = errors.Join(undo.send()...)
	}
	for i := root; i < len(group); i++ {
		switch {
		case i == failed:
			if undone != nil {
				group[i].Err = fmt.Errorf("%w; and what was done before could not be taken back: %w", errs[i], undone)
			}
		case errs[i] == nil:
			group[i].Err = fmt.Errorf("taken back, since %s failed: %w", group[failed].Op, tc.ErrNotTried)
		case i > failed:
			group[i].Err = tc.ErrNotTried
		}
	}
}

// isGone tells whether an operation failed because it deletes what is not there. Of a qdisc named by its handle the kernel says
// EINVAL where another one stands in its place.
func isGone(op tc.Op, err error) bool {
	if op.Verb != tc.Delete {
		return false
	}
	q, ok := op.Object.(tc.Qdisc)
	return errors.Is(err, unix.ENOENT) || ok && q.Handle != tc.Unspec && errors.Is(err, unix.EINVAL)
}

// sameHandleOtherKind tells the kernel's answer to a qdisc that is to take the place of one with its own handle and another kind.
func sameHandleOtherKind(err error) bool {
	return errors.Is(err, unix.EINVAL) && strings.Contains(err.Error(), "Invalid qdisc name")
}
