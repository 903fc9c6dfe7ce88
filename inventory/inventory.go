package inventory

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Server is one live entry of the inventory.
type Server struct {
	// Name is the canonical name: lower case, no final dot.
	Name string
	// Names are all names the server goes by, Name included, sorted.
	Names []string
	// Addresses are the server's own, sorted; never v4-mapped.
	Addresses []netip.Addr
	// Prefixes are what it answers for besides (pod CIDRs), masked, sorted.
	Prefixes []netip.Prefix
	// Cabinet is "" where it is unknown. Cabinets of one name in two datacenters are two cabinets.
	Cabinet    string
	Datacenter string
	// Roles are sorted.
	Roles []string
	// File is where it was read.
	File string
}

// HasRole tells whether s has the role.
func (s *Server) HasRole(role string) bool {
	for _, r := range s.Roles {
		if r == role {
			return true
		}
	}
	return false
}

// SameCabinet tells whether both are known to stand in one cabinet: two unknown cabinets are never the same.
func (s *Server) SameCabinet(t *Server) bool {
	return s.Cabinet != "" && s.Cabinet == t.Cabinet && s.Datacenter == t.Datacenter
}

// Inventory is everything that was read, whole and without errors. It is never changed after it was made.
type Inventory struct {
	// Servers are the live ones, sorted by name.
	Servers []*Server
	// Roles are those declared, sorted.
	Roles []string
	// Warnings do not keep the inventory from being used.
	Warnings []Problem

	names nameIndex
}

// Server finds a server by any of its names; a short name stands for the FQDN, and the other
// way round, only where that is unique.
func (inv *Inventory) Server(name string) (*Server, bool) {
	if i := inv.names.find(CanonicalName(name)); i >= 0 {
		return inv.Servers[i], true
	}
	return nil, false
}

// Problem is something wrong at one place of one file.
type Problem struct {
	File string
	// Line and Column count from 1; 0 where there is no such place.
	Line, Column int
	// Message says what is wrong, Remedy what to do about it.
	Message string
	Remedy  string
}

// String is file:line:column: message; remedy.
func (p Problem) String() string {
	var b strings.Builder
	if place := p.where(); place != "" {
		b.WriteString(place + ": ")
	}
	b.WriteString(p.Message)
	if p.Remedy != "" {
		b.WriteString("; " + p.Remedy)
	}
	return b.String()
}

// where is file:line:column, as far as it is known.
func (p Problem) where() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Problems is every problem of one reading, sorted by file, line and column. It is the error of whatever found them.
type Problems []Problem

// Unreadable tells whether all problems are that something cannot be read: nothing is known to be wrong with what the files say.
func (ps Problems) Unreadable() bool {
	return len(ps) > 0 && !slices.ContainsFunc(ps, func(p Problem) bool { return p.Remedy != UnreadableRemedy })
}

// Error is all problems, a line each.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}
