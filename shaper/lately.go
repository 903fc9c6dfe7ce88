package shaper

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"bulkshaper/shaper/words"
)

// Happening is something of late that nothing else in a status shows any more: all is as wanted again, and yet somebody changed the shaping, or
// a class has another rate than was thought. The names of its fields are part of the contract.
type Happening struct {
	// Time is when it happened last.
	Time time.Time `json:"time"`
	// Kind is EventRepaired or EventOverride.
	Kind EventKind `json:"kind"`
	// Times is how often it happened within the time that is looked at.
	Times int `json:"times"`
	// Text says what, of what happened often the last.
	Text string `json:"text"`
}

const (
	// LatelySpan is how far back a status looks: who is called up asks what was within the hour. The history goes back further.
	LatelySpan = time.Hour
	// maxEnded is how many overrides that ended are told.
	maxEnded = 3
)

// Lately is what of events, oldest first, a status tells: the repairs as one, and the overrides that ended or were dropped, newest first.
func Lately(events []Event, now time.Time) []Happening {
	var repaired Happening
	var ended []Happening
	for _, e := range slices.Backward(events) {
		if now.Sub(e.Time) > LatelySpan {
			break
		}
		switch {
		case e.Kind == EventRepaired:
			if repaired.Times++; repaired.Times == 1 {
				repaired.Time, repaired.Kind, repaired.Text = e.Time, e.Kind, e.operations()
			}
		case e.Kind == EventOverride && len(ended) < maxEnded && e.endsOverride():
			text := strings.TrimPrefix(e.Why, overridePrefix)
			if e.Error != "" {
				text += ": " + e.Error
			}
			ended = append(ended, Happening{e.Time, e.Kind, 1, text})
		}
	}
	if repaired.Times > 0 {
		return append([]Happening{repaired}, ended...)
	}
	return ended
}

// endsOverride tells whether an override went by itself. Whom one was set or cleared by knows that.
func (e Event) endsOverride() bool {
	return strings.HasPrefix(e.Why, overridePrefix+overrideEnded+":") || strings.HasPrefix(e.Why, overridePrefix+overrideDropped+":")
}

// operations is what an event did, in a line: the first in words, how many more there were.
func (e Event) operations() string {
	if len(e.Operations) == 0 || len(e.Operations[0].Examples) == 0 {
		return e.Why
	}
	first, all := e.Operations[0], 0
	for _, o := range e.Operations {
		all += o.Count
	}
	what := first.Examples[0].Object
	if class := first.Examples[0].Class; class != "" {
		what += " (" + class + ")"
	}
	text := words.Because(first.Verb+" "+what, first.Examples[0].Why)
	if all > 1 {
		text += fmt.Sprintf("; and %d more", all-1)
	}
	return text
}
