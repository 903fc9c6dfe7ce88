// Package diff compares the observed state of an interface with the wanted one and gives the operations that lead from one to
// the other, in an order in which no packet gets what neither plan says. It is pure, keeps nothing between calls, and imports
// plan, tc and u32.
//
// Same identity and equal parameters are two questions. A qdisc is the same by parent and handle, a class by its id, a filter by
// pref and what it matches (a filter's match cannot be changed, whatever the kernel answers; its class can). What is the same
// and differs is changed in place where the kernel can do that, so that queues and counters stay.
//
// # Order
//
// First what is needed by the rest: qdiscs in the wrong place go, classes and leaves come and are changed, parents before
// children. Then new filters and changes of filters. Then deletions of filters. Last deletions of classes, children first, when
// nothing leads there any more. So a process that is killed at any point leaves filters of the old or of the new plan, never a
// gap, and the next comparison goes on from there. The exceptions are marked not hitless and say why.
//
// A packet that is on its way while filters change may see an early part of them as it was and a later part as it is. Where that would
// give it what neither plan says stands a barrier, an operation that changes nothing and waits for such packets.
//
// # Ours and foreign
//
// Everything is recognised in the observed tree itself (see Ownership). Under our root, u32 filters at our prefs and classes with
// our mark are ours; the rest stays, and Changes.Foreign names it.
//
// A root htb 1: without our mark is somebody else's. With leave to take it over (Options.Takeover) it is one more state to start from: see
// takeover.go. Any other root, and one that cannot become ours, is set up again.
//
// # Layouts
//
// In layout list filters are compared as lists, a pref for each prefix length. In layout hash the tree that stands is read from what
// was observed and adapted (package u32/layout): new tables are filled aside, then linked, then what they replace is deleted, and at
// last the tables that nothing leads to any more. The prefs of both are always compared, so that one layout makes place for the other.
//
// Filters for packets with a VLAN tag come when all else is done, and go before anything else is; see tagged.go.
package diff
