package policy

import (
	"net/netip"

	"bulkshaper/inventory"
	"bulkshaper/shaper/tc"
)

// Destination is a prefix and what packets to it get. Of two that cover an address the longer counts.
type Destination struct {
	Prefix netip.Prefix
	// Server is the owner's name, "" for a prefix that only a rule names.
	Server string
	// Rule is the name of the rule that matched, "" where none did and the default class was taken.
	Rule  string
	Class string
}

// Verdict is what an address gets, and why.
type Verdict struct {
	Address netip.Addr
	// Owner has the longest prefix that covers the address; nil where no server does.
	Owner *inventory.Server
	Rule  string
	Class string
	// Own says that the address is this node's: it gets no filter.
	Own bool
}

// Class is a class of the config with its rates resolved for this link and inventory.
type Class struct {
	Name       string
	ID         uint16
	Parent     string
	Prio       uint32
	Rate, Ceil tc.BitRate // whole bytes per second
}
