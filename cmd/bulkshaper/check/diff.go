package check

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bulkshaper/cmd/bulkshaper/view"
	"bulkshaper/inventory"
	"bulkshaper/shaper"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
)

// oldPlace is a folder with the files as they were before an edit, in the place of base: what lies at base/x lay at folder/x.
type oldPlace struct{ base, folder string }

// placeOf finds where in folder the config of before is. A path that is relative is looked for as it is, as in a checkout of the whole
// repository; else, and where that is not there, the folder stands for the config's own.
func placeOf(path, folder string) (oldPlace, string, error) {
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return oldPlace{}, "", fmt.Errorf("--diff %s: it is no folder with the files as they were before", folder)
	}
	absolute := func(p string) string {
		if a, err := filepath.Abs(p); err == nil {
			return a
		}
		return p
	}
	if path == "" {
		return oldPlace{absolute("."), absolute(folder)}, "", nil
	}
	tried := filepath.Join(folder, path)
	if filepath.IsLocal(path) {
		if _, err := os.Stat(tried); err == nil {
			return oldPlace{absolute("."), absolute(folder)}, tried, nil
		}
	}
	beside := filepath.Join(folder, filepath.Base(path))
	if _, err := os.Stat(beside); err != nil {
		looked := absolute(beside)
		if filepath.IsLocal(path) && tried != beside {
			looked = "neither " + absolute(tried) + " nor " + looked
		}
		return oldPlace{}, "", fmt.Errorf("--diff %s: the config of before is not there: %s; give the folder that has what %s has now", folder, looked, filepath.Dir(absolute(path)))
	}
	return oldPlace{absolute(filepath.Dir(path)), absolute(folder)}, beside, nil
}

// moved is where path was before. ok is false for what lies outside: it is the same before and now.
func (o oldPlace) moved(path string, pattern bool) (was string, ok bool) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return path, false
	}
	literal := func(folder string) string { return folder }
	if pattern {
		literal = globEscape
	}
	below := func(folder string) (string, bool) {
		// A pattern of the config has its folder escaped; one of a flag or an absolute one is as it was typed.
		for _, f := range []string{literal(folder), folder} {
			if rest, found := strings.CutPrefix(absolute, strings.TrimSuffix(f, "/")+"/"); found {
				return rest, true
			}
		}
		return "", false
	}
	if _, old := below(o.folder); old {
		return path, true // the old config itself says so
	}
	if rest, found := below(o.base); found {
		return filepath.Join(literal(o.folder), rest), true
	}
	return path, false
}

func globEscape(path string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(path)
}

// loadOld reads config and inventory as they were.
func (o Options) loadOld(ctx context.Context) (in shaper.Input, notes []string, err error) {
	place, oldConfig, err := placeOf(o.Config, o.Old)
	if err != nil {
		return in, nil, &UsageError{err}
	}
	if in.Config, err = config.Load(oldConfig, o.Overrides); err != nil {
		return in, nil, err
	}
	move := func(path string, pattern bool) string {
		was, ok := place.moved(path, pattern)
		if !ok {
			notes = append(notes, fmt.Sprintf("%s lies outside of %s, so it is taken as the same before and now", path, place.base))
		}
		return was
	}
	if roles := in.Config.Source.Roles; roles != "" {
		in.Config.Source.Roles = move(roles, false)
	}
	for i, pattern := range in.Config.Source.Servers {
		in.Config.Source.Servers[i] = move(pattern, true)
	}
	in.Inventory, err = inventory.NewLoader(in.Config.Source).Load(ctx)
	return in, notes, err
}

// side is what config and inventory mean for the node, without its link.
type side struct {
	classes      map[string]map[string]string // settings by key
	destinations map[netip.Prefix]policy.Destination
}

func sideOf(in shaper.Input, addresses []netip.Addr, name string) (*side, *inventory.Server, error) {
	node, err := policy.FindNode(in.Config, in.Inventory, addresses, name)
	if err != nil {
		return nil, nil, err
	}
	pol, err := policy.New(in.Config, in.Inventory, node)
	if err != nil {
		return nil, nil, err
	}
	s := &side{classes: settingsOf(in, node), destinations: map[netip.Prefix]policy.Destination{}}
	for _, d := range pol.Destinations() {
		s.destinations[d.Prefix] = d
	}
	return s, node, nil
}

