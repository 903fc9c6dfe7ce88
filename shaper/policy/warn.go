package policy

import (
	"fmt"
	"slices"
	"strings"

	"bulkshaper/inventory"
	"bulkshaper/shaper/config"
)

// checkRules finds rules that ask for what the inventory does not have.
func checkRules(cfg *config.Config, inv *inventory.Inventory, node *inventory.Server) (warnings []inventory.Problem, problems inventory.Problems) {
	seen := newValues(inv)
	for _, r := range cfg.Rules {
		what := "rule " + r.Name
		place := r.Place
		if place.File == "" {
			place.File = cfg.File
		}
		found, fatal := seen.check(r.Match, inv, place, what)
		// Packaged rules name roles that a cluster may well not have.
		if fatal && r.Place.Line > 0 {
			problems = append(problems, found...)
			continue
		}
		warnings = append(warnings, found...)
		if node.Cabinet == "" && slices.Contains(r.Match.Cabinet, config.Same) {
			place.Message = fmt.Sprintf("%s: the cabinet of this node, %s, is unknown, so no server is in the same", what, node.Name)
			place.Remedy = "add it to " + fileOf(node)
			warnings = append(warnings, place)
		}
	}
	return warnings, problems
}

// fileOf names the file of a server for a remedy.
func fileOf(s *inventory.Server) string {
	if s.File == "" {
		return "the inventory"
	}
	return s.File
}

// values are the names that occur in an inventory.
type values struct{ roles, cabinets, datacenters []string }

func newValues(inv *inventory.Inventory) values {
	cabinets, datacenters := map[string]bool{}, map[string]bool{}
	for _, s := range inv.Servers {
		cabinets[s.Cabinet], datacenters[s.Datacenter] = true, true
	}
	list := func(set map[string]bool) []string {
		var l []string
		for v := range set {
			if v != "" {
				l = append(l, v)
			}
		}
		slices.Sort(l)
		return l
	}
	return values{inv.Roles, list(cabinets), list(datacenters)}
}

// check finds names in m that the inventory does not have. It is fatal where m asks for roles and none of them is declared.
func (v values) check(m config.Match, inv *inventory.Inventory, place inventory.Problem, what string) (found []inventory.Problem, fatal bool) {
	add := func(remedy, format string, args ...any) {
		place.Message, place.Remedy = what+": "+fmt.Sprintf(format, args...), remedy
		found = append(found, place)
	}
	unknown := 0
	for _, role := range m.Role {
		if !slices.Contains(v.roles, role) {
			unknown++
			add(nearest(role, v.roles), "the inventory declares no role %q", role)
		}
	}
	for _, cabinet := range m.Cabinet {
		if cabinet != config.Same && cabinet != config.Other && !slices.Contains(v.cabinets, cabinet) {
			add(nearest(cabinet, v.cabinets), "no server is in a cabinet %q", cabinet)
		}
	}
	for _, datacenter := range m.Datacenter {
		if datacenter != config.Same && datacenter != config.Other && !slices.Contains(v.datacenters, datacenter) {
			add(nearest(datacenter, v.datacenters), "no server is in a datacenter %q", datacenter)
		}
	}
	for _, pattern := range m.Server {
		alone := newMatcher(config.Match{Server: []string{pattern}}, inv, nil)
		if slices.ContainsFunc(inv.Servers, alone.isNamed) {
			continue
		}
		if isGlob(pattern) {
			add("", "no server matches %q", pattern)
			continue
		}
		add(nearestServers(inv, pattern, "correct it, or add the server"), "the inventory has no server %q", pattern)
	}
	return found, len(m.Role) > 0 && unknown == len(m.Role)
}

// nearest is a remedy that names the value that was probably meant, or what there is.
func nearest(word string, candidates []string) string {
	if near := config.Nearest(word, candidates); near != "" {
		return "did you mean " + near + "?"
	}
	switch {
	case len(candidates) == 0:
		return "it has none at all"
	case len(candidates) > 20:
		return ""
	}
	return "it has " + strings.Join(candidates, ", ")
}
