// Package policy decides what an address gets: who this node is, who owns an address, which rule matches, what the classes'
// rates are.
//
// Two answers must be one: Lookup, which a person asks about an address, and Destinations, from which the filters are made. They
// are because every prefix that an owner or a rule asks for is a destination of its own: inside one, up to the next longer, the
// owner and the rules that cover it do not change.
//
// It is pure. It imports inventory, config and tc.
package policy
