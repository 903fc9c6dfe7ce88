// Package kernel reads and writes the traffic control of one interface through rtnetlink.
//
// It is the only package of the program that imports network libraries, and it makes no decisions: it does the operations
// it is given in their order and says what became of each.
//
// Who does what:
//   - vishvananda/netlink: the link and its addresses, and sockets in a namespace.
//   - florianl/go-tc: what carries parameters and goes alone, classes that are added and leaves (see gotc.go).
//   - our own package wire: u32, whatever goes in batches, all that is read back, and counters of 64 bits.
//
// Sockets are apart for reading, writing and counters, so that a scrape waits for nobody and no message meets the answer
// to another.
package kernel
