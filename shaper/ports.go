package shaper

import (
	"context"
	"time"

	"bulkshaper/inventory"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/tc"
)

// Kernel is the traffic control of one interface. The package kernel is the real one, fakekernel the one for tests.
type Kernel interface {
	// Observe reads the link, its qdiscs, classes and filters. The error is tc.ErrNoInterface while there is no such interface.
	Observe(ctx context.Context) (tc.State, error)
	// Apply does the operations in order and says what became of each.
	Apply(ctx context.Context, link tc.Link, ops []tc.Op) []tc.Result
	// Stats reads the counters of the classes; it may be called while the others run.
	Stats(ctx context.Context) (tc.Stats, error)
	// Watch tells of changes to the interface and its traffic control until ctx ends.
	Watch(ctx context.Context) (<-chan tc.Event, error)
}

// Input is what operators edit, read whole and checked.
type Input struct {
	Config    *config.Config
	Inventory *inventory.Inventory
}

// Inputs reads the input; its error is inventory.Problems where the files are wrong.
type Inputs interface {
	Load(ctx context.Context) (Input, error)
}

// ReloadResult is how a reading of the files ended.
type ReloadResult string

// The results, as they stand in the metrics and in the status.
const (
	ReloadSuccess   ReloadResult = "success"
	ReloadFailure   ReloadResult = "failure"
	ReloadUnchanged ReloadResult = "unchanged"
)

// Recorder counts what the loop does. The metrics package has the real one.
type Recorder interface {
	Reload(result ReloadResult, at time.Time)
	// Operation counts a netlink operation; err is nil where it was done.
	Operation(op tc.Op, err error)
	// Applied measures one run of operations.
	Applied(took time.Duration)
	// DriftRepaired counts an object ("qdisc", "class", "filter") that somebody else had changed and that was put right.
	DriftRepaired(object string)
	// Rebuilt counts a root set up again: it had to be taken down, or somebody else had done that.
	Rebuilt()
}
