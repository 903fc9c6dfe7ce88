package shaper

import (
	"net/netip"
	"slices"
	"strings"

	"bulkshaper/inventory"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
)

// known is what questions are answered from. It is never changed after it was published.
type known struct {
	input   Input
	desired *Desired
}

// Finding is the answer to "which class is that in, and why", as /api/v1/explain gives it. The names of its fields are part of the
// contract.
type Finding struct {
	Asked string `json:"asked"`
	// Answers are of the address that was asked for, or of the addresses of the server; none where it is neither.
	Answers []Answer `json:"answers"`
	// Matches are destinations in whose prefix or server's name what was asked stands, the first few of MatchesTotal.
	Matches      []Destination `json:"matches"`
	MatchesTotal int           `json:"matches_total"`
}

// Answer is what one address gets.
type Answer struct {
	Address    string   `json:"address"`
	Server     string   `json:"server"`
	Cabinet    string   `json:"cabinet"`
	Datacenter string   `json:"datacenter"`
	Roles      []string `json:"roles"`
	// Tried are the rules before it that did not match, and why; Rule is "" where none did and the default class was taken.
	Tried   []TriedRule `json:"tried"`
	Rule    string      `json:"rule"`
	Class   string      `json:"class"`
	ClassID string      `json:"classid"`
	// Own says that it is this node's own: it has no class.
	Own bool `json:"own"`
}

// TriedRule is a rule that did not match.
type TriedRule struct {
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
}

// Destination is a prefix that has a filter.
type Destination struct {
	Prefix  string `json:"prefix"`
	Server  string `json:"server"`
	Rule    string `json:"rule"`
	Class   string `json:"class"`
	ClassID string `json:"classid"`
}

const (
	// maxAnswers and maxMatches bound a finding.
	maxAnswers = 50
	maxMatches = 50
)

// Find answers from the plan in force; false while there is none. Any goroutine may ask.
func (l *Loop) Find(asked string) (Finding, bool) {
	k := l.known.Load()
	if k == nil {
		return Finding{}, false
	}
	f := Finding{Asked: asked, Answers: []Answer{}, Matches: []Destination{}}
	ids := map[string]string{}
	for _, c := range k.desired.Plan.Classes {
		ids[c.Name] = c.Class.ID.String()
	}
	for _, a := range addressesOf(k.input.Inventory, asked) {
		if len(f.Answers) < maxAnswers {
			f.Answers = append(f.Answers, answerOf(k.desired.Policy.Explain(a), ids))
		}
	}
	text := strings.ToLower(strings.TrimSpace(asked))
	if text == "" {
		return f, true
	}
	for _, d := range k.desired.Plan.Destinations {
		prefix := ""
		if !strings.Contains(d.Server, text) && d.Class != text {
			if prefix = prefixText(d.Prefix); !strings.Contains(prefix, text) {
				continue
			}
		}
		if f.MatchesTotal++; len(f.Matches) < maxMatches {
			f.Matches = append(f.Matches, Destination{prefixText(d.Prefix), d.Server, d.Rule, d.Class, ids[d.Class]})
		}
	}
	return f, true
}

// prefixText is an address where the prefix is no more than that.
func prefixText(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// addressesOf are those that asked stands for: itself, those of the server of that name, or none.
func addressesOf(inv *inventory.Inventory, asked string) []netip.Addr {
	asked = strings.TrimSpace(asked)
	if a, err := netip.ParseAddr(asked); err == nil {
		return []netip.Addr{a.Unmap().WithZone("")}
	}
	if p, err := netip.ParsePrefix(asked); err == nil {
		return []netip.Addr{p.Addr().Unmap()}
	}
	s, ok := inv.Server(asked)
	if !ok {
		return nil
	}
	addresses := slices.Clone(s.Addresses)
	for _, p := range s.Prefixes {
		addresses = append(addresses, p.Addr())
	}
	return addresses
}

func answerOf(e policy.Explanation, ids map[string]string) Answer {
	a := Answer{Address: e.Address.String(), Roles: []string{}, Tried: []TriedRule{}, Rule: e.Rule, Class: e.Class, ClassID: ids[e.Class], Own: e.Own}
	if s := e.Owner; s != nil {
		a.Server, a.Cabinet, a.Datacenter = s.Name, s.Cabinet, s.Datacenter
		a.Roles = append(a.Roles, s.Roles...)
	}
	for _, t := range e.Tried {
		a.Tried = append(a.Tried, TriedRule{t.Rule, t.Reason})
	}
	return a
}

// RuleWords is a rule for people, as /api/v1/rules gives it.
type RuleWords struct {
	Name string `json:"name"`
	// Matches is what it matches, in words.
	Matches string `json:"matches"`
	Class   string `json:"class"`
}

// Rules are the rules in force, the first that matches counts; the last is for what none matches. There are none while there is no
// plan.
func (l *Loop) Rules() []RuleWords {
	k := l.known.Load()
	if k == nil {
		return []RuleWords{}
	}
	rules := []RuleWords{{tc.ControlName, "address resolution and neighbour discovery", tc.ControlName}}
	if ack := k.input.Config.AckClass; ack != "" {
		rules = append(rules, RuleWords{"acknowledgements", "TCP acknowledgements that carry nothing else", ack})
	}
	for _, r := range k.input.Config.Rules {
		rules = append(rules, RuleWords{r.Name, matchWords(r.Match, k.desired.Node), r.Class})
	}
	return append(rules, RuleWords{"", "everything else", k.input.Config.DefaultClass})
}

// matchWords says what a match matches, as seen from node.
func matchWords(m config.Match, node *inventory.Server) string {
	var parts []string
	or := func(list []string) string { return strings.Join(list, " or ") }
	place := func(what, own string, values []string) {
		var names []string
		for _, v := range values {
			switch v {
			case config.Same:
				if own == "" {
					own = "unknown"
				}
				v = "this node's " + what + " (" + own + ")"
			case config.Other:
				v = "another " + what
			default:
				v = what + " " + v
			}
			names = append(names, v)
		}
		if names != nil {
			parts = append(parts, "in "+or(names))
		}
	}
	if m.Role != nil {
		parts = append(parts, "with role "+or(m.Role))
	}
	place("cabinet", node.Cabinet, m.Cabinet)
	place("datacenter", node.Datacenter, m.Datacenter)
	if m.Server != nil {
		parts = append(parts, "named "+or(m.Server))
	}
	var prefixes []string
	for _, p := range m.Address {
		prefixes = append(prefixes, prefixText(p))
	}
	switch {
	case len(parts) == 0 && prefixes == nil:
		return "everything"
	case len(parts) == 0:
		return "addresses in " + or(prefixes)
	case prefixes != nil:
		parts = append(parts, "at an address in "+or(prefixes))
	}
	return "servers " + strings.Join(parts, ", ")
}
