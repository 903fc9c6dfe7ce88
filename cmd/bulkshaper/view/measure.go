package view

import (
	"fmt"
	"time"

	"bulkshaper/cmd/bulkshaper/screen"
	"bulkshaper/shaper"
)

// Measure says in s what each class has sent since last, which may be the zero Status.
func Measure(last shaper.Status, s *shaper.Status) {
	over := s.Time.Sub(last.Time).Seconds()
	if last.Time.IsZero() || over <= 0 {
		return
	}
	before := make(map[string]uint64, len(last.Classes))
	for _, c := range last.Classes {
		if c.Standing {
			before[c.ClassID] = c.SentBytes
		}
	}
	s.SendingOver = over
	for i := range s.Classes {
		c := &s.Classes[i]
		c.Sending = nil
		if was, ok := before[c.ClassID]; ok && c.Standing && c.SentBytes >= was {
			rate := uint64(float64(c.SentBytes-was) * 8 / over)
			c.Sending = &rate
		}
	}
}

// StatusFlat is a line a class, each with the time, for logs and for grep.
func StatusFlat(st screen.Style, s shaper.Status) []string {
	at := s.Time.Local().Format(time.TimeOnly)
	state := "in sync"
	if !s.InSync {
		state = "NOT IN SYNC: " + s.Reason
	}
	lines := []string{fmt.Sprintf("%s %s on %s, cabinet %s: %s", at, s.Interface, screen.OrUnknown(s.Node), screen.OrUnknown(s.Cabinet), state)}
	width := 0
	for _, c := range s.Classes {
		width = max(width, screen.Cells(c.Name))
	}
	for _, row := range tree(s.Classes) {
		c := row.class
		sending := "sending ?"
		switch {
		case !c.Standing:
			sending = "missing"
		case c.Sending != nil:
			sending = "sending " + screen.Rate(float64(*c.Sending))
		}
		lines = append(lines, fmt.Sprintf("%s %-*s %-17s of %-9s sent %-8s dropped %s backlog %s", at, width, c.Name, sending,
			screen.Rate(float64(c.Rate)), screen.Bytes(c.SentBytes), screen.Number(c.Dropped), screen.Bytes(c.BacklogBytes)))
	}
	return lines
}
