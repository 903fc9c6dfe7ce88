// Package tc holds the kernel's traffic control objects as plain values that print themselves in the syntax of tc(8):
// handles, qdiscs, HTB classes, u32 filters, the state of an interface, and the operations that lead from one state to
// another.
//
// It is the vocabulary of the rest of the program: plan builds these values, diff compares them, kernel and fakekernel
// read and write them. The names are the kernel's own (linux/pkt_sched.h, linux/pkt_cls.h). The package imports nothing
// of ours and does no input or output.
package tc
