package main

import (
	"fmt"
	"strings"

	"bulkshaper/cmd/bulkshaper/screen"
	"bulkshaper/shaper/tc"
)

// printClasses shows what each class was to get and got.
func (d *demo) printClasses() error {
	r := &d.report
	t := newTable("CLASS", "CLASSID", "TO", "WANTED", "RECEIVED", "SHARE", "ON THE WIRE", "SENT", "PACKETS", "DROPPED", "OVERLIMITS", "DESTINATIONS")
	for _, c := range r.Classes {
		received, share := "-", "-"
		if c.To != "" {
			received, share = humanRate(c.Received), fmt.Sprintf("%.1f%%", 100*c.Share)
		}
		t.row(c.Name, c.ClassID, screen.OrDash(c.To), tc.BitRate(c.Wanted), received, share, humanRate(c.Sent), humanBytes(c.Bytes), c.Packets,
			c.Dropped, c.Overlimits, c.Destinations)
	}
	var others []string
	for _, o := range r.Others {
		others = append(others, fmt.Sprintf("%s %s", o.Node, humanRate(o.Sent)))
	}
	return d.print(`Cabinet b12 has hadoop01 to 03 and app01, b13 has hadoop04 to 06 and the name node, and client01 is in nobody's inventory.
For %s %s sent to a server of each class at once, as fast as TCP could, over its link of %s:

%s
WANTED is the class's rate. RECEIVED is the payload that arrived, SHARE how much that is of what fits into the rate. ON THE WIRE
is by the class's counters in the kernel, as is all to the right of it. Packets that went past the classes: %d.
Meanwhile other nodes copied across the cabinets, each within its own %s: %s.
`, d.duration, r.Node, d.link, t, r.Direct, d.wanted("cross-cabinet"), strings.Join(others, ", "))
}

// printEdit shows what the edit did.
func (d *demo) printEdit() error {
	e := &d.report.Edit
	t := newTable("CLASS", "SENT BEFORE", "SENT AFTER")
	for _, c := range e.Classes {
		t.row(c.Name, humanBytes(c.Before), humanBytes(c.After))
	}
	var operations []string
	for _, n := range d.report.Daemons {
		operations = append(operations, fmt.Sprintf("%s %d", n.Node, n.Operations))
	}
	return d.print(`
%s stands in %s, but its file in the inventory still said %s. It was corrected while %s was sending to it:

  %s received %s before and %s after, on the same connection
  %.0f ms went by from the rename of the file to the filter in the kernel, most of it the wait until the files are quiet
  of the %d filters on %s one changed: %s
  operations by daemon: %s
  every counter went on:

%s`, e.Server, e.To, e.From, measured, e.Server, humanRate(e.Before), humanRate(e.After), 1000*e.Seconds, e.Filters, measured,
		strings.Join(e.Changed, "; "), strings.Join(operations, ", "), indent(t.String()))
}

func indent(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return "  " + strings.Join(lines, "\n  ") + "\n"
}
