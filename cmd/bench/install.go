package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"bulkshaper/cmd/bench/shapes"
	"bulkshaper/inventory"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
)

// installFigures compare what puts filters into the kernel with tc -batch of the same lines.
func (r *runner) installFigures(ctx context.Context) {
	s := shapes.All()[0]
	f := figure{ID: "netlink", Name: "netlink phase, " + countOf(r.some) + " filters", Unit: "ms", Against: "tc -batch", Limit: 0.35}
	if p, err := r.netlinkPhase(ctx, s); err != nil {
		r.report(f.fail(err))
	} else {
		r.report(f.compared(p))
	}
	f = figure{ID: "apply", Name: "whole apply, " + countOf(r.some) + " server files", Unit: "ms", Against: "tc -batch, the process alone", Limit: 1.5, Note: "aim: 1.0"}
	if p, err := r.wholeApply(ctx, s); err != nil {
		r.report(f.fail(err))
	} else {
		r.report(f.compared(p))
	}
}

// planned is the first installation of servers on b's interface.
func (b *bed) planned(ctx context.Context, layout string, servers []*inventory.Server) (*plan.Plan, error) {
	k, err := b.open()
	if err != nil {
		return nil, err
	}
	defer k.Close()
	state, err := k.Observe(ctx)
	if err != nil {
		return nil, err
	}
	desired, err := desire(layout, state, servers)
	if err != nil {
		return nil, err
	}
	return desired.Plan, nil
}

// lines are operations for tc -batch.
func lines(ops []tc.Op) string {
	var text strings.Builder
	for _, op := range ops {
		text.WriteString(op.TC(iface) + "\n")
	}
	return text.String()
}

// removeRoot takes everything away again.
func (b *bed) removeRoot(ctx context.Context) error {
	return b.tc(ctx, "", "qdisc", "del", "dev", iface, "root")
}

// netlinkPhase times the filters of a plan through the kernel package and through tc. Root and classes stand before, and are not
// timed.
func (r *runner) netlinkPhase(ctx context.Context, s shapes.Shape) (p pairs, err error) {
	b, err := newBed(ctx, false)
	if err != nil {
		return p, err
	}
	defer b.close()
	wanted, err := b.planned(ctx, r.layout, s.Servers(r.some))
	if err != nil {
		return p, err
	}
	ops, err := wanted.Install()
	if err != nil {
		return p, err
	}
	var foundation, filters []tc.Op
	for _, op := range ops {
		if op.Object.Type() == "filter" {
			filters = append(filters, op)
		} else {
			foundation = append(foundation, op)
		}
	}
	text := lines(filters)
	k, err := b.open()
	if err != nil {
		return p, err
	}
	defer k.Close()
	ours := func() error { return b.apply(ctx, k, filters) }
	theirs := func() error { return b.tc(ctx, text, "-batch", "-") }
	return r.alternate(r.repeats, ours, theirs, func() error { return b.apply(ctx, k, foundation) }, func() error { return b.removeRoot(ctx) })
}

// alternate times two ways to do the same, in turn; before and after are not timed.
func (r *runner) alternate(times int, ours, theirs, before, after func() error) (p pairs, err error) {
	for i := range times + 1 {
		var took [2]float64
		for turn := range 2 {
			which := (turn + i) % 2
			if err := before(); err != nil {
				return p, err
			}
			if took[which], err = timed([]func() error{ours, theirs}[which]); err != nil {
				return p, err
			}
			if err := after(); err != nil {
				return p, err
			}
		}
		if i > 0 { // the first one warms up
			p.add(took[0], took[1])
		}
	}
	return p, nil
}

// wholeApply times the program from its start to its end, from files to a shaped kernel, and tc with the lines of the same
// installation.
func (r *runner) wholeApply(ctx context.Context, s shapes.Shape) (p pairs, err error) {
	b, err := newBed(ctx, false)
	if err != nil {
		return p, err
	}
	defer b.close()
	servers := s.Servers(r.some)
	site, err := r.site("apply", servers, times{resync: time.Minute, rescan: time.Minute})
	if err != nil {
		return p, err
	}
	wanted, err := b.planned(ctx, r.layout, servers)
	if err != nil {
		return p, err
	}
	ops, err := wanted.Install()
	if err != nil {
		return p, err
	}
	text := lines(ops)
	ours := func() error {
		_, err := b.run(ctx, b.near, "", r.program, "apply", "--config", site.config)
		return err
	}
	theirs := func() error { return b.tc(ctx, text, "-batch", "-") }
	return r.alternate(r.repeats, ours, theirs, func() error { return nil }, func() error { return b.removeRoot(ctx) })
}

// site is an inventory in files with a config.
type site struct {
	folder, config, runDir string
}

// times are the intervals of a site's config.
type times struct{ resync, rescan time.Duration }

// site writes servers and a config into a folder of their own.
func (r *runner) site(name string, servers []*inventory.Server, t times) (site, error) {
	s := site{folder: filepath.Join(r.folder, name)}
	s.config, s.runDir = filepath.Join(s.folder, "config.yaml"), filepath.Join(s.folder, "run")
	if err := shapes.Write(s.folder, servers); err != nil {
		return s, err
	}
	if err := os.Mkdir(s.runDir, 0o755); err != nil {
		return s, fmt.Errorf("make run folder: %w", err)
	}
	text := fmt.Sprintf(`interface: %s
node: %s
link_rate: %s
layout: %s
run_dir: %s
metrics: {listen: ""}
resync: %s
inventory: {roles: %s, servers: [%s], debounce: 0s, rescan: %s}
`, iface, shapes.Node, linkRate, r.layout, s.runDir, t.resync, shapes.RolesFile, shapes.ServersFolder, t.rescan)
	return s, write(s.config, []byte(text))
}
