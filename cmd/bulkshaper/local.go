package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"bulkshaper/shaper"
	"bulkshaper/shaper/claim"
	"bulkshaper/shaper/confirm"
	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/words"
)

// compareEvery is how often a command that shows the status again and again reads files and filters: the counters alone cost little, the
// filters of 100,000 destinations do not.
const compareEvery = 10 * time.Second

// local tells the status without a daemon.
type local struct {
	*node
	files *shaper.Files
	snap  shaper.Snapshot
	meter *shaper.Meter
	// compared is when snap was last made, and how often.
	compared time.Time
	times    int
	// lately is from the history that the last daemon left.
	lately []shaper.Happening
}

func (f *inputFlags) openLocal(ctx context.Context) (*local, error) {
	n, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	path, overrides, err := f.where()
	if err != nil {
		n.close()
		return nil, err
	}
	return &local{node: n, files: shaper.NewFiles(path, overrides), meter: shaper.NewMeter(n.kernel.Stats)}, nil
}

// ask compares now and then, and counts each time.
func (l *local) ask(ctx context.Context) (shaper.Status, error) {
	counted := l.state.Hits != nil
	if l.times == 0 || time.Since(l.compared) >= compareEvery || counted && l.times == 1 {
		if err := l.compare(ctx); err != nil {
			return shaper.Status{}, err
		}
	}
	stats, err := l.kernel.Stats(ctx)
	if err != nil {
		return shaper.Status{}, err
	}
	if diff.Ownership(l.state).Kind == diff.Foreign {
		stats.Classes, stats.DirectPackets = nil, 0 // what somebody else's classes count is not ours, though they have our classids
	}
	s := shaper.StatusOf(l.snap, stats)
	s.Lately = l.lately
	l.meter.Fill(&s, stats)
	l.meter.Add(stats)
	return s, nil
}

func (l *local) compare(ctx context.Context) error {
	before, at := l.state, l.compared
	var err error
	if l.state, err = l.kernel.Observe(ctx); err != nil {
		return err
	}
	reload := shaper.Reload{Time: l.read, Result: shaper.ReloadSuccess}
	if l.times > 0 {
		reload = l.readAgain(ctx)
	}
	p := l.desired.Plan
	l.snap = shaper.SnapshotOf(l.input, l.desired)
	l.snap.LastReload, l.snap.LastSuccess = reload, l.read
	l.snap.InterfaceUp, l.snap.Filters = l.state.Link.Up, shaper.CostsOf(p, l.state.Filters)
	place := confirm.Place{Dir: l.input.Config.RunDir, Interface: l.input.Config.Interface}
	l.snap.Unconfirmed, l.snap.LastConfirm = pendingText(place), place.Lost()
	l.snap.OverridesError = l.notFollowed()
	changes, err := diff.Compute(l.state, p, diff.Options{})
	switch {
	case err != nil:
		l.snap.Reason = err.Error()
	case len(changes.Ops) > 0:
		who := "no daemon answers"
		if holder, held := claim.Find(p.Interface); held {
			who = fmt.Sprintf("the daemon (%s) does not answer and may go by other files", holder)
		}
		bare := ""
		if diff.Ownership(l.state).Kind != diff.Ours {
			bare = p.Interface + " is not shaped: "
		}
		l.snap.Reason = bare + fmt.Sprintf("%s to do%s: run `bulkshaper plan`; %s", count(len(changes.Ops), "operation"), someOf(p, l.state, changes.Ops), who)
	default:
		l.snap.InSync = true
	}
	if changes != nil {
		l.snap.Foreign = changes.Foreign
	}
	l.compared = time.Now()
	if events, err := shaper.ReadHistory(place.Dir); err == nil { // what cannot be read `history` tells
		l.lately = shaper.Lately(events, l.compared)
	}
	if l.times++; l.times > 1 {
		l.snap.Top = shaper.TopMatched(p, before, l.state, l.compared.Sub(at))
	}
	return nil
}

// someOf names the first of a few operations, with why; of many, which are a whole tree, the number says enough.
func someOf(p *plan.Plan, have tc.State, ops []tc.Op) string {
	const few, named = 100, 3
	if len(ops) > few {
		return ""
	}
	lines := words.NamesOf(p, have).Summary(ops, named)
	var texts []string
	for _, line := range lines[:min(len(lines), named)] {
		texts = append(texts, line.String())
	}
	text := " (" + strings.Join(texts, "; ")
	if len(lines) > named {
		text += "; and more"
	}
	return text + ")"
}

// readAgain reads the files as a daemon would that they changed under: what is wrong leaves the last good ones in force.
func (l *local) readAgain(ctx context.Context) shaper.Reload {
	now := time.Now()
	input, err := l.files.Load(ctx)
	if err == nil {
		var desired *shaper.Desired
		overrides, unread := activeOverrides(input.Config)
		l.unread = unread
		if desired, err = shaper.Desire(input, hostname(), shaper.FactsOf(l.state), overrides...); err == nil {
			l.input, l.desired, l.read = input, desired, now
			return shaper.Reload{Time: now, Result: shaper.ReloadSuccess}
		}
	}
	return shaper.Reload{Time: now, Result: shaper.ReloadFailure, Problems: []string{err.Error()}}
}
