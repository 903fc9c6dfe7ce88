package main

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"go.uber.org/zap"

	"bulkshaper/inventory"
	"bulkshaper/shaper"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/kernel"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
)

// standing tells what stands in the kernel while the files are broken and no daemon answers: nothing is known of what is wanted, but what our
// classes hold and count can be seen all the same.
type standing struct {
	kernel *kernel.Kernel
	iface  string
	names  map[tc.Handle]string
	meter  *shaper.Meter
	files  string // what is the matter with them
}

// filesAre is a clause for what is the matter with the files, of which err is the error.
func filesAre(err error) string {
	if errors.Is(err, tc.ErrNoInterface) {
		return "the interface is not there"
	}
	var problems inventory.Problems
	if errors.As(err, &problems) && problems.Unreadable() {
		return "the files cannot be read"
	}
	return "the files are broken"
}

// openStanding is nil where nothing of ours stands, or cannot be seen.
func (f *inputFlags) openStanding(ctx context.Context, broken error) *standing {
	path, overrides, err := f.where()
	if err != nil {
		return nil
	}
	salvaged := config.Salvage(path, overrides).Config
	if salvaged.Interface == "" {
		return nil
	}
	k, err := kernel.Open(kernel.Options{Interface: salvaged.Interface, Log: zap.NewNop()})
	if err != nil {
		return nil
	}
	state, err := k.Observe(ctx)
	if err != nil || diff.Ownership(state).Kind != diff.Ours {
		k.Close()
		return nil
	}
	s := &standing{kernel: k, iface: salvaged.Interface, names: map[tc.Handle]string{tc.ControlClass: tc.ControlName}, meter: shaper.NewMeter(k.Stats), files: filesAre(broken)}
	for _, c := range salvaged.Classes {
		if c.ID != 0 {
			s.names[tc.MakeHandle(tc.Major, c.ID)] = c.Name
		}
	}
	return s
}

func (s *standing) ask(ctx context.Context) (shaper.Status, error) {
	state, err := s.kernel.Observe(ctx)
	if err != nil {
		return shaper.Status{}, err
	}
	stats, err := s.kernel.Stats(ctx)
	if err != nil {
		return shaper.Status{}, err
	}
	destinations, inner := map[tc.Handle]int{}, map[tc.Handle]bool{}
	for _, f := range state.Filters {
		_, own := plan.OwnPref(f.Pref)
		if _, ok := f.Destination(); own && ok && f.IsNode() && f.Link == 0 && !f.Protocol.IsTag() {
			destinations[f.ClassID]++
		}
	}
	for _, c := range state.Classes {
		inner[c.Parent] = true
	}
	snap := shaper.Snapshot{Interface: s.iface, InterfaceUp: state.Link.Up, Reason: "what is wanted is not known, since " + s.files + "; this is what stands, and no daemon answers"}
	slices.SortFunc(state.Classes, func(a, b tc.Class) int { return cmp.Compare(a.ID, b.ID) })
	for _, c := range state.Classes {
		name := s.names[c.ID]
		if name == "" {
			name = "class"
		}
		snap.Classes = append(snap.Classes, shaper.ClassInfo{Name: name, Class: c, Leaf: !inner[c.ID], Destinations: destinations[c.ID]})
	}
	status := shaper.StatusOf(snap, stats)
	s.meter.Fill(&status, stats)
	s.meter.Add(stats)
	return status, nil
}
