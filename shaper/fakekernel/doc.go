// Package fakekernel is the kernel's traffic control for tests, in memory: the same objects, the same errors and the same
// silences as Linux 6.18 (a class below a missing parent becomes a root class, a filter to a missing class is accepted, ...).
// It has the methods of the kernel package, and more to break things on purpose. It imports tc and u32.
//
// What it does not have: hash tables numbered by the kernel, filters on classes, qdiscs with classes below a leaf. A test drives it
// and the real kernel with the same operations.
package fakekernel
