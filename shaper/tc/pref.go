package tc

import (
	"fmt"
	"strconv"
)

// Pref is a place for filters: one number, one protocol, one kind. It is only ever deleted, with all that stands there, and has a type
// of its own so that no deletion of a filter can become that of a pref: to the kernel the two differ in a handle of 0.
type Pref struct {
	Parent   Handle
	Number   uint16
	Protocol Protocol
	Kind     string
}

// Type is the kind of object: "filter".
func (Pref) Type() string { return "filter" }

// Ident is the type and what tells this object from others of its type.
func (p Pref) Ident() string { return fmt.Sprintf("filter %s pref %d", p.Protocol, p.Number) }

func (p Pref) tcArgs(verb Verb, dev string) []string {
	return []string{"filter", string(verb), "dev", dev, "parent", p.Parent.String(), "protocol", p.Protocol.String(),
		"pref", strconv.FormatUint(uint64(p.Number), 10)}
}
