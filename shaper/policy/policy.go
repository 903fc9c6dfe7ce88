package policy

import (
	"net/netip"

	"bulkshaper/inventory"
	"bulkshaper/shaper/config"
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
	// Prefix is the owner's prefix that covers the address; the zero Prefix without an owner.
	Prefix netip.Prefix
	// Rule is "" where none matched and the default class was taken.
	Rule  string
	Class string
	// Own says that the address is this node's: it gets no filter, and so no rule and no class.
	Own bool
}

// Explanation is a Verdict with the rules that were tried in vain before.
type Explanation struct {
	Verdict
	Tried []Tried
}

// Tried is a rule that did not match, and a few words on why.
type Tried struct{ Rule, Reason string }

// Class is a class of the config with its rates resolved for this link and inventory.
type Class struct {
	Name   string
	ID     uint16
	Parent string
	// Inner says that it is the parent of others: it has no leaf and is sent nothing by filters.
	Inner      bool
	Prio       uint32
	Rate, Ceil tc.BitRate // whole bytes per second
	// ConfiguredRate and ConfiguredCeil are what the config gives, where an override has put others over them for a while; else 0.
	ConfiguredRate, ConfiguredCeil tc.BitRate
	// Burst, Cburst, Quantum and Leaf are as the config has them: 0 where they are to be computed.
	Burst, Cburst tc.Bytes
	Quantum       uint32
	Leaf          config.Leaf
}
