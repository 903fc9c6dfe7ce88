//go:build race

package main

// raceFactor is how much more the race detector may take.
const raceFactor = 10
