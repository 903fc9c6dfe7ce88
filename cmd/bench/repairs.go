package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"bulkshaper/shaper/tc"
)

// repair is what another hand takes away from a running daemon.
type repair struct {
	figure
	tc   string // what takes it away
	gone uint16 // the kernel's notification of that
	back func(what uint16, handle tc.Handle) bool
}

// repairFigures time repairs, from the kernel's notification that something is gone to the one that its last part is back.
func (r *runner) repairFigures(ctx context.Context) {
	some := countOf(r.some)
	defaultClass := tc.MakeHandle(tc.Major, 0x100)
	for _, p := range []repair{
		{figure{ID: "repair-filter", Name: "repair of a filter, " + some + " servers", Unit: "ms", Limit: 100},
			"filter del dev " + iface + " parent 1: protocol arp pref 11000", unix.RTM_DELTFILTER,
			func(what uint16, _ tc.Handle) bool { return what == unix.RTM_NEWTFILTER }},
		{figure{ID: "repair-class", Name: "repair of a class, " + some + " servers", Unit: "ms", Limit: 100},
			"class change dev " + iface + " classid 1:100 htb rate 1mbit", unix.RTM_NEWTCLASS,
			func(what uint16, handle tc.Handle) bool { return what == unix.RTM_NEWTCLASS && handle == defaultClass }},
		// The default class is the last of an installation, when all filters stand.
		{figure{ID: "repair-tree", Name: "repair of the whole tree, " + some + " servers", Unit: "ms", Limit: 1000},
			"qdisc del dev " + iface + " root", unix.RTM_DELQDISC,
			func(what uint16, handle tc.Handle) bool { return what == unix.RTM_NEWTCLASS && handle == defaultClass }},
	} {
		values, err := r.repairs(ctx, p)
		if err != nil {
			r.report(p.fail(err))
			continue
		}
		r.report(p.measured(values...))
	}
}

// repairsAtOnce is how many repairs a daemon makes without a wait; then somebody seems to fight it.
const repairsAtOnce = 3

// repairs times as many repairs as one daemon makes at once.
func (r *runner) repairs(ctx context.Context, p repair) ([]float64, error) {
	d, err := r.startDaemon(ctx, r.some)
	if err != nil {
		return nil, err
	}
	defer d.stop()
	var values []float64
	for range repairsAtOnce {
		if err := d.settle(ctx); err != nil {
			return nil, err
		}
		v, err := d.repair(ctx, p)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
		if err := d.await(ctx, startLimit, func(s status) bool { return s.InSync }); err != nil {
			return nil, err
		}
	}
	return values, nil
}

func (d *daemon) repair(ctx context.Context, p repair) (float64, error) {
	listener, err := listen(d.bed)
	if err != nil {
		return 0, err
	}
	defer unix.Close(listener)
	// The notifications of a whole tree have to fit.
	if err := unix.SetsockoptInt(listener, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20); err != nil {
		return 0, fmt.Errorf("enlarge buffer: %w", err)
	}
	taken := make(chan error, 1)
	go func() {
		_, err := d.bed.run(ctx, d.bed.near, "", "tc", strings.Fields(p.tc)...)
		taken <- err
	}()
	if err := awaitChange(listener, d.bed.index, func(what uint16, _ tc.Handle) bool { return what == p.gone }); err != nil {
		return 0, err
	}
	start := time.Now()
	err = awaitChange(listener, d.bed.index, p.back)
	took := milliseconds(time.Since(start))
	if failed := <-taken; failed != nil {
		return 0, failed
	}
	return took, err
}
