package policy

import (
	"fmt"
	"slices"
	"strings"

	"bulkshaper/inventory"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/tc"
)

// Resolve computes the rates of all classes for this node. Percentages are of cfg.LinkRate, or else of linkSpeed, 0 where that is
// unknown. Shares are counted in the inventory. Rates are cut to whole bytes per second and never rounded up.
//
// Warnings tell where a minimum lets the nodes together take more than their share. The error is inventory.Problems: what
// depends on an unknown speed or cabinet is one, never a guess.
func Resolve(cfg *config.Config, inv *inventory.Inventory, node *inventory.Server, linkSpeed tc.BitRate) (classes []Class, warnings []inventory.Problem, err error) {
	r := resolver{cfg: cfg, inv: inv, node: node, link: cfg.LinkRate, values: newValues(inv), shares: map[*config.Share]tc.BitRate{}}
	if r.link == 0 {
		r.link = linkSpeed
	}
	for _, c := range cfg.Classes {
		class := Class{Name: c.Name, ID: c.ID, Parent: c.Parent, Inner: cfg.IsInner(c.Name), Prio: c.Prio,
			Burst: c.Burst, Cburst: c.Cburst, Quantum: c.Quantum, Leaf: c.Leaf}
		class.Rate = r.rate(c, c.Rate, "rate")
		class.Ceil = class.Rate
		if !c.Ceil.IsZero() {
			class.Ceil = r.rate(c, c.Ceil, "ceil")
		}
		classes = append(classes, class)
	}
	if r.needLink != nil {
		r.problems = append(r.problems, problem(cfg, "set link_rate or --link-rate, for example 10gbit",
			"%s does not tell its speed, and rates are in percent of it: %s", cfg.Interface, strings.Join(r.needLink, ", "))...)
	}
	r.problems = append(r.problems, cfg.CheckRates(r.value)...)
	if len(r.problems) > 0 {
		return nil, r.warnings, r.problems
	}
	return classes, r.warnings, nil
}

type resolver struct {
	cfg  *config.Config
	inv  *inventory.Inventory
	node *inventory.Server
	link tc.BitRate
	values
	// shares are those computed; one that could not be is 0.
	shares   map[*config.Share]tc.BitRate
	needLink []string
	warnings []inventory.Problem
	problems inventory.Problems
}

// rate computes the rate or the ceil of a class, 0 with a problem.
func (r *resolver) rate(c config.Class, rate config.Rate, key string) tc.BitRate {
	what := fmt.Sprintf("class %s: %s", c.Name, key)
	if rate.Percent != 0 && r.link == 0 {
		r.needLink = append(r.needLink, fmt.Sprintf("%s %s of class %s", key, rate, c.Name))
		return 0
	}
	if rate.Share != nil {
		if _, done := r.shares[rate.Share]; !done {
			r.shares[rate.Share] = r.share(c, rate.Share, what)
		}
	}
	v, ok := r.value(rate)
	if ok && v == 0 {
		r.problem(c, "raise it, or link_rate", "%s %s comes to less than 8bit", what, rate)
	}
	return v
}

// value is a rate as far as it is known.
func (r *resolver) value(rate config.Rate) (tc.BitRate, bool) {
	if rate.Share != nil {
		v := r.shares[rate.Share]
		return v, v != 0
	}
	return rate.Of(r.link)
}

func (r *resolver) problem(c config.Class, remedy, format string, args ...any) {
	p := c.Place
	if p.File == "" {
		p.File = r.cfg.File
	}
	p.Message, p.Remedy = fmt.Sprintf(format, args...), remedy
	r.problems = append(r.problems, p)
}

func (r *resolver) warn(c config.Class, remedy, format string, args ...any) {
	p := c.Place
	p.Message, p.Remedy = fmt.Sprintf(format, args...), remedy
	r.warnings = append(r.warnings, p)
}

// share is this node's part of what the servers in question have together, 0 with a problem.
func (r *resolver) share(c config.Class, s *config.Share, what string) tc.BitRate {
	seen := func(values []string) bool {
		return slices.Contains(values, config.Same) || slices.Contains(values, config.Other)
	}
	for _, key := range []struct {
		name, own string
		values    []string
	}{{"cabinet", r.node.Cabinet, s.Among.Cabinet}, {"datacenter", r.node.Datacenter, s.Among.Datacenter}} {
		if key.own == "" && seen(key.values) {
			r.problem(c, "add it to "+fileOf(r.node), "%s: the share counts by %s, and that of this node, %s, is unknown", what, key.name, r.node.Name)
			return 0
		}
	}
	found, fatal := r.check(s.Among, r.inv, c.Place, what+": among")
	if fatal {
		r.problems = append(r.problems, found...)
		return 0
	}
	r.warnings = append(r.warnings, found...)

	count, matcher := 0, newMatcher(s.Among, r.inv, r.node)
	for _, server := range r.inv.Servers {
		if server != r.node && matcher.refused(server) == "" {
			count++
		}
	}
	count++ // this node, which sends in any case
	if matcher.refused(r.node) != "" {
		r.warn(c, "", "%s: this node, %s, does not match among %s, so the others do not count it", what, r.node.Name, s.Among)
	}
	each := s.Each(count)
	if s.Max != 0 {
		each = min(each, s.Max.WholeBytes())
	}
	if least := s.Min.WholeBytes(); each < least {
		each = least
	}
	if together := each * tc.BitRate(count); together > s.Each(1) {
		r.warn(c, "lower min, or give more", "%s: min %s for each of %d servers is %s together, over the %s that they share",
			what, s.Min, count, together, s.Each(1))
	}
	if each == 0 {
		r.problem(c, "give more, or set min", "%s: the share of each of %d servers comes to less than 8bit", what, count)
	}
	return each
}
