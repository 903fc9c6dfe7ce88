package view

import (
	"fmt"
	"slices"
	"strings"

	"bulkshaper/cmd/bulkshaper/screen"
	"bulkshaper/shaper/tc"
)

// Members is who is in a class.
type Members struct {
	Class    string `json:"class"`
	ClassID  string `json:"classid"`
	Rate     uint64 `json:"rate_bits_per_second,omitempty"`
	Ceil     uint64 `json:"ceil_bits_per_second,omitempty"`
	RateText string `json:"-"`
	Override string `json:"override,omitempty"`
	// Standing is the rate that the kernel holds, 0 where it was not asked or the class does not stand.
	Standing uint64 `json:"standing_bits_per_second,omitempty"`
	Shared   Shared `json:"shared"`
	// Rules are those that lead here, with the number of destinations.
	Rules        map[string]int `json:"rules"`
	Destinations []Member       `json:"destinations"`
	Checked      Checked        `json:"kernel"`
	// Unplanned says why only the kernel was asked, "" where it was not so.
	Unplanned string `json:"unplanned,omitempty"`
}

// Member is a destination of a class.
type Member struct {
	Prefix  string   `json:"prefix"`
	Server  string   `json:"server"`
	Cabinet string   `json:"cabinet"`
	Roles   []string `json:"roles"`
	Rule    string   `json:"rule"`
}

// Checked says of many destinations where the kernel's filters would do something else.
type Checked struct {
	// Asked is how many were held against the filters; Note says why none was.
	Asked    int        `json:"asked"`
	Note     string     `json:"note,omitempty"`
	Disagree []Disagree `json:"disagree"`
}

// Disagree is a destination that the kernel's filters do something else with.
type Disagree struct {
	Address string `json:"address"`
	Server  string `json:"server"`
	Wanted  string `json:"wanted"`
	// Kernel is the class that it takes; where it takes none, or none that is known, Nowhere is set and Kernel says why.
	Kernel  string `json:"kernel"`
	Nowhere bool   `json:"-"`
}

// mostRows is how many rows of a list are shown where not all are asked for.
const mostRows = 30

// MemberLines is who is in a class: the numbers, then the first destinations, or all.
func MemberLines(st screen.Style, m Members, all bool) []string {
	var lines []string
	say := func(what, text string) {
		lines = append(lines, st.Wrap(fmt.Sprintf("  %-8s %s", what, text), 11)...)
	}
	lines = append(lines, st.Strong(m.Class)+" "+m.ClassID+rateText(Explanation{Rate: m.Rate, Ceil: m.Ceil, RateText: m.RateText, Override: m.Override}))
	say("in it", sharedText(m.Shared))
	if len(m.Shared.Cabinets) > 0 {
		say("cabinets", counts(m.Shared.Cabinets, 8))
	}
	if len(m.Rules) > 0 {
		say("rules", counts(m.Rules, 8))
	}
	text := checkedText(st, m.Checked)
	switch {
	case m.Unplanned != "" && m.Checked.Note != "":
		text += "; " + m.Unplanned
	case m.Unplanned != "":
		text = m.Unplanned
		if m.Standing != 0 && m.Rate == 0 {
			text += ", and it holds it to " + Held(m.Standing)
		}
		if len(m.Checked.Disagree) > 0 {
			text += "; " + checkedText(st, m.Checked)
		}
	}
	if m.Standing != 0 && m.Standing != m.Rate && m.Rate != 0 {
		text += ", " + st.Warn("its rate stands at "+tc.BitRate(m.Standing).String())
	}
	say("kernel", text)
	if len(m.Destinations) == 0 {
		return lines
	}
	t := screen.Table{Columns: []screen.Column{{Head: "DESTINATION", Least: 18}, {Head: "SERVER", Least: 12}, {Head: "CABINET", Drop: 1}, {Head: "ROLES", Least: 8, Drop: 3}, {Head: "RULE", Least: 8, Drop: 2}}}
	shown := m.Destinations
	if !all {
		shown = shown[:min(len(shown), mostRows)]
	}
	for _, d := range shown {
		t.Row(d.Prefix, screen.OrDash(d.Server), screen.OrDash(d.Cabinet), screen.OrDash(strings.Join(d.Roles, " ")), screen.OrDash(d.Rule))
	}
	rows, _ := t.Lines(st)
	lines = append(append(lines, ""), rows...)
	return append(lines, more(st, len(m.Destinations)-len(shown), "destination")...)
}

