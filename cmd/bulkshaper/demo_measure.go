package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"bulkshaper/shaper/tc"
)

// measured is the node that the demo looks at.
const measured = "hadoop01"

// demoClass is a class of the measured node: what it was to get, and what it got while everybody sent.
type demoClass struct {
	Name    string `json:"name"`
	ClassID string `json:"classid"`
	To      string `json:"to,omitempty"`
	Wanted  uint64 `json:"wanted_bits_per_second"`
	// Rate is what stands in the kernel.
	Rate uint64 `json:"rate_bits_per_second"`
	// Received is payload, as the receiver counted it; Share is how much that is of what the wanted rate leaves for payload.
	Received float64 `json:"received_bits_per_second"`
	Share    float64 `json:"received_share"`
	// Sent is frames, by the class's counters.
	Sent         float64 `json:"sent_bits_per_second"`
	Bytes        uint64  `json:"sent_bytes"`
	Packets      uint64  `json:"sent_packets"`
	Dropped      uint64  `json:"dropped_packets"`
	Overlimits   uint64  `json:"overlimits"`
	Destinations int     `json:"destinations"`
}

// demoOther is another node that sent at the same time.
type demoOther struct {
	Node   string  `json:"node"`
	Class  string  `json:"class"`
	Wanted uint64  `json:"wanted_bits_per_second"`
	Sent   float64 `json:"sent_bits_per_second"`
}

// A full frame is 1500 bytes and an Ethernet header, which HTB counts; IP, TCP and its time stamps leave 1448 for payload.
const (
	frameBytes   = 1514
	payloadBytes = 1448
	payloadShare = float64(payloadBytes) / frameBytes
)

const (
	warmUp       = 1500 * time.Millisecond // for bursts to be used up and queues to fill
	measureTries = 3
)

// measureClasses sends from one node to a server of each class at once, while other nodes copy as well.
func (d *demo) measureClasses(ctx context.Context) error {
	var flows []*demoFlow
	for _, to := range []struct{ class, server string }{
		{"same-cabinet", "hadoop02"}, {"cross-cabinet", "hadoop04"}, {"priority-role", "namenode01"}, {"default", "client01"},
	} {
		f, err := d.open(ctx, to.class, measured, to.server)
		if err != nil {
			return err
		}
		flows = append(flows, f)
	}
	// What the receivers above acknowledge waits behind what they send in the same class, so they send nothing there.
	var copying []string
	for _, pair := range [][2]string{{"hadoop02", "hadoop05"}, {"hadoop05", "hadoop02"}, {"hadoop06", "hadoop02"}} {
		if _, err := d.open(ctx, "cross-cabinet", pair[0], pair[1]); err != nil {
			return err
		}
		copying = append(copying, pair[0])
	}
	err := d.tries(ctx, warmUp, func() (demoLoad, shapingError, error) { return d.measureOnce(ctx, flows, copying) })
	if len(d.report.Classes) > 0 { // also a wrong result is worth a look
		err = errors.Join(err, d.printClasses())
	}
	return err
}

// tries measures again when the result is wrong and the machine was too busy for it to mean anything.
func (d *demo) tries(ctx context.Context, warmUp time.Duration, measure func() (demoLoad, shapingError, error)) error {
	for try := 1; ; try++ {
		if err := pause(ctx, warmUp); err != nil {
			return err
		}
		load, wrongs, err := measure()
		switch {
		case err != nil:
			return err
		case len(wrongs) == 0:
			return nil
		case !load.tooMuch():
			return wrongs
		case try == measureTries:
			return &busyError{load, wrongs}
		}
		d.progress("the machine was too busy (%s), so it is measured again", load)
	}
}

// pause lets traffic run.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (d *demo) measureOnce(ctx context.Context, flows []*demoFlow, copying []string) (demoLoad, shapingError, error) {
	d.progress("measuring for %s", d.duration)
	before, err := d.allStats(ctx)
	if err != nil {
		return demoLoad{}, nil, err
	}
	rates, load, err := receivedRates(ctx, d.duration, flows...)
	if err != nil {
		return load, nil, err
	}
	after, err := d.allStats(ctx)
	if err != nil {
		return load, nil, err
	}
	status, err := d.nodes[measured].status(ctx)
	if err != nil {
		return load, nil, err
	}
	d.report = demoReport{Node: measured, Seconds: d.duration.Seconds(), Load: load, Direct: after[measured].DirectPackets}
	for _, c := range status.Classes {
		id, err := tc.ParseHandle(c.ClassID)
		if err != nil {
			return load, nil, fmt.Errorf("read status: %w", err)
		}
		row := demoClass{Name: c.Name, ClassID: c.ClassID, Wanted: uint64(d.wanted(c.Name)), Destinations: c.Destinations}
		if c.Name == tc.ControlName {
			row.Wanted = uint64(d.wanted("default"))
		}
		for i, f := range flows {
			if f.class == c.Name {
				row.To, row.Received = f.to.Name, rates[i]
				row.Share = row.Received / (float64(row.Wanted) * payloadShare)
			}
		}
		row.count(classOf(before[measured], id), classOf(after[measured], id), after[measured].Time.Sub(before[measured].Time))
		d.report.Classes = append(d.report.Classes, row)
	}
	for _, name := range copying {
		sent := sentRate(before[name], after[name], crossClass)
		d.report.Others = append(d.report.Others, demoOther{name, "cross-cabinet", uint64(d.wanted("cross-cabinet")), sent})
	}
	return load, d.report.judge(), nil
}

