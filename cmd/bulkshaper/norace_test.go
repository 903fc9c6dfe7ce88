//go:build !race

package main

// raceFactor is 1 where the program runs as it is.
const raceFactor = 1
