package kernel

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// dumps counts how often lists of objects were asked for.
type dumps struct{ qdiscs, classes, filters atomic.Uint64 }

// count counts a request of a type.
func (d *dumps) count(request uint16) {
	switch {
	case d == nil:
	case request == unix.RTM_GETQDISC:
		d.qdiscs.Add(1)
	case request == unix.RTM_GETTCLASS:
		d.classes.Add(1)
	case request == unix.RTM_GETTFILTER:
		d.filters.Add(1)
	}
}

// Dumps is how often k has asked the kernel for its list of objects, "qdisc", "class" or "filter", by whichever method. That of filters
// is the one that may be long.
func (k *Kernel) Dumps(object string) uint64 {
	switch object {
	case "qdisc":
		return k.dumps.qdiscs.Load()
	case "class":
		return k.dumps.classes.Load()
	case "filter":
		return k.dumps.filters.Load()
	}
	return 0
}
