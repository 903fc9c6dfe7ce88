// Package shaper keeps one interface shaped as its input says: it is the loop between the files and the kernel.
//
//	files -> inventory -> policy -> plan (wanted) -+
//	                                               +-> diff -> operations -> kernel -> read back: as wanted?
//	kernel -> observe (what is there) -------------+                                       |
//	                                                              snapshot -> metrics, status, service manager
//
// Computation is pure, effects sit at the two ends:
//
//   - inventory reads roles.json and the servers' files, whole or not at all; inventory/watch says when to read again.
//   - shaper/config reads the config; shaper/policy decides which class an address gets and what rates the classes have.
//   - shaper/plan makes of that the whole wanted state, as the plain values of shaper/tc.
//   - shaper/diff compares it with what stands in the kernel, and gives the operations in an order that hurts no packet.
//   - shaper/kernel is the only room with netlink in it; shaper/fakekernel has the same semantics in memory, for tests.
//   - shaper/u32 is a model of the kernel's classifier, for explain and for tests.
//   - this package: Desire (input to plan), Converge (one pass with read-back) and Loop (when to make a pass, and what to tell).
//
// # What the loop promises
//
// One goroutine owns the state; everybody else reads snapshots. The diff is always against the kernel as it was just read,
// never against memory, so a pass is the same after a restart, an edit or somebody else's tc command. An input that is wrong
// in any way changes nothing. A root qdisc that is not ours ends the program at the first contact; later, on a link that this
// loop has shaped, it is taken back, and more and more slowly when that happens again and again. When the loop is told to
// end it finishes the pass that it is in, and the shaping stays.
//
// # Arrows
//
// Imports point one way: inventory <- shaper/... <- metrics <- cmd, and within shaper tc <- config <- policy <- plan <- diff.
// The loop knows the kernel by the interface Kernel only. A test in this package holds these arrows.
package shaper
