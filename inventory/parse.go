package inventory

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// maxProblems is how many problems a reading tells in all.
const maxProblems = 1000

// File is a file that was read.
type File struct {
	// Path is how problems name it, and must be unique among the files of a reading.
	Path string
	Data []byte
	// Datacenter is that of a server file whose JSON names none; see DatacenterOf.
	Datacenter string
}

// Parse makes an inventory of the text of roles.json and of the server files, in any order: the outcome does not depend on it.
// The error is Problems, all of them, and then there is no inventory.
func Parse(roles File, servers []File, fields Fields) (*Inventory, error) {
	reader := newServerReader(fields.compile())
	records := make([]*record, len(servers))
	for i, f := range servers {
		records[i] = reader.read(f)
	}
	declared, problems := parseRoles(roles)
	inv, problems, _ := assemble(declared, records, problems, nil)
	if len(problems) > 0 {
		return nil, problems
	}
	return inv, nil
}

// assemble makes an inventory of what the files say one by one. declared is nil where roles.json is broken: its problems are
// among those given, and the servers' are looked for all the same. Where there are problems there is no inventory, and its warnings are given
// nevertheless.
func assemble(declared *rolesFile, records []*record, problems, warnings Problems) (inv *Inventory, all, warned Problems) {
	records = slices.Clone(records)
	slices.SortFunc(records, func(a, b *record) int { return strings.Compare(a.server.File, b.server.File) })
	problems, warnings = slices.Clone(problems), slices.Clone(warnings)
	var live []*record
	d := directory{gone: newNameIndex(0), loose: newNameIndex(0)}
	for _, r := range records {
		problems = append(problems, r.problems...)
		warnings = append(warnings, r.warnings...)
		switch {
		case r.broken:
			d.loose.add(r.server.Names...)
		case r.retired:
			d.gone.add(r.server.Names...)
		default:
			live = append(live, r)
		}
	}
	shared := make(chan Problems, 1)
	go func(live []*record) { shared <- sharedAddresses(live) }(live)
	warnings = append(warnings, similarCabinets(live)...)
	warnings = append(warnings, oddStatuses(live)...)
	byFile := live
	// In the order that the inventory will have, so that their names need one index only.
	live = slices.Clone(live)
	slices.SortStableFunc(live, func(a, b *record) int { return byName(a.server, b.server) })
	d.live = newNameIndex(len(live))
	unique := true
	for _, r := range live {
		unique = d.live.add(r.server.Names...) && unique
	}
	if !unique {
		problems = append(problems, sharedNames(byFile)...)
	}
	var roles map[int32][]string
	if declared != nil {
		var found Problems
		found, warnings = d.declare(declared, live, warnings)
		problems = append(problems, found...)
		var more Problems
		roles, found, more = d.assignRoles(declared)
		problems, warnings = append(problems, found...), append(warnings, more...)
	}
	problems = append(problems, <-shared...)
	if len(live) == 0 && len(problems) == 0 {
		problems = append(problems, Problem{Message: fmt.Sprintf("no live server in %d server files", len(records)),
			Remedy: "an inventory without any server is taken for a mistake: look at inventory.servers and at the servers' status"})
	}
	warnings = sortProblems(warnings)
	if len(problems) > 0 {
		return nil, limit(sortProblems(problems)), warnings
	}
	inv = buildFrom(live, roles, declared, d.live)
	inv.Warnings = warnings
	return inv, nil, warnings
}

// declare takes in the roles and servers that roles.json declares, and compares the servers with the files.
func (d *directory) declare(r *rolesFile, live []*record, warnings Problems) (problems, allWarnings Problems) {
	d.roles = make(map[string]bool, len(r.roles))
	for _, role := range r.roles {
		d.roles[role.text] = true
	}
	listed := make([]bool, len(live))
	for _, w := range r.servers {
		switch i, known := d.server(w.text); {
		case i >= 0:
			listed[i] = true
		case i == several:
			problems = append(problems, r.problem(w, fmt.Sprintf("server %q could be more than one", w.text), "write the FQDN"))
		case !known:
			warnings = append(warnings, r.problem(w, fmt.Sprintf("server %q has no file", w.text), `give it one, or delete it from "servers"`))
			d.loose.add(w.text)
		}
	}
	for i, l := range live {
		if !listed[i] {
			warnings = append(warnings, Problem{File: l.server.File, Line: int(l.namePlace.line), Column: int(l.namePlace.column),
				Message: fmt.Sprintf("server %q is not among the servers of %s", l.server.Name, r.file), Remedy: "add it there; it is used all the same"})
		}
	}
	return problems, warnings
}