func more(st screen.Style, n int, what string) []string {
	if n <= 0 {
		return nil
	}
	return []string{st.Faint(fmt.Sprintf("and %s more (--all)", screen.Count(n, what)))}
}

func checkedText(st screen.Style, c Checked) string {
	switch {
	case c.Note != "":
		return st.Warn("not asked") + ": " + c.Note
	case c.Asked == 0:
		return "nothing to ask it"
	case len(c.Disagree) == 0:
		return st.Good("agrees") + " on all " + screen.Count(c.Asked, "destination")
	}
	text := st.Bad("DISAGREES") + fmt.Sprintf(" on %d of %s: ", len(c.Disagree), screen.Count(c.Asked, "destination"))
	first := c.Disagree[0]
	if first.Nowhere && !slices.ContainsFunc(c.Disagree, func(d Disagree) bool { return !d.Nowhere || d.Kernel != first.Kernel }) {
		return text + first.Kernel // one reason for all
	}
	for i, d := range c.Disagree[:min(len(c.Disagree), 5)] {
		if i > 0 {
			text += "; "
		}
		text += strings.TrimSpace(d.Server + " " + d.Address)
		if d.Nowhere {
			text += ": wanted " + d.Wanted + ", and " + d.Kernel
			continue
		}
		text += " goes to " + d.Kernel + ", wanted " + d.Wanted
	}
	if n := len(c.Disagree) - 5; n > 0 {
		text += fmt.Sprintf("; and %d more", n)
	}
	return text
}

// Between is where addresses change class in a prefix.
type Between struct {
	Prefix  string  `json:"prefix"`
	Ranges  []Range `json:"ranges"`
	Checked Checked `json:"kernel"`
}

// Range is addresses in a row with one class.
type Range struct {
	First   string   `json:"first"`
	Last    string   `json:"last"`
	Class   string   `json:"class"`
	ClassID string   `json:"classid"`
	Own     bool     `json:"own,omitempty"`
	Servers []string `json:"servers"`
}

// BetweenLines is the ranges of a prefix.
func BetweenLines(st screen.Style, b Between, all bool) []string {
	classes := map[string]int{}
	for _, r := range b.Ranges {
		if !r.Own {
			classes[r.Class]++
		}
	}
	lines := st.Wrap(st.Strong(b.Prefix)+": "+screen.Count(len(b.Ranges), "range")+"; by class: "+counts(classes, 8), 2)
	lines = append(lines, st.Wrap("  kernel   "+checkedText(st, b.Checked), 11)...)
	t := screen.Table{Columns: []screen.Column{{Head: "FROM"}, {Head: "TO"}, {Head: "CLASS", Least: 14}, {Head: "CLASSID", Drop: 1}, {Head: "SERVERS", Least: 10}}}
	shown := b.Ranges
	if !all {
		shown = shown[:min(len(shown), mostRows)]
	}
	for _, r := range shown {
		class := r.Class
		if r.Own {
			class = "none: this node itself"
		}
		t.Row(r.First, r.Last, class, screen.OrDash(r.ClassID), someOf(r.Servers))
	}
	rows, _ := t.Lines(st)
	lines = append(append(lines, ""), rows...)
	return append(lines, more(st, len(b.Ranges)-len(shown), "range")...)
}

func someOf(names []string) string {
	if len(names) <= 3 {
		return screen.OrDash(strings.Join(names, " "))
	}
	return fmt.Sprintf("%d: %s ... %s", len(names), names[0], names[len(names)-1])
}
