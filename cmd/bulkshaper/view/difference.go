package view

import (
	"cmp"
	"fmt"
	"slices"

	"bulkshaper/cmd/bulkshaper/screen"
)

// Difference is what an edit of the files changes on one node.
type Difference struct {
	Node    string        `json:"node"`
	Classes []ClassChange `json:"classes"`
	// Moved get another class, Added and Removed are new or gone; Ruled keep their class by another rule.
	Moved   []DestinationChange `json:"moved"`
	Added   []DestinationChange `json:"added"`
	Removed []DestinationChange `json:"removed"`
	Ruled   []DestinationChange `json:"ruled"`
}

// ClassChange is a class that is new, gone, or has other settings.
type ClassChange struct {
	Name string `json:"name"`
	// Key is the setting, "" where the whole class comes or goes.
	Key  string `json:"key"`
	From string `json:"from"`
	To   string `json:"to"`
}

// DestinationChange is a destination that changes.
type DestinationChange struct {
	Prefix string `json:"prefix"`
	Server string `json:"server"`
	// From and To are classes, "" where there is none.
	From string `json:"from"`
	To   string `json:"to"`
	// Rule is the one that leads to To, or led to From.
	Rule string `json:"rule"`
}

func differenceLines(st screen.Style, d *Difference, notes []string) []string {
	var lines []string
	for _, note := range notes {
		lines = append(lines, st.Wrap(st.Faint("note: "+note), 4)...)
	}
	if d == nil {
		return lines
	}
	if len(d.Classes)+len(d.Moved)+len(d.Added)+len(d.Removed)+len(d.Ruled) == 0 {
		return append(lines, st.Wrap("on "+st.Strong(d.Node)+" the edit changes nothing", 4)...)
	}
	lines = append(lines, st.Wrap("on "+st.Strong(d.Node)+" the edit changes:", 4)...)
	say := func(verb, text string) { lines = append(lines, st.Wrap(fmt.Sprintf("  %-7s %s", verb, text), 10)...) }
	for _, c := range d.Classes {
		switch {
		case c.Key != "":
			say("class", fmt.Sprintf("%s: %s %s, was %s", c.Name, c.Key, orNone(c.To), orNone(c.From)))
		case c.From == "":
			say("class", c.Name+" is new: "+c.To)
		default:
			say("class", c.Name+" is gone; it was "+c.From)
		}
	}
	for _, part := range []struct {
		verb string
		list []DestinationChange
	}{{"move", d.Moved}, {"add", d.Added}, {"remove", d.Removed}, {"rule", d.Ruled}} {
		for _, text := range groups(part.verb, part.list) {
			say(part.verb, text)
		}
	}
	return lines
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// groups puts together what changes alike.
func groups(verb string, list []DestinationChange) []string {
	type key struct{ from, to, rule string }
	of := map[key][]DestinationChange{}
	var order []key
	for _, d := range list {
		k := key{d.From, d.To, d.Rule}
		if of[k] == nil {
			order = append(order, k)
		}
		of[k] = append(of[k], d)
	}
	slices.SortStableFunc(order, func(a, b key) int { return cmp.Compare(len(of[b]), len(of[a])) })
	var texts []string
	for _, k := range order {
		rule := "no rule matches"
		if k.rule != "" {
			rule = "by rule " + k.rule
		}
		what := map[string]string{"move": "from " + k.from + " to " + k.to + ", " + rule, "add": "to " + k.to + ", " + rule, "remove": "from " + k.from, "rule": "stay in " + k.to + ", now " + rule}[verb]
		var names []string
		for _, d := range of[k][:min(len(of[k]), 4)] {
			name := d.Prefix
			if d.Server != "" {
				name = d.Server + " " + d.Prefix
			}
			names = append(names, name)
		}
		text := screen.Count(len(of[k]), "destination") + " " + what + ": "
		for i, name := range names {
			if i > 0 {
				text += ", "
			}
			text += name
		}
		if len(of[k]) > len(names) {
			text += " ..."
		}
		texts = append(texts, text)
	}
	return texts
}
