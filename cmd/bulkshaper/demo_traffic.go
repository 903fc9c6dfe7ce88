package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"bulkshaper/shaper/kernel/lab"
)

// demoFlow is a TCP connection that sends as fast as it can.
type demoFlow struct {
	class    string // the sender's class that it belongs to
	from, to *lab.Host
	sink     *lab.Sink
	flow     *lab.Flow
}

// open starts a flow, which close ends if nothing did before.
func (d *demo) open(ctx context.Context, class, from, to string) (*demoFlow, error) {
	f := &demoFlow{class: class, from: d.cluster.Host(from), to: d.cluster.Host(to)}
	var err error
	if f.sink, err = f.to.Sink(ctx, 0); err != nil {
		return nil, err
	}
	d.flows = append(d.flows, f)
	f.flow, err = f.from.Flow(ctx, f.sink.At())
	return f, err
}

// closeFlows ends flows; how they end is of no interest.
func (d *demo) closeFlows(flows ...*demoFlow) {
	for _, f := range flows {
		if f.flow != nil {
			_ = f.flow.Close()
		}
		_ = f.sink.Close()
	}
	d.flows = slices.DeleteFunc(slices.Clone(d.flows), func(f *demoFlow) bool { return slices.Contains(flows, f) })
}

func (f *demoFlow) received() uint64 { return f.sink.Received(f.from.Address) }

// sampleEvery is how often the receivers' counts are read during a measurement.
const sampleEvery = 20 * time.Millisecond

// receivedRates measures for a while what reaches the receivers, in bits of payload per second, in the order of the flows.
func receivedRates(ctx context.Context, duration time.Duration, flows ...*demoFlow) ([]float64, demoLoad, error) {
	before, err := readCPU()
	if err != nil {
		return nil, demoLoad{}, err
	}
	lines := make([]line, len(flows))
	var lags []time.Duration
	timer := time.NewTimer(0)
	defer timer.Stop()
	start := time.Now()
	for due := start; due.Before(start.Add(duration)); due = due.Add(sampleEvery) {
		timer.Reset(time.Until(due))
		select {
		case <-ctx.Done():
			return nil, demoLoad{}, ctx.Err()
		case <-timer.C:
		}
		lags = append(lags, time.Since(due))
		for i, f := range flows {
			lines[i].add(time.Since(start).Seconds(), float64(f.received())*8)
		}
	}
	after, err := readCPU()
	if err != nil {
		return nil, demoLoad{}, err
	}
	rates := make([]float64, len(flows))
	for i := range lines {
		rates[i] = lines[i].slope()
	}
	slices.Sort(lags)
	return rates, demoLoad{Busy: after.busySince(before), LagSeconds: lags[len(lags)*99/100].Seconds()}, nil
}

// line is fitted to points by least squares. TCP hands over at once what waited behind a lost packet; a difference of two
// counts would take a whole queue more or less for rate, the slope of the line hardly notices.
type line struct{ n, x, y, xx, xy float64 }

func (l *line) add(x, y float64) {
	l.n, l.x, l.y, l.xx, l.xy = l.n+1, l.x+x, l.y+y, l.xx+x*x, l.xy+x*y
}

func (l *line) slope() float64 {
	spread := l.n*l.xx - l.x*l.x
	if spread == 0 {
		return 0
	}
	return (l.n*l.xy - l.x*l.y) / spread
}

// demoLoad says whether the machine kept up with a measurement.
type demoLoad struct {
	// Busy is the share of all processors' time.
	Busy float64 `json:"busy"`
	// LagSeconds is by how much the process came late to what it had to do, at the 99th percentile.
	LagSeconds float64 `json:"lag_seconds"`
}

// Beyond these the processors decide what is measured: HTB sends late, and queues of 50 ms run dry.
const (
	maxBusy = 0.9
	maxLag  = 10 * time.Millisecond
)

func (l demoLoad) tooMuch() bool { return l.Busy > maxBusy || l.LagSeconds > maxLag.Seconds() }

func (l demoLoad) String() string {
	busy, late := fmt.Sprintf("processors %.0f %% busy", 100*l.Busy), fmt.Sprintf("up to %.1f ms late", 1000*l.LagSeconds)
	if l.LagSeconds > maxLag.Seconds() && l.Busy <= maxBusy { // what was too much comes first
		return fmt.Sprintf("%s, where %s may be; %s", late, maxLag, busy)
	}
	return busy + ", " + late
}

// cpuTime is the first line of /proc/stat (proc_stat(5)), in clock ticks.
type cpuTime struct{ idle, all uint64 }

func readCPU() (cpuTime, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return cpuTime{}, fmt.Errorf("read processor time: %w", err)
	}
	return parseCPU(string(text))
}

func parseCPU(text string) (cpuTime, error) {
	first, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(first)
	// user nice system idle iowait irq softirq steal; guest times are in user's.
	const used = 8
	if len(fields) <= used || fields[0] != "cpu" {
		return cpuTime{}, fmt.Errorf("read processor time: /proc/stat begins with %q", first)
	}
	var t cpuTime
	for i, field := range fields[1 : used+1] {
		v, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return cpuTime{}, fmt.Errorf("read processor time: %w", err)
		}
		t.all += v
		if i == 3 || i == 4 {
			t.idle += v
		}
	}
	return t, nil
}

func (t cpuTime) busySince(before cpuTime) float64 {
	if t.all <= before.all || t.idle < before.idle {
		return 0
	}
	return 1 - float64(t.idle-before.idle)/float64(t.all-before.all)
}
