package shaper

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"bulkshaper/inventory"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
)

// EventKind says what an Event is about.
type EventKind string

// The kinds. A pass that changed nothing and was no news is no event.
const (
	EventChanged   EventKind = "changed"   // the kernel was brought to what is wanted
	EventRepaired  EventKind = "repaired"  // what somebody else had changed was put right
	EventAdopted   EventKind = "adopted"   // at the start the shaping stood already
	EventReload    EventKind = "reload"    // files were taken that ask for no change
	EventRefused   EventKind = "refused"   // files were wrong, the last good ones stay
	EventFailed    EventKind = "failed"    // the kernel is not as wanted
	EventRecovered EventKind = "recovered" // it is again
	EventContended EventKind = "contended" // somebody keeps changing the shaping, or no longer
	EventOverride  EventKind = "override"  // one was set, cleared, ended or dropped
)

// Event is something that happened to the shaping. The names of its fields are part of the contract.
type Event struct {
	Time time.Time `json:"time"`
	Kind EventKind `json:"kind"`
	// Why is what made it happen, in words.
	Why string `json:"why"`
	// Files are those whose content made it happen, the first few; FilesMore is how many are not named.
	Files     []string `json:"files,omitempty"`
	FilesMore int      `json:"files_more,omitempty"`
	// Operations are those that the kernel accepted, by verb and object.
	Operations []OperationCount `json:"operations"`
	// Hitless says that no packet felt them.
	Hitless bool `json:"hitless"`
	// Rebuild is why the root qdisc was set up again.
	Rebuild string `json:"rebuild,omitempty"`
	// Takeover is what became of somebody else's root that was taken over in place.
	Takeover string `json:"takeover,omitempty"`
	// Took is how long the operations took, with reading back.
	Took float64 `json:"took_seconds"`
	// Result is success or failure; then Error and Problems say what is wrong.
	Result   string   `json:"result"`
	Error    string   `json:"error,omitempty"`
	Problems []string `json:"problems,omitempty"`
}

// OperationCount is the operations of one verb on one kind of object.
type OperationCount struct {
	Verb   string `json:"verb"`
	Object string `json:"object"`
	Count  int    `json:"count"`
	// Examples are the first few.
	Examples []OperationDone `json:"examples"`
}

// OperationDone is one operation.
type OperationDone struct {
	// Object is what tells it from others, Class the name of the class that it is or leads to, "" where that is not known.
	Object string `json:"object"`
	Class  string `json:"class,omitempty"`
	Why    string `json:"why"`
}

const (
	// HistoryLength is how many events are kept.
	HistoryLength = 100
	// maxExamples, maxEventFiles and maxEventProblems bound an event, whatever happened.
	maxExamples      = 10
	maxEventFiles    = 10
	maxEventProblems = 10
)

// History is the last events, oldest first. Any number of goroutines may use it.
type History struct {
	mu      sync.Mutex
	events  []Event
	unkept  error
	changed chan struct{}
}

// NewHistory is a history that goes on from events.
func NewHistory(events ...Event) *History {
	return &History{events: slices.Clone(events[max(0, len(events)-HistoryLength):]), changed: make(chan struct{}, 1)}
}

// Events are the last events, oldest first.
func (h *History) Events() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// Unkept is why the last writing into the run folder failed, nil where it did not.
func (h *History) Unkept() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.unkept
}

// keptAs remembers how a writing ended, and returns how the one before did.
func (h *History) keptAs(err error) (before error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before, h.unkept = h.unkept, err
	return before
}

// Changed tells that there is an event that was not told of before.
func (h *History) Changed() <-chan struct{} { return h.changed }

// Add puts e at the end.
func (h *History) Add(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.events) >= HistoryLength {
		h.events = append(h.events[:0:0], h.events[len(h.events)-HistoryLength+1:]...)
	}
	h.events = append(h.events, e)
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// remember puts an event into the history; what every event has is filled in.
func (l *Loop) remember(e Event) {
	e.Time = time.Now()
	e.Result = "success"
	if e.Error != "" || len(e.Problems) > 0 {
		e.Result = "failure"
	}
	e.Problems = e.Problems[:min(len(e.Problems), maxEventProblems)]
	if e.Operations == nil {
		e.Operations = []OperationCount{}
	}
	l.History.Add(e)
}

// rememberPass puts a pass that changed something into the history, or took a reload that asked for nothing.
func (l *Loop) rememberPass(cause string, out Outcome, drift bool) {
	e := Event{Kind: EventChanged, Why: cause, Hitless: true, Took: out.Took.Seconds()}
	switch {
	case out.Done() == 0:
		e.Kind = EventReload
	case drift:
		e.Kind = EventRepaired
	}
	if l.reloadPending {
		e.Files, e.FilesMore = l.edited.files, l.edited.more
	}
	e.Operations, e.Hitless = countOperations(out.Results, l.names())
	if out.Changes != nil {
		e.Rebuild, e.Takeover = out.Changes.Rebuild, out.Changes.Takeover
	}
	l.remember(e)
}

