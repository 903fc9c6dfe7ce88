// Package policy decides what an address gets: who this node is, who owns an address, which rule matches, what the classes'
// rates are. It is pure; it imports inventory, config and tc.
package policy
