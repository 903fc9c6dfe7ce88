// Package confirm puts the shaping of before back unless somebody confirms the new one in time.
//
// A process of its own, the guard, holds what stood before as a value and waits. It is in a session of its own, so that neither the
// end of the apply that started it, nor of that one's parent or terminal, ends it. While it lives it holds a lock in the run folder, by
// which everybody sees that a confirmation is due, and answers at a socket there. When its time is over, when the apply died half-way,
// or when it is told to end (SIGTERM), it puts back what was, by the same comparison and operations as everything else.
//
// What cannot be put back exactly is refused at the beginning: a root qdisc of somebody else, an installation that is not whole.
//
// It imports the loop's package for its passes, and knows the kernel by the interface shaper.Kernel only.
package confirm
