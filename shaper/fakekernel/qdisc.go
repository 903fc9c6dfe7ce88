package fakekernel

import (
	"errors"
	"slices"
	"syscall"

	"bulkshaper/shaper/tc"
)

func isErrno(err error, errno syscall.Errno) bool { return errors.Is(err, errno) }

// qdisc is tc_modify_qdisc and tc_get_qdisc: Add has the flags CREATE and EXCL, Replace CREATE and REPLACE, Change none.
func (k *Kernel) qdisc(verb tc.Verb, q tc.Qdisc) error {
	var holder *class // nil for the root
	var old *tc.Qdisc
	if q.Parent == tc.Root {
		old = &k.root
	} else {
		if k.root.Handle == 0 || q.Parent.Major() != k.root.Handle.Major() {
			return refused(syscall.ENOENT, "Failed to find qdisc with specified classid")
		}
		c, ok := k.classes[q.Parent]
		if !ok {
			return refused(syscall.ENOENT, "Specified class not found")
		}
		holder, old = c, c.leaf
	}
	if old != nil && old.Handle == 0 {
		old = nil
	}
	if verb == tc.Delete {
		return k.deleteQdisc(holder, old, q)
	}
	if !slices.Contains([]string{tc.KindHTB, tc.KindPFIFO, tc.KindBFIFO, k.autoLeaf}, q.Kind) {
		return refused(syscall.ENOENT, "Specified qdisc kind is unknown")
	}
	if old == nil || q.Handle != 0 && old.Handle != q.Handle {
		if old != nil && verb != tc.Replace {
			return refused(syscall.EEXIST, "NLM_F_REPLACE needed to override")
		}
		switch {
		case q.Handle.Minor() != 0:
			return refused(syscall.EINVAL, "Invalid minor handle")
		case k.handleTaken(q.Handle):
			return refused(syscall.EINVAL, "Cannot move an existing qdisc to a different parent")
		case verb == tc.Change:
			return refused(syscall.ENOENT, "Qdisc not found. To create specify NLM_F_CREATE flag")
		case holder != nil && holder.Level > 0:
			return refused(syscall.EINVAL, "")
		}
		k.graft(holder, q)
		return nil
	}
	switch {
	case verb == tc.Add:
		return refused(syscall.EEXIST, "Exclusivity flag on, cannot modify")
	case q.Kind != old.Kind:
		return refused(syscall.EINVAL, "Invalid qdisc name: must match existing qdisc")
	case q.Kind == tc.KindHTB:
		return refused(syscall.EINVAL, "Change operation not supported by specified qdisc")
	}
	if q.Limit != 0 {
		old.Limit = q.Limit
	}
	return nil
}

func (k *Kernel) handleTaken(h tc.Handle) bool {
	if h == 0 {
		return false
	}
	taken := k.root.Handle == h
	for _, c := range k.classes {
		taken = taken || c.leaf != nil && c.leaf.Handle == h
	}
	return taken
}

func (k *Kernel) graft(holder *class, q tc.Qdisc) {
	if q.Handle == 0 {
		for q.Handle = tc.MakeHandle(0x8001, 0); k.handleTaken(q.Handle); {
			q.Handle = tc.MakeHandle(q.Handle.Major()+1, 0)
		}
	}
	if q.Limit == 0 {
		q.Limit = k.defaultLimit(q.Kind)
	}
	if holder != nil {
		holder.leaf = &q
		return
	}
	k.clear()
	k.root = q
	if q.Kind == tc.KindHTB {
		k.root.Limit = 0
		k.root.HTB.DirectPackets = 0
		if k.root.HTB.R2Q == 0 {
			k.root.HTB.R2Q = 10
		}
	}
}

func (k *Kernel) defaultLimit(kind string) uint32 {
	switch kind {
	case tc.KindPFIFO:
		return uint32(max(k.link.TxQueueLen, 0))
	case tc.KindBFIFO:
		return uint32(max(k.link.TxQueueLen, 0) * (k.link.MTU + 14))
	case tc.KindFQCodel:
		return 10240
	}
	return 0
}

func (k *Kernel) deleteQdisc(holder *class, old *tc.Qdisc, q tc.Qdisc) error {
	switch {
	case old == nil:
		if q.Handle != 0 {
			return refused(syscall.EINVAL, "Invalid handle")
		}
		return refused(syscall.ENOENT, "Cannot delete qdisc with handle of zero")
	case q.Handle != 0 && q.Handle != old.Handle:
		return refused(syscall.EINVAL, "Invalid handle")
	case holder != nil:
		holder.leaf = nil
	default:
		k.clear()
	}
	return nil
}
