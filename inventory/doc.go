// Package inventory reads the files that operations keep (roles.json and one JSON file a server) into an Inventory, whole or
// not at all, and tells every problem with its place and a remedy.
//
// Parsing is pure; Loader does the reading and remembers what it read. The package imports nothing else of ours.
package inventory
