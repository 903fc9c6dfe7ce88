package explain

import (
	"fmt"
	"net/netip"
	"strings"

	"bulkshaper/cmd/bulkshaper/view"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
)

// destinations are all that the policy says something of.
func (x *Explainer) destinations() []policy.Destination {
	if x.members == nil {
		x.members = x.policy.Destinations()
	}
	return x.members
}

// sharedBy is who is in a class.
func (x *Explainer) sharedBy(class string) *view.Shared {
	if s, ok := x.shared[class]; ok {
		return s
	}
	s := &view.Shared{Roles: map[string]int{}, Cabinets: map[string]int{}, Rest: class == x.input.Config.DefaultClass}
	seen := map[string]bool{}
	for _, d := range x.destinations() {
		if d.Class != class {
			continue
		}
		s.Destinations++
		if d.Server == "" || seen[d.Server] {
			continue
		}
		seen[d.Server] = true
		s.Servers++
		server, ok := x.input.Inventory.Server(d.Server)
		if !ok {
			continue
		}
		for _, role := range server.Roles {
			s.Roles[role]++
		}
		if server.Cabinet != "" {
			s.Cabinets[server.Cabinet]++
		}
	}
	x.shared[class] = s
	return s
}

// Class finds a class by its name or its classid.
func (x *Explainer) Class(given string) (string, error) {
	if _, ok := x.classes[given]; ok {
		return given, nil
	}
	if id, err := tc.ParseHandle(given); err == nil {
		if name, ok := x.names[id]; ok && name != tc.ControlName {
			return name, nil
		}
	}
	if given == tc.ControlName {
		return "", fmt.Errorf("explain --class %s: it is for ARP and IPv6 neighbour discovery, whomever they are to; no destination is in it", given)
	}
	var names []string
	for name := range x.classes {
		names = append(names, name)
	}
	remedy := "; `bulkshaper status` lists the classes"
	if near := config.Nearest(given, names); near != "" {
		remedy = "; did you mean " + near + "?"
	}
	return "", fmt.Errorf("explain --class %q: the config has no such class%s", given, remedy)
}

// MembersOf is who is in a class.
func (x *Explainer) MembersOf(class string) view.Members {
	facts := x.classes[class]
	m := view.Members{Class: class, ClassID: facts.id.String(), Rate: uint64(facts.rate), Ceil: uint64(facts.ceil), RateText: facts.text, Override: facts.override, Standing: uint64(x.rates[facts.id]), Shared: *x.sharedBy(class),
		Rules: map[string]int{}, Destinations: []view.Member{}}
	var asked []policy.Destination
	for _, d := range x.destinations() {
		if d.Class != class {
			continue
		}
		asked = append(asked, d)
		member := view.Member{Prefix: d.Prefix.String(), Server: d.Server, Rule: d.Rule, Roles: []string{}}
		if s, ok := x.input.Inventory.Server(d.Server); ok && d.Server != "" {
			member.Cabinet, member.Roles = s.Cabinet, append(member.Roles, s.Roles...)
		}
		rule := d.Rule
		if rule == "" {
			rule = "no rule"
		}
		m.Rules[rule]++
		m.Destinations = append(m.Destinations, member)
	}
	m.Checked = x.hold(asked)
	return m
}

// hold holds the first address of each destination against the kernel's filters.
func (x *Explainer) hold(list []policy.Destination) view.Checked {
	c := view.Checked{Note: x.unasked, Disagree: []view.Disagree{}}
	if x.unasked != "" {
		return c
	}
	for _, d := range list {
		a := d.Prefix.Addr()
		v := x.policy.Lookup(a) // a longer prefix may begin at the same address
		if v.Own {
			continue
		}
		c.Asked++
		if k := x.askKernel(a, x.classes[v.Class].id); !k.Agrees {
			wrong := view.Disagree{Address: a.String(), Server: d.Server, Wanted: x.className(x.classes[v.Class].id), Kernel: strings.TrimSpace(k.Class + " " + k.ClassID)}
			if wrong.Kernel == "" {
				wrong.Kernel, wrong.Nowhere = k.Note, true
			}
			c.Disagree = append(c.Disagree, wrong)
		}
	}
	return c
}

// Between is where the class changes in a prefix.
func (x *Explainer) Between(prefix netip.Prefix) view.Between {
	b := view.Between{Prefix: prefix.Masked().String(), Ranges: []view.Range{}}
	for _, r := range x.policy.Ranges(prefix) {
		one := view.Range{First: r.First.String(), Last: r.Last.String(), Class: r.Class, Own: r.Own, Servers: []string{}}
		if !r.Own {
			one.ClassID = x.classes[r.Class].id.String()
		}
		for _, s := range r.Owners {
			one.Servers = append(one.Servers, s.Name)
		}
		b.Ranges = append(b.Ranges, one)
	}
	var inside []policy.Destination
	for _, d := range x.destinations() {
		if d.Prefix.Overlaps(prefix) && d.Prefix.Bits() >= prefix.Bits() {
			inside = append(inside, d)
		}
	}
	b.Checked = x.hold(inside)
	return b
}
