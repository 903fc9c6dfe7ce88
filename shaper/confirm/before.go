package confirm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"bulkshaper/shaper"
	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
)

// Before is what stood on an interface.
type Before struct {
	// Link is the index of the interface: one that was made again is another one, on which nothing stands.
	Link int
	// Plan is the shaping of ours that stood, as if it were wanted; nil where there was none, and the root was the kernel's own.
	Plan *plan.Plan
}

// Remember makes a Before of what was observed. The error says what could not be put back exactly.
func Remember(state tc.State) (*Before, error) {
	b := &Before{Link: state.Link.Index}
	switch owner := diff.Ownership(state); owner.Kind {
	case diff.None, diff.Kernel:
		return b, nil
	case diff.Foreign:
		return nil, fmt.Errorf("the root qdisc of %s is %s %s (probably %s), which could not be put back as it was: remove it yourself, or take it over without --confirm",
			state.Link.Name, owner.Root.Kind, owner.Root.Handle, owner.Maker)
	}
	r := remembering{state: state, plan: &plan.Plan{Interface: state.Link.Name, Layout: plan.LayoutList}}
	if err := errors.Join(r.classes(), r.filters()); err != nil {
		return nil, fmt.Errorf("the shaping that stands on %s could not be put back as it is: %w; run `bulkshaper apply` without --confirm first", state.Link.Name, err)
	}
	b.Plan = r.plan
	return b, nil
}

// Restore puts back what stood, and gives how many operations that took. An interface that is another one now is left alone.
func (b *Before) Restore(ctx context.Context, k shaper.Kernel) (done int, err error) {
	state, err := k.Observe(ctx)
	switch {
	case errors.Is(err, tc.ErrNoInterface):
		return 0, nil
	case err != nil:
		return 0, err
	case state.Link.Index != b.Link:
		return 0, nil
	}
	if b.Plan != nil {
		_, done, err = shaper.Bring(ctx, k, state, b.Plan, diff.Options{})
		return done, err
	}
	ops, err := diff.Clear(state)
	if err != nil {
		return 0, err
	}
	for _, r := range shaper.Apply(ctx, k, state.Link, ops) {
		if r.Err != nil {
			return done, fmt.Errorf("%s: %w", r.Op, r.Err)
		}
		done++
	}
	return done, nil
}

// remembering makes a plan of what stands.
type remembering struct {
	state tc.State
	plan  *plan.Plan
}

// classes are those that we made, parents before children and the default class last.
func (r *remembering) classes() error {
	root, _ := r.state.RootQdisc()
	r.plan.Root = tc.Qdisc{Handle: root.Handle, Parent: root.Parent, Kind: root.Kind, HTB: tc.HTB{Default: root.HTB.Default, R2Q: root.HTB.R2Q}}
	leaves := map[tc.Handle]tc.Qdisc{}
	for _, q := range r.state.Qdiscs {
		leaves[q.Parent] = q
	}
	children := map[tc.Handle][]tc.Class{}
	for _, c := range r.state.Classes {
		if c.Parent == root.Handle || c.Parent == tc.Unspec {
			c.Parent = tc.Root
		}
		children[c.Parent] = append(children[c.Parent], c)
	}
	var last []plan.Class
	var add func(parent tc.Handle, depth int) (ours bool)
	add = func(parent tc.Handle, depth int) bool {
		found := false
		for _, c := range children[parent] {
			at := len(r.plan.Classes)
			class := plan.Class{Name: c.ID.String(), Class: c}
			class.Class.Leaf, class.Class.Level = 0, 0
			r.plan.Classes = append(r.plan.Classes, class)
			leaf, marked := leaves[c.ID], false
			if len(children[c.ID]) == 0 {
				marked = leaf.Handle == tc.LeafHandle(c.ID.Minor())
				leaf.Parent = c.ID
				r.plan.Classes[at].Leaf = &leaf
			} else if depth < len(r.state.Classes) {
				marked = add(c.ID, depth+1)
			}
			switch {
			case !marked: // somebody else's: it stays whatever we do
				r.plan.Classes = slices.Delete(r.plan.Classes, at, at+1)
			case c.ID == tc.MakeHandle(tc.Major, uint16(root.HTB.Default)):
				last = append(last, r.plan.Classes[at])
				r.plan.Classes = slices.Delete(r.plan.Classes, at, at+1)
			}
			found = found || marked
		}
		return found
	}
	add(tc.Root, 0)
	if len(last) != 1 || last[0].Leaf == nil {
		return errors.New("its default class is not there")
	}
	r.plan.Classes = append(r.plan.Classes, last...)
	if !slices.ContainsFunc(r.plan.Classes, func(c plan.Class) bool { return c.Class.ID == tc.ControlClass }) {
		return fmt.Errorf("class %s (%s) is not there", tc.ControlClass, tc.ControlName)
	}
	return nil
}

// filters are those at our prefs. Which handles and hash tables they had is not kept: the comparison gives them anew.
func (r *remembering) filters() error {
	names := map[tc.Handle]bool{}
	for _, c := range r.plan.Classes {
		names[c.Class.ID] = c.Leaf != nil
	}
	hashed := map[netip.Prefix]tc.Handle{}
	for _, f := range r.state.Filters {
		protocol, own := plan.OwnPref(f.Pref)
		if !own || f.Parent != r.plan.Root.Handle || f.Kind != tc.KindU32 || f.Protocol != protocol || !f.IsNode() {
			continue
		}
		inHash := f.Pref == plan.PrefHashIPv4 || f.Pref == plan.PrefHashIPv6
		if inHash {
			r.plan.Layout = plan.LayoutHash
			if f.Link != 0 {
				continue
			}
		}
		destination, plain := f.Destination()
		switch {
		case f.Link != 0, f.Sel.Extra, inHash && !plain:
			return fmt.Errorf("%s is not as we make filters", f.Ident())
		case !names[f.ClassID]:
			return fmt.Errorf("%s leads to class %s, which is not ours", f.Ident(), f.ClassID)
		}
		if inHash {
			if other, twice := hashed[destination]; twice && other != f.ClassID {
				return fmt.Errorf("%s leads to %s and to %s", destination, other, f.ClassID)
			} else if twice {
				continue
			}
			hashed[destination] = f.ClassID
		}
		name := "what it was"
		if plain && len(f.Sel.Keys) > 0 {
			name = destination.String()
			r.plan.Destinations = append(r.plan.Destinations, policy.Destination{Prefix: destination, Class: f.ClassID.String()})
		}
		r.plan.Filters = append(r.plan.Filters, plan.Filter{Name: name, Filter: tc.Filter{Parent: f.Parent, Pref: f.Pref, Protocol: f.Protocol,
			Kind: f.Kind, ClassID: f.ClassID, Sel: f.Sel}})
	}
	plan.SortFilters(r.plan.Filters)
	return nil
}
