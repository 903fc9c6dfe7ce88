package kernel

import (
	"fmt"

	"golang.org/x/sys/unix"

	"bulkshaper/shaper/kernel/wire"
	"bulkshaper/shaper/tc"
)

// batch is a number of messages that go out in one sendto. The last one asks for an acknowledgement; the others answer only if they
// fail, and are told apart by their sequence numbers.
type batch struct {
	conn  *conn
	first uint32
	count int
	last  int // where the last message begins
	bytes []byte
}

// newBatch begins a batch on c, of which the caller holds the lock. There is one batch at a time.
func newBatch(c *conn) *batch { return &batch{conn: c, bytes: c.out[:0]} }

func (b *batch) header(flags uint16) wire.Header {
	seq := b.conn.next()
	if b.count == 0 {
		b.first = seq
	}
	b.count++
	b.last = len(b.bytes)
	return wire.Header{Flags: flags, Seq: seq}
}

// op adds an operation.
func (b *batch) op(index int, op tc.Op) error {
	const create, exclusive, replace = unix.NLM_F_CREATE, unix.NLM_F_EXCL, unix.NLM_F_REPLACE
	var flag uint16
	switch op.Verb {
	case tc.Add:
		flag = create | exclusive
	case tc.Replace:
		flag = create | replace
	case tc.Change, tc.Delete:
	default:
		return fmt.Errorf("verb %q is not known", op.Verb)
	}
	switch o := op.Object.(type) {
	case tc.Qdisc:
		if op.Verb == tc.Delete {
			b.bytes = wire.AppendDeleteQdisc(b.bytes, b.header(0), index, o)
			return nil
		}
		if op.Verb == tc.Replace && o.Parent == tc.Root {
			flag = create | exclusive // the old root is deleted before
		}
		var err error
		b.bytes, err = wire.AppendNewQdisc(b.bytes, b.header(flag), index, o)
		return err
	case tc.Class:
		switch op.Verb {
		case tc.Delete:
			b.bytes = wire.AppendDeleteClass(b.bytes, b.header(0), index, o)
			return nil
		case tc.Add, tc.Change:
			b.bytes = wire.AppendNewClass(b.bytes, b.header(flag), index, o)
			return nil
		}
	case tc.Filter:
		if err := checkFilter(op.Verb, o); err != nil {
			return err
		}
		switch op.Verb {
		case tc.Delete:
			b.bytes = wire.AppendDeleteFilter(b.bytes, b.header(0), index, o)
			return nil
		case tc.Add:
			b.bytes = wire.AppendAddFilter(b.bytes, b.header(flag), index, o)
			return nil
		case tc.Change:
			b.bytes = wire.AppendChangeFilter(b.bytes, b.header(0), index, o)
			return nil
		}
	case tc.Pref:
		if op.Verb == tc.Delete && o.Number != 0 { // 0 would be all filters of the qdisc
			b.bytes = wire.AppendDeletePref(b.bytes, b.header(0), index, o)
			return nil
		}
	}
	return fmt.Errorf("a %s cannot be %sd", op.Object.Type(), op.Verb)
}

// checkFilter refuses what the kernel would take for something else: handle 0 is a whole pref in a deletion, and a number of its own
// choice in an addition; table 0 is no handle that could be changed or deleted.
func checkFilter(verb tc.Verb, f tc.Filter) error {
	switch {
	case f.Pref == 0:
		return fmt.Errorf("filter without a pref")
	case f.Handle == 0:
		return fmt.Errorf("filter without a handle")
	case verb != tc.Delete && f.Kind != tc.KindU32:
		return fmt.Errorf("filters of kind %q are not made here", f.Kind)
	case verb != tc.Add && f.Kind == tc.KindU32 && f.Handle.Table() == 0:
		return fmt.Errorf("handle %s has no hash table", f.Handle)
	case len(f.Sel.Keys) > wire.MaxKeys:
		return fmt.Errorf("%d keys are over %d", len(f.Sel.Keys), wire.MaxKeys)
	}
	return nil
}

// deleteRoot adds the deletion of whatever root stands; a root of the kernel's own makes it answer ENOENT.
func (b *batch) deleteRoot(index int) {
	b.bytes = wire.AppendDeleteQdisc(b.bytes, b.header(0), index, tc.Qdisc{Parent: tc.Root})
}

// send sends the batch and returns the error of each message.
func (b *batch) send() []error {
	wire.AskAck(b.bytes[b.last:])
	b.conn.out = b.bytes
	replies, err := b.conn.exchange(b.bytes, b.first, b.count)
	errs := make([]error, b.count)
	for i := range errs {
		if replies != nil {
			errs[i] = explain(replies[i])
		}
		if errs[i] == nil {
			errs[i] = err
		}
	}
	return errs
}
