package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"bulkshaper/shaper"
	"bulkshaper/shaper/tc"
)

// demoEdit is what the correction of a server's cabinet did.
type demoEdit struct {
	Server string  `json:"server"`
	From   string  `json:"from_cabinet"`
	To     string  `json:"to_cabinet"`
	Before float64 `json:"before_bits_per_second"` // payload, as the server received it
	After  float64 `json:"after_bits_per_second"`
	// Seconds is the time from the rename of the file to the kernel's notification of the filter.
	Seconds float64    `json:"seconds"`
	Changed []string   `json:"changed"`
	Filters int        `json:"filters"`
	Classes []demoPast `json:"classes"`
}

// demoPast is a class's counter before the edit and at the end.
type demoPast struct {
	Name   string `json:"name"`
	Before uint64 `json:"sent_bytes_before"`
	After  uint64 `json:"sent_bytes_after"`
}

// editLimit is how long an edit may take; the files' being quiet for a moment is waited for.
const editLimit = 10 * time.Second

// edit corrects the cabinet of a server in the inventory while the measured node sends to it.
func (d *demo) edit(ctx context.Context) error {
	servers := demoServers()
	moved := servers[slices.IndexFunc(servers, func(s demoServer) bool { return s.listed != "" && s.listed != s.cabinet })]
	// The flow to that server takes the place of those in its two classes; the others go on.
	for _, f := range slices.Clone(d.flows) {
		if f.from.Name == measured && (f.class == "cross-cabinet" || f.class == "same-cabinet") {
			d.closeFlows(f)
		}
	}
	flow, err := d.open(ctx, "cross-cabinet", measured, moved.name)
	if err != nil {
		return err
	}
	d.report.Edit = demoEdit{Server: moved.name, From: moved.listed, To: moved.cabinet}
	if err := d.editOnce(ctx, moved, flow); err != nil {
		return err
	}
	return d.printEdit()
}

// editOnce measures, edits, and measures again.
func (d *demo) editOnce(ctx context.Context, moved demoServer, flow *demoFlow) error {
	e := &d.report.Edit
	rate := func(got *float64, class string) error {
		measure := func() (demoLoad, shapingError, error) {
			rates, load, err := receivedRates(ctx, d.duration/2, flow)
			if err != nil {
				return load, nil, err
			}
			*got = rates[0]
			return load, judgeEdit(*got, float64(d.wanted(class)), moved.name, class), nil
		}
		return d.tries(ctx, warmUp, measure)
	}
	d.progress("sending to %s", moved.name)
	if err := rate(&e.Before, "cross-cabinet"); err != nil {
		return err
	}
	before, err := d.nodes[measured].look(ctx)
	if err != nil {
		return err
	}
	edited := time.Now()
	took, after, err := d.rename(ctx, moved)
	if err != nil {
		return err
	}
	e.Seconds, e.Filters = took.Seconds(), countNodes(after.state.Filters)
	e.Changed = changedFilters(before.state, after.state)
	d.progress("%s is in cabinet %s now, says its file", moved.name, moved.cabinet)
	if err := d.followed(ctx, edited); err != nil {
		return err
	}
	if err := rate(&e.After, "same-cabinet"); err != nil {
		return err
	}
	last, err := d.nodes[measured].look(ctx)
	if err != nil {
		return err
	}
	return d.checkEdit(before, last)
}

// look is state and counters of a node at one time.
type look struct {
	state tc.State
	stats tc.Stats
}

func (n *demoNode) look(ctx context.Context) (l look, err error) {
	if l.state, err = n.kernel.Observe(ctx); err != nil {
		return l, err
	}
	l.stats, err = n.kernel.Stats(ctx)
	return l, err
}

// rename puts the corrected file in place and waits until the measured node's kernel has another filter for the server. The
// kernel tells of it, so that the time is exact.
func (d *demo) rename(ctx context.Context, moved demoServer) (time.Duration, look, error) {
	n := d.nodes[measured]
	ctx, cancel := context.WithTimeout(ctx, editLimit)
	defer cancel()
	events, err := n.kernel.Watch(ctx)
	if err != nil {
		return 0, look{}, err
	}
	old, err := n.look(ctx)
	if err != nil {
		return 0, look{}, err
	}
	if err := d.writeServer(moved.inInventory(moved.cabinet)); err != nil {
		return 0, look{}, err
	}
	start := time.Now()
	for {
		select {
		case <-ctx.Done():
			return 0, look{}, shapingError{fmt.Sprintf("the edit of %s has changed no filter within %s%s", d.serverFile(moved.name), editLimit, n.logTail())}
		case _, ok := <-events:
			took := time.Since(start)
			if !ok {
				return 0, look{}, fmt.Errorf("watch %s: the kernel's notifications ended", n.host.Name)
			}
			now, err := n.look(ctx)
			if err != nil {
				return 0, look{}, err
			}
			if len(changedFilters(old.state, now.state)) > 0 {
				return took, now, nil
			}
		}
	}
}

