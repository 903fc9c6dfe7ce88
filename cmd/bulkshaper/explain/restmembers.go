package explain

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"bulkshaper/cmd/bulkshaper/view"
	"bulkshaper/shaper"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
)

// mostNamed bounds how many destinations the daemon is asked about: each is a search that it makes beside its work, of some milliseconds
// where there are 100,000 of them.
const mostNamed = 200

// MembersOf is what the kernel's filters lead to a class, given by its name or classid, and whose that is by what the daemon holds. Where the
// kernel is not to be asked it is what the daemon tells.
func (r *Rest) MembersOf(ctx context.Context, class string) (view.Members, error) {
	id, err := tc.ParseHandle(class)
	for known, name := range r.names {
		if name == class {
			id, err = known, nil
		}
	}
	if err != nil {
		return view.Members{}, fmt.Errorf("explain --class %q: while %s no such class is known; give its classid, like 1:20", class, r.o.Files)
	}
	m := view.Members{Class: "class", ClassID: id.String(), Standing: uint64(r.rates[id]), Rules: map[string]int{}, Destinations: []view.Member{},
		Checked: view.Checked{Note: r.unasked, Disagree: []view.Disagree{}}, Unplanned: "this is what its filters lead here: " + r.o.Files}
	if name := r.names[id]; name != "" {
		m.Class = name
	}
	if root, ok := r.state.RootQdisc(); ok && id == tc.MakeHandle(root.Handle.Major(), uint16(root.HTB.Default)) {
		m.Shared.Rest = true
	}
	for _, prefix := range r.ledTo(id) {
		m.Destinations = append(m.Destinations, view.Member{Prefix: prefix.String(), Roles: []string{}})
	}
	m.Shared.Destinations = len(m.Destinations)
	if r.o.Find == nil {
		return m, nil
	}
	m.Unplanned = "this is what its filters lead here, and whose it is by what the daemon holds: " + r.o.Files
	for _, c := range r.o.Status.Classes {
		if c.ClassID == m.ClassID {
			m.Rate, m.Ceil = c.Rate, c.Ceil
			if r.unasked != "" {
				m.Shared.Destinations = c.Destinations
			}
		}
	}
	if r.unasked != "" {
		m.Unplanned = "this is what the daemon holds: " + r.o.Files
		found, err := r.o.Find(ctx, m.Class)
		if err != nil {
			return m, fmt.Errorf("explain --class %q: %w", class, err)
		}
		for _, d := range found.Matches {
			if d.ClassID == m.ClassID {
				m.Destinations = append(m.Destinations, view.Member{Prefix: d.Prefix, Server: d.Server, Rule: d.Rule, Roles: []string{}})
			}
		}
	}
	return m, r.name(ctx, &m)
}

// ledTo are the destinations that our filters lead to a class.
func (r *Rest) ledTo(id tc.Handle) []netip.Prefix {
	var list []netip.Prefix
	seen := map[netip.Prefix]bool{}
	for _, f := range r.state.Filters {
		_, own := plan.OwnPref(f.Pref)
		prefix, ok := f.Destination()
		if !own || !ok || !f.IsNode() || f.Link != 0 || f.ClassID != id || seen[prefix] {
			continue
		}
		seen[prefix] = true
		list = append(list, prefix)
	}
	slices.SortFunc(list, netip.Prefix.Compare)
	return list
}

// name fills in whose the destinations are, of the first of them. Where the daemon wants another class than the kernel takes, that is told.
func (r *Rest) name(ctx context.Context, m *view.Members) error {
	named := m.Destinations[:min(len(m.Destinations), mostNamed)]
	servers, cabinets, roles := map[string]bool{}, map[string]int{}, map[string]int{}
	for i := range named {
		d := &named[i]
		answer, ok, err := r.answer(ctx, d.Prefix)
		if err != nil {
			return fmt.Errorf("explain --class %q: %w", m.Class, err)
		}
		if !ok {
			continue
		}
		d.Server, d.Cabinet, d.Roles, d.Rule = answer.Server, answer.Cabinet, append(d.Roles, answer.Roles...), answer.Rule
		if answer.ClassID != m.ClassID && r.unasked == "" {
			m.Checked.Disagree = append(m.Checked.Disagree, view.Disagree{Address: answer.Address, Server: answer.Server, Wanted: strings.TrimSpace(answer.Class + " " + answer.ClassID),
				Kernel: strings.TrimSpace(m.Class + " " + m.ClassID)})
		}
		rule := d.Rule
		if rule == "" {
			rule = "no rule"
		}
		m.Rules[rule]++
		if d.Server == "" || servers[d.Server] {
			continue
		}
		servers[d.Server] = true
		if d.Cabinet != "" {
			cabinets[d.Cabinet]++
		}
		for _, role := range d.Roles {
			roles[role]++
		}
	}
	if r.unasked == "" {
		m.Checked.Asked = len(named)
	}
	if len(named) < m.Shared.Destinations {
		m.Rules = map[string]int{} // of some only: as numbers of the class they would be wrong
		m.Unplanned += fmt.Sprintf("; it was asked about the first %d of %d destinations", len(named), m.Shared.Destinations)
		return nil
	}
	m.Shared.Servers, m.Shared.Cabinets, m.Shared.Roles = len(servers), cabinets, roles
	return nil
}

// answer is what the daemon holds for a destination, false where that is nothing.
func (r *Rest) answer(ctx context.Context, destination string) (shaper.Answer, bool, error) {
	p, err := netip.ParsePrefix(destination)
	if err == nil && p.IsSingleIP() {
		destination = p.Addr().String()
	}
	found, err := r.o.Find(ctx, destination)
	if err != nil || len(found.Answers) == 0 {
		return shaper.Answer{}, false, err
	}
	answer := found.Answers[0]
	if !p.IsValid() || p.IsSingleIP() {
		return answer, true, nil
	}
	// The answer is of the first address, which may be in a longer prefix, of somebody else.
	for _, d := range found.Matches {
		if d.Prefix == destination {
			held := shaper.Answer{Address: answer.Address, Server: d.Server, Rule: d.Rule, Class: d.Class, ClassID: d.ClassID}
			if answer.Server == d.Server {
				held.Cabinet, held.Roles = answer.Cabinet, answer.Roles
			}
			return held, true, nil
		}
	}
	return shaper.Answer{}, false, nil
}