// crossClass is the classid of cross-cabinet in the demo's config.
var crossClass = tc.MakeHandle(tc.Major, 0x20)

func (d *demo) allStats(ctx context.Context) (map[string]tc.Stats, error) {
	all := map[string]tc.Stats{}
	for _, n := range d.nodes {
		s, err := n.kernel.Stats(ctx)
		if err != nil {
			return nil, fmt.Errorf("read counters of %s: %w", n.host.Name, err)
		}
		all[n.host.Name] = s
	}
	return all, nil
}

// count fills in what the counters say.
func (c *demoClass) count(before, after tc.ClassStats, elapsed time.Duration) {
	c.Rate = uint64(after.Class.Rate)
	c.Sent = (float64(after.SentBytes) - float64(before.SentBytes)) * 8 / elapsed.Seconds()
	c.Bytes, c.Packets, c.Dropped, c.Overlimits = after.SentBytes, after.SentPackets, after.Dropped, after.Overlimits
}

// classOf finds a class's counters; they are zero for one that does not stand.
func classOf(s tc.Stats, id tc.Handle) tc.ClassStats {
	for _, c := range s.Classes {
		if c.Class.ID == id {
			return c
		}
	}
	return tc.ClassStats{}
}

// sentRate is what a class sent between two readings, in bits per second.
func sentRate(before, after tc.Stats, id tc.Handle) float64 {
	return (float64(classOf(after, id).SentBytes) - float64(classOf(before, id).SentBytes)) * 8 / after.Time.Sub(before.Time).Seconds()
}

// What is measured may be so much of what the rate allows. A class sends its burst besides its rate once, hence over 1.
const (
	minShare = 0.90
	maxShare = 1.02
	// maxStray is how much of its rate a class may have sent more or less than its receiver got, in frames.
	maxStray = 0.05
)

// judge tells what is not as it should be.
func (r *demoReport) judge() (wrongs shapingError) {
	say := func(format string, args ...any) { wrongs = append(wrongs, fmt.Sprintf(format, args...)) }
	sentTo := map[string]bool{}
	for _, c := range r.Classes {
		sentTo[c.Name] = c.To != ""
		wanted := float64(c.Wanted)
		if c.Rate != c.Wanted {
			say("class %s has %s in the kernel, not %s", c.Name, tc.BitRate(c.Rate), tc.BitRate(c.Wanted))
		}
		if c.Sent > maxShare*wanted {
			say("class %s sent %s by its counters, over its rate of %s", c.Name, humanRate(c.Sent), humanRate(wanted))
		}
		if c.To == "" {
			continue
		}
		if c.Share < minShare || c.Share > maxShare {
			say("class %s: %s received %s, %.1f %% of the payload that fits into %s; it should be %.0f to %.0f %%", c.Name, c.To,
				humanRate(c.Received), 100*c.Share, humanRate(wanted), 100*minShare, 100*maxShare)
		}
		if stray := (c.Sent - c.Received/payloadShare) / wanted; stray < -maxStray || stray > maxStray {
			say("class %s sent %s by its counters, and %s, whose traffic should be all of that, received frames of %s", c.Name,
				humanRate(c.Sent), c.To, humanRate(c.Received/payloadShare))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(demoPercent())) {
		if !sentTo[name] {
			say("class %s is not among those of %s to which something was sent", name, r.Node)
		}
	}
	if r.Direct != 0 {
		say("%d packets went past all classes", r.Direct)
	}
	for _, o := range r.Others {
		if o.Sent > maxShare*float64(o.Wanted) {
			say("%s sent %s in class %s, over its rate of %s", o.Node, humanRate(o.Sent), o.Class, humanRate(float64(o.Wanted)))
		}
	}
	return wrongs
}
