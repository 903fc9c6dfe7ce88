// Package words says in words what operations on the kernel do: with the names of classes, servers and rules beside the kernel's handles,
// and many of a kind in one line. It is pure and imports tc and plan.
package words
