package config

import (
	"net/netip"
	"time"

	"bulkshaper/inventory"
	"bulkshaper/shaper/tc"
)

// Config is the whole configuration, checked, with every default filled in.
type Config struct {
	// File is where it was read; "" without a file.
	File string

	Interface string
	// Node is this node's name; "" leaves it to the inventory.
	Node string
	// NodeByFlag says that it was given by --node, over what the file says.
	NodeByFlag bool
	// LinkRate is 0 where the interface's own speed is to be used.
	LinkRate tc.BitRate

	Source    inventory.Source
	MaxShrink float64 // share of the servers that a reload may lose, 0 to 1
	Debounce  time.Duration
	Rescan    time.Duration

	Classes      []Class // sorted by id
	DefaultClass string
	// AckClass is the class of pure TCP acknowledgements, "" where they go with their destinations.
	AckClass string
	Rules    []Rule

	Listen    string // metrics.listen
	WebConfig string // metrics.web_config

	// AllowWritableByOthers says that the inventory and the web config may be writable by others than root and the program's user;
	// Source says it, too. For the config itself the flag counts, not this.
	AllowWritableByOthers bool

	Layout   string // "hash" or "list"
	Takeover bool
	RunDir   string
	Resync   time.Duration
	Log      Log

	// Warnings are what is right and probably not meant.
	Warnings inventory.Problems
}

// Log is how to log.
type Log struct{ Level, Format string }

// Class is a class as it was written; its rate may depend on the link and on the inventory.
type Class struct {
	Name string
	ID   uint16
	Rate Rate
	// Ceil has the zero Rate where it was not written: then it is the rate.
	Ceil Rate
	// Parent is a class by name, "" for the root.
	Parent string
	Prio   uint32
	// Burst, Cburst and Quantum are 0 where they are to be computed.
	Burst, Cburst tc.Bytes
	Quantum       uint32
	Leaf          Leaf
	// Place is where it was written, for messages: file, line, column.
	Place inventory.Problem
}

// Leaf is the qdisc below a leaf class.
type Leaf struct {
	Kind  string // "auto" or a kind of qdisc
	Limit uint32 // packets, bytes for bfifo; 0 where it is to be computed
}

// Rate is one of: a fixed rate, a percentage of the link, a share of something that many nodes use. The zero Rate is none.
type Rate struct {
	Fixed   tc.BitRate
	Percent float64 // of link_rate, over 0 to 100
	Share   *Share
}

// IsZero tells whether no rate was given.
func (r Rate) IsZero() bool { return r.Fixed == 0 && r.Percent == 0 && r.Share == nil }

// Share is Of x Use divided by the number of servers that match Among, this node included, between Min and Max.
type Share struct {
	Of    tc.BitRate
	Use   float64 // 0 to 1
	Among Match
	// Min and Max are 0 where there is none.
	Min, Max tc.BitRate
}

// Rule gives the class of what it matches.
type Rule struct {
	Name  string
	Match Match
	Class string
	Place inventory.Problem
}

// Match is a conjunction of keys; each list is any-of, a nil one matches everything.
type Match struct {
	Role       []string
	Cabinet    []string // "same", "other" or a name
	Datacenter []string // "same", "other" or a name
	Server     []string // globs of names
	Address    []netip.Prefix
}
