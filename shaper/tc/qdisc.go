package tc

import "strconv"

// Kinds of qdisc that the program knows more of than the name.
const (
	KindHTB     = "htb"
	KindPFIFO   = "pfifo"
	KindBFIFO   = "bfifo"
	KindFQCodel = "fq_codel"
)

// Qdisc is a queueing discipline. The fields that the kind does not use are zero.
type Qdisc struct {
	Handle Handle
	Parent Handle
	Kind   string

	// Limit is how much may wait: packets, or bytes for bfifo. 0 in a wanted qdisc leaves it to the kernel.
	Limit uint32

	// HTB holds the parameters of kind htb. They are fixed at creation: the kernel answers EINVAL to a change.
	HTB HTB
}

// HTB is TCA_HTB_INIT: the parameters of an htb root.
type HTB struct {
	// Default is the minor number of the class for packets that no filter matches. tc prints it in hexadecimal.
	Default uint32
	// R2Q divides the rate into a quantum where none is given.
	R2Q uint32
	// DirectPackets counts what bypassed all classes; read back only.
	DirectPackets uint32
}

// Type is the kind of object: "qdisc".
func (Qdisc) Type() string { return "qdisc" }

// Ident is the type and what tells this object from others of its type.
func (q Qdisc) Ident() string { return "qdisc " + q.Handle.String() }

func (q Qdisc) tcArgs(verb Verb, dev string) []string {
	args := []string{"qdisc", string(verb), "dev", dev}
	if q.Parent == Root {
		args = append(args, "root")
	} else {
		args = append(args, "parent", q.Parent.String())
	}
	if q.Handle != Unspec {
		args = append(args, "handle", q.Handle.String())
	}
	if verb == Delete {
		return args
	}
	args = append(args, q.Kind)
	switch {
	case q.Kind == KindHTB:
		args = append(args, "default", strconv.FormatUint(uint64(q.HTB.Default), 16), "r2q", strconv.FormatUint(uint64(q.HTB.R2Q), 10))
	case q.Limit != 0:
		args = append(args, "limit", strconv.FormatUint(uint64(q.Limit), 10))
	}
	return args
}
