package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"bulkshaper/shaper/tc"
)

// LeafAuto is the kind of leaf that is fq_codel where the kernel has it and else pfifo.
const LeafAuto = "auto"

// classes reads the classes, which take the place of the packaged ones.
func (d *decoder) classes(n *node, c *Config) {
	c.Classes = nil
	if n.kind != mappingNode || len(n.pairs) == 0 {
		d.unsure = true
	}
	if n.kind == mappingNode && len(n.pairs) == 0 {
		d.add(n, "leave the key out for the packaged ones", "classes is empty")
	}
	d.entries(n, "classes", func(key, value *node) {
		c.Classes = append(c.Classes, d.class(key, value))
	})
}

func (d *decoder) class(key, n *node) Class {
	class := Class{Name: key.text, Leaf: Leaf{Kind: LeafAuto}, Place: d.place(key)}
	what := "class " + class.Name
	switch {
	case class.Name == "" || len(class.Name) > 64 || strings.ContainsFunc(class.Name, notInName):
		d.add(key, "use up to 64 letters, digits and - _ .", "%q is no name for a class", class.Name)
	case strings.EqualFold(class.Name, tc.ControlName):
		d.add(key, "choose another", "the name %s is kept for the class of ARP and neighbour discovery", tc.ControlName)
	}
	if n.kind == nullNode {
		d.add(key, "write it like {id: 10, rate: 200mbit}", "%s has neither id nor rate", what)
		return class
	}
	number := func(name string, into *uint32, least, most uint32) field {
		return field{name, func(v *node) { d.number(v, what+": "+name, into, least, most) }}
	}
	size := func(name string, into *tc.Bytes) field {
		return field{name, func(v *node) { d.size(v, what+": "+name, into) }}
	}
	rate := func(name string, into *Rate) field {
		return field{name, func(v *node) { d.rate(v, what+": "+name, into) }}
	}
	seen := d.mapping(n, "classes."+class.Name+".", []field{
		{"id", func(v *node) { d.classID(v, what, &class.ID) }},
		rate("rate", &class.Rate),
		rate("ceil", &class.Ceil),
		{"parent", func(v *node) { class.Parent, _ = d.scalar(v, what+": parent") }},
		number("prio", &class.Prio, 0, maxPrio),
		size("burst", &class.Burst),
		size("cburst", &class.Cburst),
		number("quantum", &class.Quantum, 1000, 200_000),
		{"leaf", func(v *node) { d.leaf(v, what, &class.Leaf) }},
		{"per_cabinet", func(v *node) {
			d.add(v, "leave the key out", "%s: per_cabinet is not available yet", what)
		}},
	})
	if n.kind == mappingNode {
		for _, must := range []string{"id", "rate"} {
			if !seen[must] {
				d.add(key, "write it like {id: 10, rate: 200mbit}", "%s has no %s", what, must)
			}
		}
		for _, p := range n.pairs {
			if must := p.key.text; p.value.kind == nullNode && (must == "id" || must == "rate") {
				d.add(p.key, "write it like {id: 10, rate: 200mbit}", "%s: %s is empty", what, must)
			}
		}
	}
	return class
}

// maxPrio is TC_HTB_NUMPRIO - 1 (linux/pkt_sched.h): the kernel takes what is above as 7 without a word.
const maxPrio = 7

func notInName(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
}

// classID reads an id as hexadecimal digits, however YAML would take them: 10, 010 and 1e2 are 0x10, 0x10 and 0x1e2.
func (d *decoder) classID(n *node, what string, into *uint16) {
	text, ok := d.scalar(n, what+": id")
	if !ok {
		return
	}
	digits := strings.TrimPrefix(strings.ToLower(text), "0x")
	v, err := strconv.ParseUint(digits, 16, 64)
	switch {
	case strings.Contains(text, ":"):
		d.add(n, "write only the part behind the colon", "%s: id %q is no hexadecimal number", what, text)
	case err != nil && strings.Trim(digits, "0123456789abcdef") != "" || digits == "":
		d.add(n, "write hexadecimal digits as tc does, from 1 to fffe", "%s: id %q is no hexadecimal number", what, text)
	case err != nil || v == 0 || v > 0xfffe:
		d.add(n, "choose another", "%s: id %q is not between 1 and fffe", what, text)
	case tc.ReservedMinor(uint16(v)):
		d.add(n, "choose another", "%s: id %x is reserved", what, v)
	default:
		*into = uint16(v)
	}
}

func (d *decoder) number(n *node, what string, into *uint32, least, most uint32) {
	text, ok := d.scalar(n, what)
	if !ok {
		return
	}
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil && strings.Trim(text, "0123456789") != "" {
		d.add(n, "write digits alone", "%s %q is no whole number", what, text)
		return
	}
	if err != nil || v < uint64(least) || v > uint64(most) {
		d.add(n, "choose another, or leave it out", "%s %s is not between %d and %d", what, text, least, most)
		return
	}
	*into = uint32(v)
}

func (d *decoder) size(n *node, what string, into *tc.Bytes) {
	text, ok := d.scalar(n, what)
	if !ok {
		return
	}
	v, err := tc.ParseBytes(text)
	if err != nil {
		d.wrong(n, what, err)
		return
	}
	if v == 0 {
		d.add(n, "leave it out to have it computed", "%s is 0, with which nothing is sent", what)
		return
	}
	*into = v
}

// leafKinds are the qdiscs that may stand below a leaf class, with the unit of their limit, "" where they have none.
func leafKinds() (names []string, units map[string]string) {
	return []string{LeafAuto, tc.KindPFIFO, tc.KindBFIFO, tc.KindFQCodel, "fq", "sfq", "cake"}, map[string]string{
		LeafAuto: "packets", tc.KindPFIFO: "packets", tc.KindFQCodel: "packets", "fq": "packets", "sfq": "packets", tc.KindBFIFO: "bytes"}
}

func (d *decoder) leaf(n *node, what string, into *Leaf) {
	what += ": leaf"
	if n.isScalar() {
		d.add(n, fmt.Sprintf("write {kind: %s}", n.text), "%s is %s, not a mapping", what, n.what())
		return
	}
	var limit *node
	d.mapping(n, what+".", []field{
		{"kind", func(v *node) {
			kind, ok := d.scalar(v, what+".kind")
			names, _ := leafKinds()
			if err := oneOf(names...)(kind); ok && err != nil {
				message, remedy, _ := strings.Cut(err.Error(), "; ")
				d.add(v, remedy, "%s.kind %s", what, message)
				return
			}
			into.Kind = kind
		}},
		{"limit", func(v *node) { limit = v }},
	})
	if limit == nil {
		return
	}
	_, units := leafKinds()
	switch units[into.Kind] {
	case "":
		d.add(limit, "leave it out", "%s: %s takes no limit", what, into.Kind)
	case "bytes":
		var bytes tc.Bytes
		d.size(limit, what+".limit", &bytes)
		into.Limit = uint32(bytes)
	default:
		d.number(limit, what+".limit (packets)", &into.Limit, 1, math.MaxInt32)
	}
}
