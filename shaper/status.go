package shaper

import (
	"sync"
	"time"

	"bulkshaper/inventory"
	"bulkshaper/shaper/tc"
)

// Snapshot is what the loop knows, for readers in other goroutines. It is never changed after it was published.
type Snapshot struct {
	Interface  string
	Node       string
	Cabinet    string
	Datacenter string
	// Started is when the loop began.
	Started time.Time
	// InSync says that the kernel was last seen to be as planned; Reason says why not.
	InSync bool
	Reason string
	// InterfaceUp says that the interface exists and is up.
	InterfaceUp bool
	// InterfaceMissing says that there is no such interface.
	InterfaceMissing bool
	// InterfaceGone says that there is no such interface, or a new one that is not shaped yet.
	InterfaceGone bool
	// Contended says that somebody keeps changing what was repaired, so that repairs are spaced out; Contention what, and who.
	Contended  bool
	Contention *Contention
	// Unconfirmed says that an apply waits for its confirmation, until when and what to do; "" where none does.
	Unconfirmed string
	// LastConfirm is what became of the last apply with a confirmation, where it was put back or nobody can do that; "" else.
	LastConfirm string
	// LastReload is the last reading of the files, of whatever result but unchanged; LastSuccess the last good one.
	LastReload  Reload
	LastSuccess time.Time
	Servers     int
	// InventoryHash is that of the inventory that is followed. It is reckoned when it is first asked for, and no edit waits for it.
	InventoryHash func() uint64
	// Warnings are those of the inventory and of the rates.
	Warnings []string
	// Foreign is what stands beside our shaping and is not ours.
	Foreign []string
	Classes []ClassInfo
	// DefaultClass is the class of all that no rule matches.
	DefaultClass string
	// RuleMatches is what the filters of each rule matched since the process began, as of the last reading of the filters, which
	// is Resync old at most; nil where the kernel does not count (CONFIG_CLS_U32_PERF).
	RuleMatches []RuleMatch
	// Top is what the filters of destinations matched most between the last two readings of them.
	Top []Matched
	// Layout is how the filters stand, Filters what that costs a packet.
	Layout  string
	Filters []FilterCost
	// LinkRate is what percentages are of, 0 where that is unknown.
	LinkRate tc.BitRate
	// Overrides are those in force. OverridesError is why those of the run folder cannot be read, or are not followed.
	Overrides      []OverrideStatus
	OverridesError string
	// HistoryError is why the history cannot be written into the run folder, "" while it can.
	HistoryError string
	// HTTPError is why nobody can ask at metrics.listen, "" while it is served or not wanted.
	HTTPError string

	followed *inventory.Inventory // that InventoryHash is of
}

// contended takes in what is to be said of a contention, nil for none.
func (s *Snapshot) contended(c *Contention) { s.Contended, s.Contention = c != nil, c }

// SnapshotOf is what can be known from the input alone, and with desired not nil from the plan.
func SnapshotOf(in Input, desired *Desired) Snapshot {
	s := Snapshot{Interface: in.Config.Interface}
	s.describe(in, desired)
	return s
}

// describe fills in what comes from the input and the plan.
func (s *Snapshot) describe(in Input, desired *Desired) {
	s.Servers, s.Warnings = len(in.Inventory.Servers), nil
	if s.followed != in.Inventory {
		s.followed, s.InventoryHash = in.Inventory, sync.OnceValue(in.Inventory.Hash)
	}
	// The config's come first: there are few, and the status on a terminal shows the first.
	if desired != nil {
		s.Warnings = append(s.Warnings, desired.Warnings...)
	}
	for _, w := range in.Inventory.Warnings {
		s.Warnings = append(s.Warnings, w.String())
	}
	if desired == nil {
		s.Node = inventory.CanonicalName(in.Config.Node)
		if server, ok := in.Inventory.Server(s.Node); ok && s.Node != "" {
			s.Node, s.Cabinet, s.Datacenter = server.Name, server.Cabinet, server.Datacenter
		}
		return
	}
	s.Node, s.Cabinet, s.Datacenter = desired.Node.Name, desired.Node.Cabinet, desired.Node.Datacenter
	s.Layout, s.Classes, s.DefaultClass = desired.Plan.Layout, nil, in.Config.DefaultClass
	s.LinkRate, s.Overrides = desired.LinkRate, OverridesOf(desired.Overrides)
	for _, c := range desired.Plan.Classes {
		s.Classes = append(s.Classes, ClassInfo{Name: c.Name, Class: c.Class, Leaf: c.Leaf != nil, Destinations: c.Destinations})
	}
}

