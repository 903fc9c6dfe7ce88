// Package screen lays out text for people: columns that fit a width, bars, sparklines, numbers with units, and colours where the
// place that is written to has them. It knows nothing of shaping and writes nothing itself.
package screen
