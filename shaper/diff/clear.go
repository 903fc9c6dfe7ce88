package diff

import (
	"slices"

	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
)

// Clear is what removes our shaping and nothing else; no operations where nothing of ours stands. A foreign root is a
// *ForeignRootError.
//
// Where only we hang on the root, that is the root's deletion. Where somebody else's classes or filters do, the root stays for
// them, and our filters and classes go: what no class takes goes out unshaped then. The control class stays as well, idle: by its
// leaf the root is known as ours when it is to be used again.
func Clear(have tc.State) ([]tc.Op, error) {
	switch owner := Ownership(have); owner.Kind {
	case None, Kernel:
		return nil, nil
	case Foreign:
		return nil, &ForeignRootError{Interface: have.Link.Name, Root: owner.Root, Maker: owner.Maker, Clearing: true}
	}
	c := newComparison(have, &plan.Plan{}, false)
	if len(c.foreign) == 0 {
		return []tc.Op{{Verb: tc.Delete, Object: c.root, Why: "clear: packets in its queues are dropped"}}, nil
	}
	if err := c.compareFilters(); err != nil {
		return nil, err
	}
	c.deleteClasses()
	return slices.DeleteFunc(c.ops(), func(op tc.Op) bool {
		class, ok := op.Object.(tc.Class)
		return ok && class.ID == tc.ControlClass
	}), nil
}
