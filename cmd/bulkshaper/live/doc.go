// Package live shows the status again and again on a terminal: resized, sorted, scrolled and paused by keys, with a line of the last
// minutes for each class. What it shows is made by package view; whom it asks, it is given.
package live
