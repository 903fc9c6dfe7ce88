package fakekernel

import (
	"math"
	"syscall"

	"bulkshaper/shaper/tc"
)

// class is htb_change_class and htb_delete: Add has the flags CREATE and EXCL, Change none.
func (k *Kernel) class(verb tc.Verb, c tc.Class) error {
	if k.root.Kind != tc.KindHTB || c.ID.Major() != k.root.Handle.Major() {
		return refused(syscall.ENOENT, "")
	}
	if c.Parent != tc.Root && c.Parent.Major() != 0 && c.Parent.Major() != c.ID.Major() && verb != tc.Delete {
		return refused(syscall.EINVAL, "")
	}
	old, exists := k.classes[c.ID]
	switch {
	case verb == tc.Delete && !exists:
		return refused(syscall.ENOENT, "")
	case verb == tc.Delete:
		return k.deleteClass(old)
	case verb == tc.Add && exists:
		return refused(syscall.EEXIST, "")
	case verb == tc.Change && !exists:
		return refused(syscall.ENOENT, "")
	case c.Rate.BytesPerSecond() == 0 || c.Ceil.BytesPerSecond() == 0 || c.ID.Minor() == 0:
		return refused(syscall.EINVAL, "")
	case exists:
		old.set(c, k.root.HTB.R2Q) // the parent given is ignored
		return nil
	}
	made := &class{parent: k.classes[c.Parent]} // a missing parent makes a root class
	made.ID = c.ID
	if p := made.parent; p != nil {
		if p.parent != nil && p.parent.Level < 2 {
			return refused(syscall.EINVAL, "")
		}
		if p.Level == 0 {
			p.Level = maxDepth - 1
			if p.parent != nil {
				p.Level = p.parent.Level - 1
			}
			p.leaf = nil
		}
		p.children++
	}
	made.set(c, k.root.HTB.R2Q)
	k.classes[c.ID] = made
	return nil
}

// maxDepth is TC_HTB_MAXDEPTH.
const maxDepth = 8

// set is what a class change sets: prio and quantum only of leaf classes.
func (c *class) set(to tc.Class, r2q uint32) {
	if c.Level == 0 {
		c.Prio, c.Quantum = min(to.Prio, 7), to.Quantum
		if to.Quantum == 0 {
			c.Quantum = uint32(min(max(min(to.Rate.BytesPerSecond()/uint64(r2q), math.MaxInt32), 1000), 200_000))
		}
	}
	c.Rate, c.Ceil, c.Buffer, c.Cbuffer = to.Rate.WholeBytes(), to.Ceil.WholeBytes(), to.Buffer, to.Cbuffer
}

func (k *Kernel) deleteClass(c *class) error {
	if c.children > 0 || c.bound > 0 {
		return refused(syscall.EBUSY, "HTB class in use")
	}
	delete(k.classes, c.ID)
	if p := c.parent; p != nil {
		if p.children--; p.children == 0 {
			p.Level = 0
		}
	}
	return nil
}
