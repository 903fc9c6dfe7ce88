package main

import (
	"fmt"
	"slices"
	"strings"

	"bulkshaper/cmd/bulkshaper/screen"
)

// podReport is the result as JSON.
type podReport struct {
	Machine storyMachine `json:"machine"`
	Verdict string       `json:"verdict"`
	Runs    []podRun     `json:"networks"`
}

// judge puts together what was wrong, and what the machine was too busy for.
func (r *podReport) judge() error {
	var wrongs, unsure []string
	for _, run := range r.Runs {
		for _, w := range run.Wrong {
			wrongs = append(wrongs, run.Network+": "+w)
		}
		for _, w := range run.Slow {
			if run.Load.tooMuch() {
				unsure = append(unsure, fmt.Sprintf("%s: the machine was too busy (%s): %s", run.Network, run.Load, w))
			} else {
				wrongs = append(wrongs, run.Network+": "+w)
			}
		}
		for _, a := range run.Asked {
			if !a.Measurable {
				unsure = append(unsure, fmt.Sprintf("%s: services %s: the machine was too busy (%s)", run.Network, a.when(), a.Load))
			}
			for _, w := range a.wrongs() {
				wrongs = append(wrongs, run.Network+": "+w)
			}
		}
	}
	return verdictOf(&r.Verdict, wrongs, unsure)
}

// text is the report for people.
func (r *podReport) text() string {
	var out strings.Builder
	for _, run := range r.Runs {
		t := newTable("TO", "ON THE WIRE", "OF ALL SENT", "EXPLAIN, WIRE", "EXPLAIN, POD", "RECEIVED", "OF ITS RATE")
		for _, d := range run.Destinations {
			received, share := "-", "-"
			if d.Limit > 0 {
				received, share = humanRate(d.Received), percentOf(d.Received/d.Limit)
			}
			t.row(d.To, d.Wire, percentOf(d.Share), d.Explained, screen.OrDash(d.ExplainedPod), received, share)
		}
		fmt.Fprintf(&out, "%s\n%s", run.Network, indent(t.String()))
		var counted []string
		for _, c := range run.Classes {
			counted = append(counted, fmt.Sprintf("%s %s (expected %s)", c.Name, percentOf(c.Counted), percentOf(c.Expected)))
		}
		fmt.Fprintf(&out, "  counted by class: %s\n", strings.Join(counted, ", "))
		if services := run.servicesText(); services != "" {
			fmt.Fprintf(&out, "\n%s", indent(services))
		}
		for _, h := range run.Hints {
			fmt.Fprintf(&out, "  status says: %s\n", h)
		}
		for _, w := range slices.Concat(run.Wrong, run.Slow) {
			fmt.Fprintf(&out, "  NOT AS IT SHOULD BE: %s\n", w)
		}
		for _, a := range run.Asked {
			for _, line := range a.wrongs() {
				fmt.Fprintf(&out, "  NOT AS IT SHOULD BE: %s\n", line)
			}
			if !a.Measurable {
				fmt.Fprintf(&out, "  not measurable: services %s: %s\n", a.when(), a.Load)
			}
		}
		out.WriteString("\n")
	}
	out.WriteString(`ON THE WIRE is the destination in the outer IP header, as a packet socket on the node sees it. EXPLAIN is the class that explain names for
that address, and for the pod's own. What a class is expected to count are the bytes on the wire to the addresses that explain puts there.
OF ITS RATE is payload, of what the class's rate leaves for payload in packets of this network. LATE is the share of requests that
missed their DEADLINE, P99 the 99th percentile of latency. Services ask each other across the uplinks; a bulk node asks one, in the class
that is named.
`)
	return out.String()
}