// countOperations sums up what was done, and tells whether all of it was hitless.
func countOperations(results []tc.Result, names map[tc.Handle]string) (counts []OperationCount, hitless bool) {
	hitless = true
	for _, r := range results {
		if r.Err != nil || r.Op.Barrier {
			continue
		}
		hitless = hitless && r.Op.Hitless
		verb, object := string(r.Op.Verb), r.Op.Object.Type()
		i := slices.IndexFunc(counts, func(c OperationCount) bool { return c.Verb == verb && c.Object == object })
		if i < 0 {
			i, counts = len(counts), append(counts, OperationCount{Verb: verb, Object: object})
		}
		c := &counts[i]
		if c.Count++; c.Count <= maxExamples {
			c.Examples = append(c.Examples, OperationDone{r.Op.Object.Ident(), names[classOf(r.Op.Object)], r.Op.Why})
		}
	}
	return counts, hitless
}

// classNames are the names of the plan's classes.
func classNames(p *plan.Plan) map[tc.Handle]string {
	names := make(map[tc.Handle]string, len(p.Classes))
	for _, c := range p.Classes {
		names[c.Class.ID] = c.Name
	}
	return names
}

// names are those of the plan's classes, and of those that it had before, which may stand or be on their way out.
func (l *Loop) names() map[tc.Handle]string {
	names := maps.Clone(l.former)
	maps.Copy(names, classNames(l.desired.Plan))
	return names
}

// classOf is the class that an object is, hangs on or leads to.
func classOf(object tc.Object) tc.Handle {
	switch o := object.(type) {
	case tc.Class:
		return o.ID
	case tc.Qdisc:
		return o.Parent
	case tc.Filter:
		return o.ClassID
	}
	return tc.Unspec
}

// edits are files whose content changed, and servers that the inventory no longer has, the first few by name.
type edits struct {
	files []string
	more  int

	gone     []string
	goneMore int
}

// lose notes a server that went.
func (e *edits) lose(server string) {
	if len(e.gone) < maxGone {
		e.gone = append(e.gone, server)
	} else {
		e.goneMore++
	}
}

// maxGone is how many servers that went are named.
const maxGone = 3

// gone names the servers that a reload took away of which there is no line yet, "" where it took none.
func (l *Loop) gone() string {
	if !l.reloadPending {
		return ""
	}
	names := slices.DeleteFunc(slices.Clone(l.edited.gone), func(name string) bool {
		_, back := l.input.Inventory.Server(name)
		return back
	})
	text := strings.Join(names, ", ")
	if l.edited.goneMore > 0 {
		text += fmt.Sprintf(" and %d more", l.edited.goneMore)
	}
	return text
}

func (e *edits) add(file string) {
	switch {
	case file == "" || slices.Contains(e.files, file):
	case len(e.files) < maxEventFiles:
		e.files = append(e.files, file)
	default:
		e.more++
	}
}

// editsBetween are the files behind what differs between two inputs.
func editsBetween(old, next Input) edits {
	var e edits
	if !sameConfig(old, next) {
		e.add(next.Config.File)
	}
	inventory.Differences(old.Inventory, next.Inventory, func(was, is *inventory.Server) {
		switch {
		case is == nil:
			e.add(was.File)
			e.lose(was.Name)
		case was != nil && was.EqualButRoles(is):
			e.add(next.Config.Source.Roles)
		default:
			e.add(is.File)
		}
	})
	return e
}

func (e *edits) join(other edits) {
	for _, file := range other.files {
		e.add(file)
	}
	e.more += other.more
	for _, server := range other.gone {
		e.lose(server)
	}
	e.goneMore += other.goneMore
}

// notice remembers what kind of kernel event asks for the next pass.
func (l *Loop) notice(kind tc.EventKind) {
	if !slices.Contains(l.noticed, string(kind)) {
		l.noticed = append(l.noticed, string(kind))
	}
}

// because is the cause of a pass, with what the kernel told before it.
func (l *Loop) because(cause string) string {
	noticed := l.noticed
	l.noticed = nil
	switch {
	case cause != kernelEvent:
		return cause
	case len(noticed) == 0:
		return "retry"
	}
	slices.Sort(noticed)
	var texts []string
	if lost := slices.Index(noticed, string(tc.EventLost)); lost >= 0 {
		texts, noticed = []string{"events of the kernel were lost"}, slices.Delete(noticed, lost, lost+1)
	}
	if len(noticed) > 0 {
		texts = append(texts, "changed in the kernel: "+strings.Join(noticed, ", "))
	}
	return strings.Join(texts, "; ")
}

// kernelEvent is the cause of a pass that events of the kernel asked for.
const kernelEvent = "event"