// Reload is one reading of the files.
type Reload struct {
	Time   time.Time    `json:"time"`
	Result ReloadResult `json:"result"`
	// Start says that it is the one that the daemon began with.
	Start bool `json:"start,omitempty"`
	// Problems are the errors, a line each; empty for a success.
	Problems []string `json:"problems,omitempty"`
	// Operations is how many it took to follow it.
	Operations int `json:"operations"`
	// Changed says in words what they did; of many, how many of which kind.
	Changed []string `json:"changed,omitempty"`
}

// ClassInfo is a class of the plan, for people and metrics.
type ClassInfo struct {
	Name         string
	Class        tc.Class
	Leaf         bool
	Destinations int
}

// Status is the answer of `status --format json` and of /api/v1/status.
type Status struct {
	Interface  string `json:"interface"`
	Node       string `json:"node"`
	Cabinet    string `json:"cabinet"`
	Datacenter string `json:"datacenter"`
	// Time is when the counters were read.
	Time time.Time `json:"time"`
	// Version is the daemon's, which after an upgrade is not the command's until the daemon was restarted.
	Version string `json:"version,omitempty"`
	// Daemon says that a daemon answered; without one the command has read files and kernel itself.
	Daemon      bool   `json:"daemon"`
	InSync      bool   `json:"in_sync"`
	Reason      string `json:"reason,omitempty"`
	InterfaceUp bool   `json:"interface_up"`
	// InterfaceMissing says of one that is not up that there is none of that name.
	InterfaceMissing bool `json:"interface_missing,omitempty"`
	Contended        bool `json:"contended"`
	// Contention is what is fought over, and with whom.
	Contention *Contention `json:"contention,omitempty"`
	// Unconfirmed says that an apply waits for its confirmation, until when and what to do.
	Unconfirmed string `json:"unconfirmed,omitempty"`
	// LastConfirm is what became of the last apply with a confirmation, where it was put back or nobody can do that.
	LastConfirm string     `json:"last_confirm,omitempty"`
	LastReload  *Reload    `json:"last_reload"`
	LastSuccess *time.Time `json:"last_reload_success,omitempty"`
	Servers     int        `json:"inventory_servers"`
	Warnings    []string   `json:"warnings,omitempty"`
	// WarningsTotal is how many there are, also where not all are told.
	WarningsTotal int      `json:"warnings_total"`
	Foreign       []string `json:"foreign,omitempty"`
	// Hints are what is in order and looks wrong all the same.
	Hints        []string     `json:"hints,omitempty"`
	DefaultClass string       `json:"default_class"`
	Direct       uint64       `json:"direct_packets"`
	Layout       string       `json:"layout"`
	Filters      []FilterCost `json:"filters,omitempty"`
	// LinkRate is what percentages are of, 0 where that is unknown.
	LinkRate  uint64           `json:"link_rate_bits_per_second"`
	Overrides []OverrideStatus `json:"overrides"`
	// OverridesError is why the overrides of the run folder cannot be read, or are not followed.
	OverridesError string `json:"overrides_error,omitempty"`
	// Lately is what happened within the last hour and nothing else here shows: repairs, and overrides that ended or were dropped.
	Lately []Happening `json:"lately,omitempty"`
	// HistoryError is why the history cannot be written into the run folder: a restart of the daemon loses what is not kept there.
	HistoryError string `json:"history_error,omitempty"`
	// HTTPError is why nobody can ask at metrics.listen, Prometheus neither.
	HTTPError string        `json:"http_error,omitempty"`
	Classes   []ClassStatus `json:"classes"`
	// SendingOver is the seconds that the classes' Sending is the mean of; 0 where that is not known.
	SendingOver float64 `json:"sending_over_seconds,omitempty"`
	// Top are the destinations that most was sent to of late, where the kernel counts hits (CONFIG_CLS_U32_PERF).
	Top []Matched `json:"top_destinations,omitempty"`
}

