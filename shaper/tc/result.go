package tc

import "errors"

// Result is what became of an operation.
type Result struct {
	Op  Op
	Err error
}

var (
	// ErrNotTried is the error of operations behind one that failed.
	ErrNotTried = errors.New("not tried, since an earlier operation failed")
	// ErrNoInterface says that the interface does not exist, or no longer.
	ErrNoInterface = errors.New("no such interface")
	// ErrPermission says that the process may not change traffic control.
	ErrPermission = errors.New("not permitted: changing traffic control needs CAP_NET_ADMIN; run it as root or give the service AmbientCapabilities=CAP_NET_ADMIN")
)

// EventKind is what a netlink notification was about.
type EventKind string

// The kinds of event. EventLost stands for any number of events that the kernel could not deliver (ENOBUFS).
const (
	EventLink    EventKind = "link"
	EventAddress EventKind = "address"
	EventQdisc   EventKind = "qdisc"
	EventClass   EventKind = "class"
	EventFilter  EventKind = "filter"
	EventLost    EventKind = "lost"
)

// Event is one or more notifications of a kind, taken together.
type Event struct {
	Kind EventKind
	// Own says that only this process's own changes are in it.
	Own bool
	// By is who made the last change of others, "" where the kernel does not tell: the port of their netlink socket, which most programs
	// have the kernel choose, and then it is the number of their process, with the program that has that number here.
	By string
}
