//go:build !system

package main

// How long the soak of each layout is.
const (
	soakEdits   = 60
	soakWindows = 6
)
