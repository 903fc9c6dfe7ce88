package policy

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"

	"bulkshaper/inventory"
	"bulkshaper/shaper/config"
)

// Policy knows for every address who owns it, and which rule and class it gets from this node. It is never changed after New,
// so any number of goroutines may ask it.
type Policy struct {
	node         *inventory.Server
	defaultClass string
	rules        []rule
	// withAddress are the indexes of the rules that ask for the address, ascending.
	withAddress []int
	owners      bart.Table[*owner]
	warnings    []inventory.Problem
}

type rule struct {
	*matcher
	name, class string
}

// owner is a server with what the rules say of it.
type owner struct {
	server *inventory.Server
	// first is the index of the first rule that matches whatever the address is, len(rules) for none.
	first int
}

// New compiles the rules for this node. Its error is inventory.Problems: prefixes with two owners, and rules which can match
// nothing because the inventory declares none of their roles.
func New(cfg *config.Config, inv *inventory.Inventory, node *inventory.Server) (*Policy, error) {
	p := &Policy{node: node, defaultClass: cfg.DefaultClass}
	for i, r := range cfg.Rules {
		p.rules = append(p.rules, rule{newMatcher(r.Match, inv, node), r.Name, r.Class})
		if r.Match.Address != nil {
			p.withAddress = append(p.withAddress, i)
		}
	}
	var problems inventory.Problems
	p.warnings, problems = checkRules(cfg, inv, node)
	for _, s := range inv.Servers {
		o := &owner{server: s, first: p.firstRule(s)}
		for _, a := range s.Addresses {
			problems = p.own(problems, netip.PrefixFrom(a, a.BitLen()), o)
		}
		for _, prefix := range s.Prefixes {
			problems = p.own(problems, prefix, o)
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return p, nil
}

// own notes that prefix is o's. Two servers with one prefix are refused, since which of them counts would be chance.
func (p *Policy) own(problems inventory.Problems, prefix netip.Prefix, o *owner) inventory.Problems {
	if other, taken := p.owners.Get(prefix); taken && other != o {
		return append(problems, inventory.Problem{File: o.server.File, Remedy: "take it from one of them",
			Message: fmt.Sprintf("%s is a prefix of %s and of %s", prefix, other.server.Name, o.server.Name)})
	}
	p.owners.Insert(prefix, o)
	return problems
}

// firstRule is the first rule that matches s at any address.
func (p *Policy) firstRule(s *inventory.Server) int {
	for i, r := range p.rules {
		if r.addresses == nil && r.refused(s) == "" {
			return i
		}
	}
	return len(p.rules)
}

// Warnings are what is odd about rules, but does not keep them from being used.
func (p *Policy) Warnings() []inventory.Problem { return slices.Clone(p.warnings) }

// ruleOf is the index of the rule that all of region gets, len(rules) for none. No prefix that a rule or an owner asks for may
// begin inside region.
func (p *Policy) ruleOf(o *owner, region netip.Prefix) int {
	first, server := len(p.rules), (*inventory.Server)(nil)
	if o != nil {
		first, server = o.first, o.server
	}
	for _, i := range p.withAddress {
		if i >= first {
			break
		}
		if r := p.rules[i]; r.covers(region) && r.refused(server) == "" {
			return i
		}
	}
	return first
}

// named gives the name and the class of a rule by its index.
func (p *Policy) named(index int) (name, class string) {
	if index == len(p.rules) {
		return "", p.defaultClass
	}
	return p.rules[index].name, p.rules[index].class
}

// ownerOf is the server with the longest prefix that covers region.
func (p *Policy) ownerOf(region netip.Prefix) (netip.Prefix, *owner) {
	prefix, o, ok := p.owners.LookupPrefixLPM(region)
	if !ok {
		return netip.Prefix{}, nil
	}
	return prefix, o
}

// Lookup tells what an address gets. A v4-mapped one is IPv4; a zone does not count.
func (p *Policy) Lookup(a netip.Addr) Verdict {
	v, _ := p.lookup(a)
	return v
}

func (p *Policy) lookup(a netip.Addr) (v Verdict, index int) {
	v.Address = a.Unmap().WithZone("")
	if !v.Address.IsValid() {
		return v, 0
	}
	region := netip.PrefixFrom(v.Address, v.Address.BitLen())
	prefix, o := p.ownerOf(region)
	if o != nil {
		v.Prefix, v.Owner = prefix, o.server
		if o.server == p.node {
			v.Own = true
			return v, 0
		}
	}
	index = p.ruleOf(o, region)
	v.Rule, v.Class = p.named(index)
	return v, index
}

// Explain tells what an address gets, with the rules that were tried before and did not match.
func (p *Policy) Explain(a netip.Addr) Explanation {
	v, index := p.lookup(a)
	e := Explanation{Verdict: v}
	for _, r := range p.rules[:index] {
		e.Tried = append(e.Tried, Tried{Rule: r.name, Reason: r.reason(v.Owner, v.Address)})
	}
	return e
}

// Destinations are all prefixes for which the policy says something: those of the owners and those of rules with an address,
// sorted by family, address and length. The class of an address by the longest of them is that of Lookup; what none covers
// gets the default class. This node's own addresses and prefixes are left out, and so is what a rule names inside them.
func (p *Policy) Destinations() []Destination {
	list := make([]Destination, 0, p.owners.Size())
	add := func(prefix netip.Prefix, o *owner) {
		if o != nil && o.server == p.node {
			return
		}
		d := Destination{Prefix: prefix}
		if o != nil {
			d.Server = o.server.Name
		}
		d.Rule, d.Class = p.named(p.ruleOf(o, prefix))
		list = append(list, d)
	}
	for prefix, o := range p.owners.All() {
		add(prefix, o)
	}
	seen := map[netip.Prefix]bool{}
	for _, i := range p.withAddress {
		for _, prefix := range p.rules[i].Address {
			if _, owned := p.owners.Get(prefix); owned || seen[prefix] {
				continue
			}
			seen[prefix] = true
			_, o := p.ownerOf(prefix)
			add(prefix, o)
		}
	}
	slices.SortFunc(list, func(a, b Destination) int { return a.Prefix.Compare(b.Prefix) })
	return list
}
