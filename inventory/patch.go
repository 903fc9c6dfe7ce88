package inventory

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// maxPatched is how many changed files are worth looking at one by one.
const maxPatched = 64

// patch is what assemble makes of records, where it made last of before, both sorted by file, and the roles file is the same: it looks
// at those records only that differ. ok is false where that does not do: a server that comes, goes or goes by other names may change
// what every name means, and whatever is wrong or odd is for assemble to tell.
func patch(last *Inventory, before, records []*record) (inv *Inventory, ok bool) {
	if len(before) != len(records) {
		return nil, false
	}
	var changed []int
	for i, r := range records {
		if r == before[i] {
			continue
		}
		if changed = append(changed, i); len(changed) > maxPatched || !sameIdentity(before[i], r) {
			return nil, false
		}
	}
	moved := false
	for _, i := range changed {
		a, b := before[i].server, records[i].server
		file := func(w Problem) bool { return w.File == b.File }
		if slices.ContainsFunc(last.Warnings, file) || takesFromOthers(a, records[i], records) {
			return nil, false
		}
		moved = moved || a.Cabinet != b.Cabinet || a.Datacenter != b.Datacenter
	}
	if moved && !slices.Equal(similarCabinets(before), similarCabinets(records)) {
		return nil, false
	}
	patched := *last
	patched.Servers = slices.Clone(last.Servers)
	for _, i := range changed {
		r := records[i]
		at, found := slices.BinarySearchFunc(last.Servers, r.server, byName)
		if !found {
			return nil, false
		}
		s := *r.server
		s.Roles = last.Servers[at].Roles
		r.server = &s
		patched.Servers[at] = &s
	}
	return &patched, true
}

func byName(a, b *Server) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.File, b.File))
}

// sameIdentity tells whether both are live, nothing is odd about either, and they go by the same names.
func sameIdentity(a, b *record) bool {
	plain := func(r *record) bool {
		return !r.broken && !r.retired && len(r.problems) == 0 && len(r.warnings) == 0
	}
	return plain(a) && plain(b) && a.status == b.status && a.server.File == b.server.File && a.server.Name == b.server.Name && slices.Equal(a.server.Names, b.server.Names)
}

// takesFromOthers tells whether r has an address or prefix that a, which it was before, had not, and another of records has.
func takesFromOthers(a *Server, r *record, records []*record) bool {
	added := func(s *Server) (list []netip.Prefix) {
		for _, address := range s.Addresses {
			list = append(list, netip.PrefixFrom(address, address.BitLen()))
		}
		return append(list, s.Prefixes...)
	}
	had := added(a)
	fresh := slices.DeleteFunc(added(r.server), func(p netip.Prefix) bool { return slices.Contains(had, p) })
	if len(fresh) == 0 {
		return false
	}
	for _, other := range records {
		if other == r || other.retired {
			continue
		}
		for _, address := range other.server.Addresses {
			if slices.Contains(fresh, netip.PrefixFrom(address, address.BitLen())) {
				return true
			}
		}
		for _, p := range other.server.Prefixes {
			if slices.Contains(fresh, p) {
				return true
			}
		}
	}
	return false
}