// followed waits until every daemon has taken over the edit: the correction concerns each of them.
func (d *demo) followed(ctx context.Context, edited time.Time) error {
	d.report.Daemons = nil
	for _, name := range d.nodeNames() {
		n := d.nodes[name]
		operations := 0
		err := n.wait(ctx, editLimit, func(s shaper.Status) bool {
			r := s.LastReload
			if !s.InSync || r == nil || r.Result != shaper.ReloadSuccess || r.Time.Before(edited) || r.Operations == 0 {
				return false
			}
			operations = r.Operations
			return true
		})
		if err != nil {
			return fmt.Errorf("wait for the daemon on %s to follow the edit: %w%s", n.host.Name, err, n.logTail())
		}
		d.report.Daemons = append(d.report.Daemons, demoDaemon{n.host.Name, operations})
	}
	return nil
}

// changedFilters tells which filters are not the same, in words.
func changedFilters(before, after tc.State) (changed []string) {
	byIdent := func(s tc.State) map[string]tc.Filter {
		all := map[string]tc.Filter{}
		for _, f := range s.Filters {
			all[f.Ident()] = f
		}
		return all
	}
	old, now := byIdent(before), byIdent(after)
	for id, f := range now {
		switch was, ok := old[id]; {
		case !ok:
			changed = append(changed, fmt.Sprintf("%s: added, to %s", id, f.ClassID))
		case was.ClassID != f.ClassID:
			changed = append(changed, fmt.Sprintf("%s: %s is now %s", id, was.ClassID, f.ClassID))
		}
	}
	for id := range old {
		if _, ok := now[id]; !ok {
			changed = append(changed, id+": deleted")
		}
	}
	slices.Sort(changed)
	return changed
}

// countNodes leaves the hash tables out.
func countNodes(filters []tc.Filter) (n int) {
	for _, f := range filters {
		if f.IsNode() {
			n++
		}
	}
	return n
}

func judgeEdit(got, wanted float64, server, class string) shapingError {
	if share := got / (wanted * payloadShare); share < minShare || share > maxShare {
		return shapingError{fmt.Sprintf("%s received %s in class %s, %.1f %% of the payload that fits into %s", server, humanRate(got), class,
			100*share, humanRate(wanted))}
	}
	return nil
}

// checkEdit sees that one filter of the measured node was touched and that every counter went on.
func (d *demo) checkEdit(before, last look) error {
	e := &d.report.Edit
	var wrongs shapingError
	if len(e.Changed) != 1 {
		wrongs = append(wrongs, fmt.Sprintf("the edit changed %d filters of %s, not one: %v", len(e.Changed), measured, e.Changed))
	}
	for _, daemon := range d.report.Daemons {
		if daemon.Node == measured && daemon.Operations != 1 {
			wrongs = append(wrongs, fmt.Sprintf("the daemon of %s did %d operations for the edit, not one", measured, daemon.Operations))
		}
	}
	e.Classes = nil
	for _, c := range d.report.Classes {
		id, err := tc.ParseHandle(c.ClassID)
		if err != nil {
			return err
		}
		was, is := classOf(before.stats, id), classOf(last.stats, id)
		e.Classes = append(e.Classes, demoPast{c.Name, was.SentBytes, is.SentBytes})
		switch {
		case is.SentBytes < was.SentBytes || is.SentPackets < was.SentPackets || is.Dropped < was.Dropped:
			wrongs = append(wrongs, fmt.Sprintf("class %s counted %d bytes before the edit and %d after it", c.Name, was.SentBytes, is.SentBytes))
		case is.SentBytes == was.SentBytes && c.Name != tc.ControlName:
			wrongs = append(wrongs, fmt.Sprintf("class %s counted nothing after the edit", c.Name))
		}
	}
	if last.stats.DirectPackets != 0 {
		wrongs = append(wrongs, fmt.Sprintf("%d packets went past all classes", last.stats.DirectPackets))
	}
	if len(wrongs) > 0 {
		return wrongs
	}
	return nil
}
