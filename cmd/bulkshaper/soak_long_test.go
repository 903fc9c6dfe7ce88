//go:build system

package main

// How long the soak is: each edit is a reload or more.
const (
	soakEdits   = 20_000
	soakWindows = 20
)
