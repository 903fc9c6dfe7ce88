package inventory

import (
	"fmt"
	"slices"
	"strings"
)

// directory knows the names of everything that roles.json may speak of.
type directory struct {
	roles map[string]bool
	// live servers have the numbers of their records; gone are the retired ones; loose are those declared without a file, or
	// with a file that is broken.
	live, gone, loose nameIndex
}

// server finds a server by a canonical name: the number of a live one, or nobody or several. known says that there is
// something of this name, live or not.
func (d *directory) server(name string) (live int32, known bool) {
	if i := d.live.find(name); i != nobody {
		return i, true
	}
	return nobody, d.gone.find(name) != nobody || d.loose.find(name) != nobody
}

// names tells which readings a word of the mapping has.
func (d *directory) names(text string) (role, server bool) {
	_, server = d.server(CanonicalName(text))
	return d.roles[text], server
}

// maxGuesses bounds how many pairs of names are compared to guess what was meant.
const maxGuesses = 10_000

// assignRoles reads the mapping: the roles of each live server, by number.
func (d *directory) assignRoles(r *rolesFile) (roles map[int32][]string, problems, warnings Problems) {
	byRole, problem := d.direction(r)
	if problem != nil {
		return nil, Problems{*problem}, nil
	}
	declared := make([]string, 0, len(d.roles))
	for role := range d.roles {
		declared = append(declared, role)
	}
	slices.Sort(declared)
	roles = make(map[int32][]string)
	isRole := func(w word) bool {
		if d.roles[w.text] {
			return true
		}
		if _, server := d.names(w.text); server {
			problems = append(problems, r.problem(w, fmt.Sprintf("mapping has server %q in the place of a role", w.text),
				"the mapping runs one way, role to servers or server to roles: turn this entry round, or declare the role"))
			return false
		}
		remedy := `declare it in "roles", or delete it`
		if len(declared)*len(problems) < maxGuesses { // else each of many is compared with each of many
			if near := nearest(w.text, declared); near != "" {
				remedy = fmt.Sprintf(`write %q, or declare it in "roles"`, near)
			}
		}
		problems = append(problems, r.problem(w, fmt.Sprintf("mapping has role %q, which is not declared", w.text), remedy))
		return false
	}
	give := func(server, role word) {
		i, known := d.server(CanonicalName(server.text))
		switch {
		case i >= 0:
			roles[i] = append(roles[i], role.text)
		case i == several:
			problems = append(problems, r.problem(server, fmt.Sprintf("server %q could be more than one", server.text), "write the FQDN"))
		case !known && d.roles[server.text]:
			problems = append(problems, r.problem(server, fmt.Sprintf("mapping has role %q in the place of a server", server.text),
				"the mapping runs one way, role to servers or server to roles: turn this entry round"))
		case !known:
			warnings = append(warnings, r.problem(server, fmt.Sprintf("role %q maps server %q, which is not known", role.text, server.text),
				"give the server a file, or delete it here"))
		}
	}
	for _, e := range r.mapping {
		if byRole {
			if isRole(e.key) {
				for _, server := range e.values {
					give(server, e.key)
				}
			}
			continue
		}
		for _, role := range e.values {
			if isRole(role) {
				give(e.key, role)
			}
		}
	}
	for i, list := range roles {
		roles[i] = sortedSet(list, strings.Compare)
	}
	return roles, problems, warnings
}

// direction tells whether the mapping runs from roles to servers. Only names that are one and not the other speak for a
// direction; where all names are both, either reading would do, and that is a problem.
func (d *directory) direction(r *rolesFile) (byRole bool, problem *Problem) {
	var forward, backward []word // names that speak for role to servers, and for the reverse
	var unknown, both []word
	values := 0
	count := func(w word, asRole, asServer *[]word) {
		switch role, server := d.names(w.text); {
		case role && server:
			both = append(both, w)
		case role:
			*asRole = append(*asRole, w)
		case server:
			*asServer = append(*asServer, w)
		default:
			unknown = append(unknown, w)
		}
	}
	for _, e := range r.mapping {
		count(e.key, &forward, &backward)
		values += len(e.values)
		for _, v := range e.values {
			count(v, &backward, &forward)
		}
	}
	fail := func(w word, message, remedy string) (bool, *Problem) {
		p := r.problem(w, message, remedy)
		return false, &p
	}
	switch {
	case len(forward) > len(backward):
		return true, nil
	case len(forward) < len(backward):
		return false, nil
	case len(forward) > 0:
		return fail(backward[0], fmt.Sprintf("mapping runs both ways: %q says role to servers, %q the reverse", forward[0].text, backward[0].text),
			"write it one way, and declare every role and server")
	case len(unknown) > 0 && values > 0:
		return fail(unknown[0], fmt.Sprintf("mapping has %q, which is neither a declared role nor a known server, and no other name tells which way the mapping runs", unknown[0].text),
			`declare the roles in "roles" and the servers in "servers"`)
	case len(both) > 0 && values > 0:
		return fail(both[0], fmt.Sprintf("mapping can be read both ways: %q and all other names in it are roles and servers", both[0].text),
			"give a role or a server another name, or write the servers' FQDN")
	}
	return true, nil
}