// settingsOf are the classes' settings in words. A percentage of the link stays one: the speed is that of another machine's card.
func settingsOf(in shaper.Input, node *inventory.Server) map[string]map[string]string {
	cfg := *in.Config
	const anySpeed = 100_000_000_000 // so that shares can be counted
	resolved := map[string]policy.Class{}
	if list, _, err := policy.Resolve(&cfg, in.Inventory, node, anySpeed); err == nil {
		for _, c := range list {
			resolved[c.Name] = c
		}
	}
	all := map[string]map[string]string{}
	for _, c := range cfg.Classes {
		rate := func(r config.Rate, value tc.BitRate) string {
			switch {
			case r.Percent != 0 && cfg.LinkRate == 0:
				return fmt.Sprintf("%g%% of the link", r.Percent)
			case value != 0:
				return value.WholeBytes().String()
			case r.Fixed != 0:
				return r.Fixed.String()
			}
			return ""
		}
		settings := map[string]string{"id": fmt.Sprintf("%x", c.ID), "rate": rate(c.Rate, resolved[c.Name].Rate), "parent": c.Parent}
		if !c.Ceil.IsZero() {
			settings["ceil"] = rate(c.Ceil, resolved[c.Name].Ceil)
		}
		for key, v := range map[string]uint64{"prio": uint64(c.Prio), "burst": uint64(c.Burst), "cburst": uint64(c.Cburst), "quantum": uint64(c.Quantum), "leaf limit": uint64(c.Leaf.Limit)} {
			if v != 0 {
				settings[key] = fmt.Sprint(v)
			}
		}
		if c.Leaf.Kind != "" && c.Leaf.Kind != "auto" {
			settings["leaf"] = c.Leaf.Kind
		}
		if c.Name == cfg.DefaultClass {
			settings["default"] = "the default class"
		}
		all[c.Name] = settings
	}
	return all
}

// differ is what leads from was to is.
func differ(was, is *side, node string) *view.Difference {
	d := &view.Difference{Node: node, Classes: []view.ClassChange{}, Moved: []view.DestinationChange{}, Added: []view.DestinationChange{}, Removed: []view.DestinationChange{}, Ruled: []view.DestinationChange{}}
	for _, name := range keysOfBoth(was.classes, is.classes) {
		before, after := was.classes[name], is.classes[name]
		switch {
		case before == nil:
			d.Classes = append(d.Classes, view.ClassChange{Name: name, To: "rate " + after["rate"]})
		case after == nil:
			d.Classes = append(d.Classes, view.ClassChange{Name: name, From: "rate " + before["rate"]})
		default:
			for _, key := range keysOfBoth(before, after) {
				if before[key] != after[key] {
					d.Classes = append(d.Classes, view.ClassChange{Name: name, Key: key, From: before[key], To: after[key]})
				}
			}
		}
	}
	for prefix, now := range is.destinations {
		change := view.DestinationChange{Prefix: prefix.String(), Server: now.Server, To: now.Class, Rule: now.Rule}
		before, known := was.destinations[prefix]
		change.From = before.Class
		switch {
		case !known:
			d.Added = append(d.Added, change)
		case before.Class != now.Class:
			d.Moved = append(d.Moved, change)
		case before.Rule != now.Rule:
			d.Ruled = append(d.Ruled, change)
		}
	}
	for prefix, before := range was.destinations {
		if _, still := is.destinations[prefix]; !still {
			d.Removed = append(d.Removed, view.DestinationChange{Prefix: prefix.String(), Server: before.Server, From: before.Class, Rule: before.Rule})
		}
	}
	for _, list := range [][]view.DestinationChange{d.Moved, d.Added, d.Removed, d.Ruled} {
		slices.SortFunc(list, func(a, b view.DestinationChange) int {
			return netip.MustParsePrefix(a.Prefix).Compare(netip.MustParsePrefix(b.Prefix))
		})
	}
	return d
}

func keysOfBoth[V any](a, b map[string]V) []string {
	var keys []string
	for k := range a {
		keys = append(keys, k)
	}
	for k := range b {
		if _, both := a[k]; !both {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// compareOld tells what the edit from the files in the old folder to now changes on this node, and finds what a daemon that was started with
// the old files would refuse. What is wrong with the old files is a note, not an error: the edit may be what mends them.
func (f *found) compareOld(ctx context.Context, o Options) (*view.Difference, []string, error) {
	here, _, _ := linkFacts(ctx, f.input.Config.Interface)
	is, node, err := sideOf(f.input, here.Link.Addresses, o.Hostname)
	if err != nil {
		f.add(err)
		return nil, nil, nil
	}
	in, notes, err := o.loadOld(ctx)
	var usage *UsageError
	if errors.As(err, &usage) || ctx.Err() != nil {
		return nil, nil, err
	}
	if err == nil {
		f.refused(in)
		var was *side
		if was, _, err = sideOf(in, nil, node.Name); err == nil {
			return differ(was, is, node.Name), notes, nil
		}
	}
	lines := strings.SplitN(err.Error(), "\n", 2)
	return nil, append(notes, fmt.Sprintf("the files of before cannot be compared: %s", lines[0])), nil
}

// refused finds what a running daemon does not follow of the edit from old. What takes a restart is a warning: somebody may well mean to.
func (f *found) refused(old shaper.Input) {
	for _, p := range shaper.Unchangeable(old.Config, f.input.Config) {
		f.warnings = append(f.warnings, p)
	}
	if keys := shaper.FromNextStart(old.Config, f.input.Config); len(keys) > 0 {
		f.notes = append(f.notes, "a running daemon uses from its next start on: "+strings.Join(keys, ", "))
	}
	var shrunk *inventory.ShrinkError
	if err := inventory.CheckShrink(old.Inventory, f.input.Inventory, f.input.Config.MaxShrink); errors.As(err, &shrunk) {
		message, remedy := shrunk.Parts()
		f.add(inventory.Problems{{Message: "a running daemon refuses this: " + message, Remedy: remedy}})
	}
}
