package inventory

import (
	"net/netip"
	"slices"
	"strings"
)

// New makes an inventory of servers and the roles declared. It takes over the servers and puts them in the form that the
// fields of Server promise: names canonical, lists sorted and without duplicates, addresses unmapped, prefixes masked.
// Whether the whole makes sense (one address in two servers) is for Parse to find out.
func New(servers []*Server, roles []string) *Inventory {
	for _, s := range servers {
		s.normalise()
	}
	return build(slices.Clone(servers), slices.Clone(roles))
}

// normalise puts s in the form that its fields promise.
func (s *Server) normalise() {
	s.Name = CanonicalName(s.Name)
	for i, name := range s.Names {
		s.Names[i] = CanonicalName(name)
	}
	s.Names = sortedSet(append(s.Names, s.Name), strings.Compare)
	for i, a := range s.Addresses {
		s.Addresses[i] = a.Unmap()
	}
	s.Addresses = sortedSet(s.Addresses, netip.Addr.Compare)
	for i, p := range s.Prefixes {
		s.Prefixes[i] = p.Masked()
	}
	s.Prefixes = sortedSet(s.Prefixes, netip.Prefix.Compare)
	s.Roles = sortedSet(s.Roles, strings.Compare)
}

// sortedSet sorts list in place and drops what is there twice.
func sortedSet[T comparable](list []T, compare func(a, b T) int) []T {
	slices.SortFunc(list, compare)
	return slices.Compact(list)
}

// build sorts servers and roles and makes the index; it changes no server, since older inventories may hold them too.
func build(servers []*Server, roles []string) *Inventory {
	slices.SortStableFunc(servers, byName)
	inv := &Inventory{Servers: servers, Roles: sortedSet(roles, strings.Compare), names: newNameIndex(len(servers))}
	for _, s := range servers {
		inv.names.add(s.Names...)
	}
	return inv
}
