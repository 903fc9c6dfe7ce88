package config

import (
	"fmt"
	"net/netip"
	"path"
	"strings"

	"bulkshaper/inventory"
)

// Same and Other are the values of cabinet and datacenter in a match that are seen from this node.
const (
	Same  = "same"
	Other = "other"
)

// IsZero tells whether m matches everything.
func (m Match) IsZero() bool {
	return m.Role == nil && m.Cabinet == nil && m.Datacenter == nil && m.Server == nil && m.Address == nil
}

// OnlyAddress tells whether m needs no owner of the address.
func (m Match) OnlyAddress() bool {
	return m.Role == nil && m.Cabinet == nil && m.Datacenter == nil && m.Server == nil
}

// String prints m as it would be written.
func (m Match) String() string {
	var parts []string
	list := func(key string, values []string) {
		switch len(values) {
		case 0:
		case 1:
			parts = append(parts, key+": "+values[0])
		default:
			parts = append(parts, key+": ["+strings.Join(values, ", ")+"]")
		}
	}
	var addresses []string
	for _, p := range m.Address {
		addresses = append(addresses, p.String())
	}
	list("role", m.Role)
	list("cabinet", m.Cabinet)
	list("datacenter", m.Datacenter)
	list("server", m.Server)
	list("address", addresses)
	return "{" + strings.Join(parts, ", ") + "}"
}

// rules reads the rules, which take the place of the packaged ones. An empty list is allowed: then the default class has all.
func (d *decoder) rules(n *node, c *Config) {
	c.Rules = nil
	if n.kind != sequenceNode {
		d.add(n, "begin each rule with a dash", "rules is %s, not a list", n.what())
		return
	}
	for i, item := range n.items {
		if rule, ok := d.rule(i, item); ok {
			c.Rules = append(c.Rules, rule)
		}
	}
}

func (d *decoder) rule(index int, n *node) (Rule, bool) {
	rule := Rule{Place: d.place(n)}
	what := fmt.Sprintf("rule %d", index+1)
	if n.kind != mappingNode {
		if n.kind != badNode {
			d.add(n, "write it like {name: x, match: {role: y}, class: z}", "%s is %s, not a mapping", what, n.what())
		}
		return rule, false
	}
	for _, p := range n.pairs {
		if p.key.text == "name" && p.value.isScalar() && p.value.text != "" {
			what = "rule " + p.value.text
		}
	}
	seen := d.mapping(n, what+": ", []field{
		{"name", func(v *node) { rule.Name, _ = d.scalar(v, what+": name") }},
		{"match", func(v *node) { rule.Match = d.match(v, what+": match", "leave the rest to default_class") }},
		{"class", func(v *node) {
			rule.Class, _ = d.scalar(v, what+": class")
		}},
	})
	for _, p := range n.pairs {
		if p.value.kind == nullNode {
			delete(seen, p.key.text)
		}
	}
	for _, must := range []string{"name", "match", "class"} {
		if !seen[must] {
			remedy := "write it like {name: x, match: {role: y}, class: z}"
			if must == "match" {
				remedy = "what matches everything else is default_class"
			}
			d.add(n, remedy, "%s has no %s", what, must)
		}
	}
	return rule, true
}

// match reads the conditions of a rule or of a share. instead says what to do in place of an empty one.
func (d *decoder) match(n *node, what, instead string) Match {
	var m Match
	if n.kind == mappingNode && len(n.pairs) == 0 {
		d.add(n, instead, "%s is empty and would match everything", what)
	}
	d.mapping(n, what+".", []field{
		{"role", func(v *node) { m.Role = d.words(v, what+".role", stringsOnly) }},
		{"cabinet", func(v *node) { m.Cabinet = d.words(v, what+".cabinet", wholeNumbers) }},
		{"datacenter", func(v *node) { m.Datacenter = d.words(v, what+".datacenter", wholeNumbers) }},
		{"server", func(v *node) { m.Server = d.globs(v, what+".server") }},
		{"address", func(v *node) { m.Address = d.prefixes(v, what+".address") }},
	})
	for _, p := range n.pairs {
		if p.value.kind == nullNode {
			d.add(p.key, "leave the key out to match any", "%s.%s is empty", what, p.key.text)
		}
	}
	return m
}

// stringsOnly and wholeNumbers tell whether a value may be a name. 12 is a cabinet, as in the inventory; 12.0 and true are not.
func stringsOnly(n *node) bool { return n.kind == stringNode }
func wholeNumbers(n *node) bool {
	return n.kind == stringNode || n.kind == numberNode && strings.Trim(n.text, "0123456789") == ""
}

// words reads a list of names. It is never nil where the key was given.
func (d *decoder) words(n *node, what string, allowed func(*node) bool) []string {
	words := []string{}
	d.each(n, what, allowed, func(_ *node, word string) { words = append(words, word) })
	return words
}

// each calls read with every name of a list.
func (d *decoder) each(n *node, what string, allowed func(*node) bool, read func(item *node, word string)) {
	items := d.list(n)
	if len(items) == 0 && n.kind == sequenceNode {
		d.add(n, "leave the key out to match any", "%s is an empty list", what)
	}
	for _, item := range items {
		text := strings.TrimSpace(item.text)
		switch {
		case item.kind == badNode:
		case !item.isScalar():
			d.add(item, "write a name, or a list of names", "%s is %s, not a name", what, item.what())
		case !allowed(item):
			d.add(item, fmt.Sprintf("if that is the name, quote it: %q", item.text), "%s is %s, not a name", what, item.what())
		case text == "":
			d.add(item, "write a name, or leave the key out to match any", "%s has an empty name", what)
		default:
			read(item, text)
		}
	}
}

func (d *decoder) globs(n *node, what string) []string {
	globs := []string{}
	d.each(n, what, wholeNumbers, func(item *node, word string) {
		glob := inventory.CanonicalName(word)
		if _, err := path.Match(glob, ""); err != nil {
			d.add(item, "close the bracket, or write a backslash before it", "%s: %q is no pattern: a bracket is not closed or a backslash ends it", what, word)
		}
		globs = append(globs, glob)
	})
	return globs
}

func (d *decoder) prefixes(n *node, what string) []netip.Prefix {
	prefixes := []netip.Prefix{}
	d.each(n, what, (*node).isScalar, func(item *node, word string) {
		p, err := ParsePrefix(word)
		if err != nil {
			d.wrong(item, what, err)
			return
		}
		prefixes = append(prefixes, p)
	})
	return prefixes
}

// ParsePrefix reads a prefix without host bits, or an address, which is a prefix of full length. A v4-mapped one is IPv4.
func ParsePrefix(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		a, e := netip.ParseAddr(s)
		if e != nil || a.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%q is neither an address nor a prefix; write it like 10.1.2.0/24 or 2001:db8::/32", s)
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, fmt.Errorf("%q holds more than the v4-mapped addresses; write the IPv4 prefix", s)
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	if p.Masked() != p {
		return netip.Prefix{}, fmt.Errorf("%q has bits set behind its length; write %s, or %s for the host", s, p.Masked(), p.Addr())
	}
	return p, nil
}