// sharedNames finds live servers that go by one name.
func sharedNames(live []*record) (problems Problems) {
	owner := make(map[string]int, 2*len(live))
	for i, r := range live {
		told := -1
		for _, name := range r.server.Names {
			first, taken := owner[name]
			if !taken {
				owner[name] = i
			} else if first != told {
				told = first
				problems = append(problems, Problem{File: r.server.File, Line: int(r.namePlace.line), Column: int(r.namePlace.column),
					Message: fmt.Sprintf("server name %q is also that of %s", name, live[first].server.File),
					Remedy:  "rename one of the two, delete its file, or set its status to decommissioned"})
			}
		}
	}
	return problems
}

// sharedAddresses finds addresses and prefixes that two live servers have. An address counts as the prefix of one host.
func sharedAddresses(live []*record) (problems Problems) {
	type claim struct {
		record *record
		at     place
	}
	owner := make(map[netip.Prefix]claim, len(live))
	note := func(r *record, p netip.Prefix, at place, shown string) {
		first, taken := owner[p]
		if !taken {
			owner[p] = claim{r, at}
			return
		}
		if first.record == r {
			return
		}
		problems = append(problems, Problem{File: r.server.File, Line: int(at.line), Column: int(at.column),
			Message: fmt.Sprintf("%s is also that of server %q in %s", shown, first.record.server.Name,
				Problem{File: first.record.server.File, Line: int(first.at.line)}.where()),
			Remedy: "correct one of the two, delete its file, or set its status to decommissioned"})
	}
	for _, r := range live {
		for i, a := range r.server.Addresses {
			note(r, netip.PrefixFrom(a, a.BitLen()), r.addressPlaces[i], "address "+a.String())
		}
		for i, p := range r.server.Prefixes {
			note(r, p, r.prefixPlaces[i], "prefix "+p.String())
		}
	}
	return problems
}

// similarCabinets warns of cabinets of one datacenter that differ only in leading zeros or in case: "012" and "12".
func similarCabinets(live []*record) (warnings Problems) {
	type cabinet struct{ datacenter, name string }
	seen := make(map[cabinet]string) // the first spelling of each
	told := make(map[cabinet]bool)
	known := make(map[cabinet]bool) // as they are spelled
	for _, r := range live {
		s := r.server
		if s.Cabinet == "" || known[cabinet{s.Datacenter, s.Cabinet}] {
			continue
		}
		known[cabinet{s.Datacenter, s.Cabinet}] = true
		normal := strings.ToLower(s.Cabinet)
		if strings.Trim(normal, "0123456789") == "" {
			normal = strings.TrimLeft(normal, "0")
		}
		first, ok := seen[cabinet{s.Datacenter, normal}]
		switch {
		case !ok:
			seen[cabinet{s.Datacenter, normal}] = s.Cabinet
		case first != s.Cabinet && !told[cabinet{s.Datacenter, s.Cabinet}]:
			told[cabinet{s.Datacenter, s.Cabinet}] = true
			warnings = append(warnings, Problem{File: s.File, Message: fmt.Sprintf("cabinet %q is another one than %q", s.Cabinet, first),
				Remedy: "write it the same way in every file if it is the same"})
		}
	}
	return warnings
}

// buildFrom makes the inventory of the live servers, sorted by name, with their roles and the index of their names. Servers whose roles
// are as before are not copied again.
func buildFrom(live []*record, roles map[int32][]string, declared *rolesFile, index nameIndex) *Inventory {
	shared := make(map[string][]string) // one slice for each set of roles
	servers := make([]*Server, len(live))
	for i, r := range live {
		list := roles[int32(i)]
		if !slices.Equal(r.server.Roles, list) {
			id := strings.Join(list, "\x00")
			if shared[id] == nil {
				shared[id] = list
			}
			s := *r.server
			s.Roles = shared[id]
			r.server = &s
		}
		servers[i] = r.server
	}
	names := make([]string, len(declared.roles))
	for i, role := range declared.roles {
		names[i] = role.text
	}
	return &Inventory{Servers: servers, Roles: sortedSet(names, strings.Compare), names: index}
}

// sortProblems sorts ps in place by file, line and column, and drops what is there twice.
func sortProblems(ps Problems) Problems {
	slices.SortFunc(ps, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			strings.Compare(a.Message, b.Message), strings.Compare(a.Remedy, b.Remedy))
	})
	return slices.Compact(ps)
}

// limit keeps a list of problems readable.
func limit(ps Problems) Problems {
	if len(ps) <= maxProblems {
		return ps
	}
	return append(slices.Clip(ps[:maxProblems]), Problem{Message: fmt.Sprintf("and %d more problems", len(ps)-maxProblems)})
}
