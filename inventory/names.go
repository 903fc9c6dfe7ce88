package inventory

import "strings"

// CanonicalName is name trimmed, in lower case, without a final dot.
func CanonicalName(name string) string {
	return strings.TrimSuffix(strings.ToLower(strings.TrimSpace(name)), ".")
}

// shortName is what stands before the first dot of a canonical name.
func shortName(name string) string {
	short, _, _ := strings.Cut(name, ".")
	return short
}

// nobody and several are what a name index finds where it finds not exactly one.
const (
	nobody  = -1
	several = -2
)

// nameIndex finds owners, by number, by one of their names. Shops write the FQDN here and the short name there, so one stands
// for the other, but only where that leaves no doubt who is meant.
type nameIndex struct {
	exact map[string]int32
	// short has the owner for each first label, or several.
	short map[string]int32
	// full says of each owner whether any of its names is an FQDN.
	full []bool
}

func newNameIndex(size int) nameIndex {
	return nameIndex{exact: make(map[string]int32, 2*size), short: make(map[string]int32, size), full: make([]bool, 0, size)}
}

// add gives names, which are canonical, to the next owner: the first is 0. It tells whether nobody had any of them.
func (ix *nameIndex) add(names ...string) (unique bool) {
	unique = true
	owner := int32(len(ix.full))
	ix.full = append(ix.full, false)
	for _, name := range names {
		switch first, taken := ix.exact[name]; {
		case !taken:
			ix.exact[name] = owner
		case first != owner:
			unique = false
		}
		short := shortName(name)
		if other, taken := ix.short[short]; taken && other != owner {
			ix.short[short] = several
		} else {
			ix.short[short] = owner
		}
		if short != name {
			ix.full[owner] = true
		}
	}
	return unique
}

// find resolves a canonical name: as it is written, else a short name as that of the only owner with this first label, else an
// FQDN as that of the only owner with this first label, if that owner has no FQDN. The answer may be nobody or several.
func (ix *nameIndex) find(name string) int32 {
	if owner, ok := ix.exact[name]; ok {
		return owner
	}
	short := shortName(name)
	owner, ok := ix.short[short]
	switch {
	case !ok:
		return nobody
	case short == name:
		return owner
	case owner == several, ix.full[owner]:
		return nobody
	}
	return owner
}
