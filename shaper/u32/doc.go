// Package u32 is a model of the kernel's u32 classifier: it says what a set of filters does with a packet, node by node as
// net/sched/cls_u32.c does it, hash tables and links included. Tests and the explain command ask it. It is pure; it imports tc.
package u32
