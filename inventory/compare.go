package inventory

import (
	"fmt"
	"slices"
)

// Equal tells whether two inventories say the same of every server, declare the same roles and have the same warnings: a
// reading that is equal to the one before changed nothing.
func (inv *Inventory) Equal(other *Inventory) bool {
	if inv == other || inv == nil || other == nil {
		return inv == other
	}
	return slices.EqualFunc(inv.Servers, other.Servers, (*Server).equal) && slices.Equal(inv.Roles, other.Roles) &&
		slices.Equal(inv.Warnings, other.Warnings)
}

func (s *Server) equal(t *Server) bool {
	return s == t || s.Name == t.Name && s.Cabinet == t.Cabinet && s.Datacenter == t.Datacenter && s.File == t.File &&
		slices.Equal(s.Names, t.Names) && slices.Equal(s.Addresses, t.Addresses) && slices.Equal(s.Prefixes, t.Prefixes) &&
		slices.Equal(s.Roles, t.Roles)
}

// ShrinkError says that a new inventory lost too many of the servers of the one before.
type ShrinkError struct {
	// Gone of Before servers are no longer there; Max is the part that may be, from 0 to 1.
	Gone, Before int
	Max          float64
}

// Error says how many are gone, what that looks like, and how to allow it.
func (e *ShrinkError) Error() string {
	message, remedy := e.Parts()
	return message + ": a copy at work or a wrong glob looks like that; " + remedy
}

// Parts are what is wrong, and what to do about it.
func (e *ShrinkError) Parts() (message, remedy string) {
	percent := func(part float64) string { return fmt.Sprintf("%.4g%%", 100*part) }
	return fmt.Sprintf("inventory lost %d of %d servers (%s), more than inventory.max_shrink allows (%s)", e.Gone, e.Before, percent(float64(e.Gone)/float64(e.Before)), percent(e.Max)),
		"if they are really gone, set inventory.max_shrink to 100% for one reload"
}

// CheckShrink compares a new inventory with the one in use (nil where there is none). The error is a *ShrinkError where more
// than the part max of the old one's servers, from 0 to 1, are not in the new one by any of their names.
func CheckShrink(old, new *Inventory, max float64) error {
	if old == nil || len(old.Servers) == 0 {
		return nil
	}
	gone := 0
	rest := new.Servers
	for _, s := range old.Servers {
		// Both are sorted by name, so most are found where they are expected.
		for len(rest) > 0 && rest[0].Name < s.Name {
			rest = rest[1:]
		}
		if len(rest) > 0 && rest[0].Name == s.Name {
			continue
		}
		if !slices.ContainsFunc(s.Names, func(name string) bool { return new.names.find(name) >= 0 }) {
			gone++
		}
	}
	const rounding = 1e-9 // 29 of 100 are not more than 29 %
	if float64(gone) > (max+rounding)*float64(len(old.Servers)) {
		return &ShrinkError{Gone: gone, Before: len(old.Servers), Max: max}
	}
	return nil
}

// EqualButRoles tells whether two entries differ in their roles alone, if at all: those come from another file.
func (s *Server) EqualButRoles(t *Server) bool {
	other := *t
	other.Roles = s.Roles
	return s.equal(&other)
}

// Differences tells of each server that two inventories say different things of, in order of their names: was is nil for one that
// is new, is for one that is gone.
func Differences(old, next *Inventory, differs func(was, is *Server)) {
	a, b := old.Servers, next.Servers
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].Name < b[0].Name:
			differs(a[0], nil)
			a = a[1:]
		case len(a) == 0 || b[0].Name < a[0].Name:
			differs(nil, b[0])
			b = b[1:]
		default:
			if !a[0].equal(b[0]) {
				differs(a[0], b[0])
			}
			a, b = a[1:], b[1:]
		}
	}
}
