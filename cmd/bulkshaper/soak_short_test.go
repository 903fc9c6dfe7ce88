//go:build !system

package main

// How long the soak is.
const (
	soakEdits   = 300
	soakWindows = 6
)