// What a class may be: one with classes below, or one with a queue.
const (
	kindInner = "inner"
	kindLeaf  = "leaf"
)

// ClassStatus is a class with what the kernel counted for it.
type ClassStatus struct {
	Name         string `json:"name"`
	ClassID      string `json:"classid"`
	Kind         string `json:"kind"` // leaf or inner
	Parent       string `json:"parent"`
	Rate         uint64 `json:"rate_bits_per_second"`
	Ceil         uint64 `json:"ceil_bits_per_second"`
	Burst        uint64 `json:"burst_bytes"`
	SentBytes    uint64 `json:"sent_bytes"`
	SentPackets  uint64 `json:"sent_packets"`
	Dropped      uint64 `json:"dropped_packets"`
	Overlimits   uint64 `json:"overlimits"`
	Requeues     uint64 `json:"requeues"`
	BacklogBytes uint64 `json:"backlog_bytes"`
	BacklogPkts  uint64 `json:"backlog_packets"`
	Borrowed     uint64 `json:"borrowed_packets"`
	Lent         uint64 `json:"lent_packets"`
	Destinations int    `json:"destinations"`
	// Sending is what the class sends now, bits per second; nil where that is not known.
	Sending *uint64 `json:"sending_bits_per_second,omitempty"`
	// StandingRate is the rate that the kernel holds the class to, 0 while it does not stand.
	StandingRate uint64 `json:"standing_rate_bits_per_second"`
	// Standing is false for a class that is planned and not in the kernel.
	Standing bool `json:"standing"`
}

// StatusOf puts together what the loop knows and what the kernel counted. Classes are those of the plan, in its order.
func StatusOf(snap Snapshot, stats tc.Stats) Status {
	s := Status{
		Interface: snap.Interface, Node: snap.Node, Cabinet: snap.Cabinet, Datacenter: snap.Datacenter, Daemon: !snap.Started.IsZero(), InSync: snap.InSync, Reason: snap.Reason,
		InterfaceUp: snap.InterfaceUp, InterfaceMissing: snap.InterfaceMissing, Contended: snap.Contended, Servers: snap.Servers, Warnings: snap.Warnings, WarningsTotal: len(snap.Warnings),
		Foreign: snap.Foreign, Time: stats.Time, Top: snap.Top, Direct: stats.DirectPackets, Layout: snap.Layout, Filters: snap.Filters,
		LinkRate: uint64(snap.LinkRate), Overrides: append([]OverrideStatus{}, snap.Overrides...), Classes: []ClassStatus{},
		DefaultClass: snap.DefaultClass, Contention: snap.Contention, Unconfirmed: snap.Unconfirmed, LastConfirm: snap.LastConfirm, OverridesError: snap.OverridesError,
		HistoryError: snap.HistoryError, HTTPError: snap.HTTPError,
	}
	if !snap.LastReload.Time.IsZero() {
		s.LastReload = &snap.LastReload
	}
	if !snap.LastSuccess.IsZero() {
		s.LastSuccess = &snap.LastSuccess
	}
	standing := make(map[tc.Handle]tc.ClassStats, len(stats.Classes))
	for _, c := range stats.Classes {
		standing[c.Class.ID] = c
	}
	for _, c := range snap.Classes {
		counted, ok := standing[c.Class.ID]
		kind := kindInner
		if c.Leaf {
			kind = kindLeaf
		}
		s.Classes = append(s.Classes, ClassStatus{
			Name: c.Name, ClassID: c.Class.ID.String(), Kind: kind, Parent: c.Class.Parent.String(),
			Rate: uint64(c.Class.Rate), Ceil: uint64(c.Class.Ceil), Burst: uint64(c.Class.Burst()),
			SentBytes: counted.SentBytes, SentPackets: counted.SentPackets, Dropped: counted.Dropped,
			Overlimits: counted.Overlimits, Requeues: counted.Requeues,
			BacklogBytes: counted.BacklogBytes, BacklogPkts: counted.BacklogPackets,
			Borrowed: counted.Borrows, Lent: counted.Lends, Destinations: c.Destinations, Standing: ok,
			StandingRate: uint64(counted.Class.Rate),
		})
	}
	return s
}
