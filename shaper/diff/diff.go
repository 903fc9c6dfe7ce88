package diff

import (
	"fmt"
	"slices"
	"strings"

	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
)

// Options says what may be done to a foreign root.
type Options struct {
	// Takeover allows to take over a foreign root, in place where it can become ours and else by replacing it, and to lose what is
	// foreign under our own root where that must be set up again.
	Takeover bool
	// Owned says that this process has already shaped this interface: then a foreign root has taken ours, and is taken back.
	Owned bool
	// BannedTables are ids of hash tables that the kernel has and shows to nobody (see HiddenTables).
	BannedTables []uint32
}

// Changes is what leads from the observed state to the wanted one.
type Changes struct {
	// Ops is empty when nothing is to do.
	Ops []tc.Op
	// Rebuild is why the root has to go and everything be set up again, "" if it need not.
	Rebuild string
	// Takeover is what becomes of somebody else's root that is taken over in place, "" where none is.
	Takeover string
	// Advice is, where somebody else's root has to go, who probably made it and what to do so that it does not come back; else "".
	Advice string
	// Foreign is what stays although it is not ours, in words.
	Foreign []string
}

// Compute compares. The error is a *ForeignRootError, a *ForeignFilterError or a *ForeignObjectsError: then nothing may be done.
// The operations depend on nothing but the arguments, in which the order of have's lists does not matter.
func Compute(have tc.State, want *plan.Plan, opts Options) (*Changes, error) {
	switch owner := Ownership(have); owner.Kind {
	case None, Kernel:
		ops, err := want.Install()
		return &Changes{Ops: ops}, err
	case Foreign:
		if !opts.Takeover && !opts.Owned {
			return nil, &ForeignRootError{Interface: have.Link.Name, Root: owner.Root, Maker: owner.Maker}
		}
		why := fmt.Sprintf("the root qdisc is %s, not ours", rootText(owner.Root))
		if opts.Takeover && owner.Root.Kind == tc.KindHTB && owner.Root.Handle == ourRoot {
			c := newComparison(have, want, true)
			c.banned = opts.BannedTables
			refusal := c.refusal()
			if refusal == "" {
				changes, err := c.compute()
				if err == nil {
					changes.Takeover = c.takenOver(owner.Maker)
				}
				return changes, err
			}
			why += ", and it cannot be taken over in place: " + refusal
		}
		changes, err := rebuild(owner.Root, want, why)
		if err == nil {
			changes.Advice = owner.advice()
		}
		return changes, err
	}
	c := newComparison(have, want, false)
	c.banned = opts.BannedTables
	if why := c.mustRebuild(); why != "" {
		if len(c.foreign) > 0 && !opts.Takeover {
			return nil, &ForeignObjectsError{Interface: have.Link.Name, Rebuild: why, Objects: c.foreign}
		}
		return rebuild(c.root, want, why)
	}
	if c.alien != nil {
		protocol, _ := plan.OwnPref(c.alien.Pref)
		return nil, &ForeignFilterError{Interface: have.Link.Name, Filter: *c.alien, Protocol: protocol}
	}
	return c.compute()
}

// compute is the changes in place.
func (c *comparison) compute() (*Changes, error) {
	c.compareClasses()
	if err := c.compareFilters(); err != nil {
		return nil, err
	}
	c.addDefault()
	c.deleteClasses()
	return &Changes{Ops: c.ops(), Foreign: c.foreign}, nil
}

// rebuild is the root's deletion and a first installation. The two go to the kernel together, so that the gap is short.
func rebuild(root tc.Qdisc, want *plan.Plan, why string) (*Changes, error) {
	install, err := want.Install()
	if err != nil {
		return nil, err
	}
	ops := []tc.Op{{Verb: tc.Delete, Object: root, Why: "rebuild: " + why}}
	return &Changes{Ops: append(ops, install...), Rebuild: why}, nil
}

// comparison is the work of one Compute or Clear.
type comparison struct {
	have tc.State
	want *plan.Plan
	root tc.Qdisc
	// takeover says that the root is somebody else's and becomes ours in place (see takeover.go).
	takeover bool

	classes  map[tc.Handle]tc.Class    // observed
	children map[tc.Handle][]tc.Handle // observed
	leaves   map[tc.Handle]tc.Qdisc    // observed, by the class above
	wanted   map[tc.Handle]plan.Class
	byPref   map[uint16][]tc.Filter // observed at our prefs, sorted by handle
	roots    map[uint16]uint32      // the id of each pref's root table
	outside  map[tc.Handle]bool     // classes that foreign filters lead to
	doomed   map[tc.Handle]bool     // classes that are to go
	moved    map[tc.Handle]bool     // leaf classes that get another parent
	made     map[tc.Handle]bool     // classes that are added, the moved ones not among them
	foreign  []string
	alien    *tc.Filter // the first filter at our prefs that we cannot change

	added, removed []tc.Filter // nodes

	// The operations, by the phases of their order.
	misplaced, build, detours, move, back, filters, last, crowded, filterDeletes, tableDeletes, prefDeletes, classDeletes, attached []tc.Op

	mirrors  mirrors
	newer    newer
	banned   []uint32        // table ids
	standing map[uint32]bool // hash tables that stay
	wait     bool            // what is deleted has to wait for packets under way

	crowdedLists int // lists in which old and new do not fit together
}

func newComparison(have tc.State, want *plan.Plan, takeover bool) *comparison {
	c := &comparison{have: have, want: want, takeover: takeover, leaves: leavesOf(have), classes: map[tc.Handle]tc.Class{}, children: map[tc.Handle][]tc.Handle{},
		wanted: map[tc.Handle]plan.Class{}, byPref: map[uint16][]tc.Filter{}, outside: map[tc.Handle]bool{}, doomed: map[tc.Handle]bool{}, newer: newer{}, standing: map[uint32]bool{},
		moved: map[tc.Handle]bool{}, made: map[tc.Handle]bool{}}
	c.root, _ = have.RootQdisc()
	for _, class := range have.Classes {
		if class.Parent == c.root.Handle || class.Parent == tc.Unspec {
			class.Parent = tc.Root
		}
		c.classes[class.ID] = class
		c.children[class.Parent] = append(c.children[class.Parent], class.ID)
	}
	for _, class := range want.Classes {
		c.wanted[class.Class.ID] = class
	}
	c.sortFilters()
	c.sortClasses()
	return c
}

// ops is all operations in their order.
func (c *comparison) ops() []tc.Op {
	ops := slices.Concat(c.misplaced, c.build, c.detours, c.move, c.back, c.mirrors.begin(c), c.filters, c.last)
	for i := range c.crowded {
		c.crowded[i].Hitless = c.crowdedLists == 1 // or one waits for the other
	}
	if len(c.crowded)+len(c.filterDeletes) > 0 {
		wait := c.needsBarrier()
		for _, deletes := range [][]tc.Op{c.crowded, c.filterDeletes} {
			if wait && len(deletes) > 0 {
				ops = append(ops, c.barrier("packets under way finish with the filters they met before those are deleted"))
			}
			ops = append(ops, c.oneAfterTheOther(deletes)...)
		}
	}
	return slices.Concat(ops, c.mirrors.last, c.tableDeletes, c.prefDeletes, c.classDeletes, c.attached)
}

// name is the classid with the class's name where it is known.
func (c *comparison) name(id tc.Handle) string {
	if w, ok := c.wanted[id]; ok {
		return fmt.Sprintf("%s (%s)", id, w.Name)
	}
	return id.String()
}

func join(words []string) string { return strings.Join(words, ", ") }
