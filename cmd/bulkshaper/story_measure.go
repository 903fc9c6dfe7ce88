package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"bulkshaper/shaper/kernel/lab"
	"bulkshaper/shaper/kernel/lab/traffic"
)

// storyMeter reads the wires, for the picture all the time.
type storyMeter struct {
	meter *lab.Meter
	done  chan struct{}
	ended chan struct{}

	mu       sync.Mutex
	portRate float64
	readings []wireReading
	err      error
}

type wireReading struct {
	at       time.Duration
	portRate float64 // of the bulk nodes then, bits per second
	lab.Reading
}

const meterEvery = 250 * time.Millisecond

func startMeter(c *lab.Cluster, portRate float64) (*storyMeter, error) {
	meter, err := c.Meter()
	if err != nil {
		return nil, err
	}
	m := &storyMeter{meter: meter, portRate: portRate, done: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(m.ended)
		tick := time.NewTicker(meterEvery)
		defer tick.Stop()
		for {
			if _, err := m.read(); err != nil {
				return
			}
			select {
			case <-m.done:
				return
			case <-tick.C:
			}
		}
	}()
	return m, nil
}

// read reads now. An error is that of any reading since the start.
func (m *storyMeter) read() (wireReading, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return wireReading{}, m.err
	}
	reading, err := m.meter.Read()
	if m.err = err; err != nil {
		return wireReading{}, err
	}
	r := wireReading{traffic.Now(), m.portRate, reading}
	m.readings = append(m.readings, r)
	return r, nil
}

func (m *storyMeter) all() []wireReading {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.readings[:len(m.readings):len(m.readings)]
}

// setPorts tells of another rate of the bulk nodes' ports.
func (m *storyMeter) setPorts(rate float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.portRate = rate
}

func (m *storyMeter) close() {
	close(m.done)
	<-m.ended
	m.meter.Close()
}

// measure measures a phase, anew where the machine was too busy for it to mean anything.
func (s *story) measure(ctx context.Context, step storyStep, p *storyPhase) error {
	for p.Tries = 1; ; p.Tries++ {
		// Before a second try, too: what kept the processors busy may be over by then.
		if err := pause(ctx, s.options.times(p.Claim).settle); err != nil {
			return err
		}
		if err := s.measureOnce(ctx, p); err != nil {
			return err
		}
		p.Checks = p.claimed(s)
		if step.checks != nil {
			p.Checks = append(p.Checks, step.checks(s, p)...)
		}
		p.Measurable = p.Load.measurable(p.good(), step.hurtByLoad)
		if p.Measurable || p.Tries == measureTries {
			return nil
		}
		s.progress("the machine was too busy (%s), so it is measured again", p.Load)
	}
}

// measureOnce measures everything for a window.
func (s *story) measureOnce(ctx context.Context, p *storyPhase) error {
	busy, err := readCPU()
	if err != nil {
		return err
	}
	first, err := s.meter.read()
	if err != nil {
		return err
	}
	if err := pause(ctx, s.options.times(p.Claim).window); err != nil {
		return err
	}
	last, err := s.meter.read()
	if err != nil {
		return err
	}
	busyThen, err := readCPU()
	if err != nil {
		return err
	}
	from, to := first.at, last.at
	samples, err := s.bulk.Until(ctx, to)
	if err != nil {
		return fmt.Errorf("%w%s", err, fileTail(s.log.Name()))
	}
	requests, stalls, err := s.requests.Between(ctx, from, to)
	if err != nil {
		return fmt.Errorf("%w%s", err, fileTail(s.log.Name()))
	}
	p.MeasureFrom, p.MeasureTo = s.since(from), s.since(to)
	p.Load = loadOf(busyThen.busySince(busy), requests, stalls)
	p.Services = countServices(storyKinds(), kindOf, requests)
	p.Cabinets = s.countCabinets(samples, from, to, first, last)
	p.Ports = s.countPorts(first, last)
	return nil
}

// storyLoad says whether the machine kept up.
type storyLoad struct {
	demoLoad
	// StallSeconds is the longest time for which the requests' process was not run although it was to.
	StallSeconds float64 `json:"stall_seconds"`
}

// Beyond maxStoryLag, at the 99th percentile, requests are late by the machine and not by the network; a single stall of maxStall
// can do that to a few, which counts where there are only a few: with 11 ms, and what waited behind it, the 99th percentile of a short phase was
// 14 ms more than it should be, of 10 that are claimed.
const (
	maxStoryLag = 4 * time.Millisecond
	maxStall    = 8 * time.Millisecond
)

// measurable tells whether a result means anything; good says that it is as claimed. hurtByLoad says that load can only have made it
// worse: then a good one stands, whatever the load.
func (l storyLoad) measurable(good, hurtByLoad bool) bool {
	return good && hurtByLoad || l.Busy <= maxBusy && l.LagSeconds <= maxStoryLag.Seconds() && (good || l.StallSeconds <= maxStall.Seconds())
}

func (l storyLoad) String() string {
	return fmt.Sprintf("processors %.0f %% busy, requests sent %.1f ms late, longest stall %.0f ms", 100*l.Busy, 1000*l.LagSeconds, 1000*l.StallSeconds)
}

func loadOf(busy float64, requests []traffic.Request, stalls []traffic.Stall) storyLoad {
	l := storyLoad{demoLoad: demoLoad{Busy: busy}}
	var late []time.Duration
	for _, r := range requests {
		late = append(late, r.Late)
	}
	l.LagSeconds = percentile(late, 99).Seconds()
	for _, s := range stalls {
		l.StallSeconds = max(l.StallSeconds, s.Length.Seconds())
	}
	return l
}

// percentile is the least value that so many percent are not over; 0 of none.
func percentile(values []time.Duration, percent int) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)*percent+99)/100-1]
}

// countServices sums up the requests by kind, which kindOf finds for a service's index.
func countServices(kinds []storyServiceKind, kindOf func(service int) int, requests []traffic.Request) []storyService {
	services := make([]storyService, len(kinds))
	latencies := make([][]time.Duration, len(kinds))
	for i, k := range kinds {
		services[i].Name, services[i].DeadlineSeconds = k.Name, k.Deadline.Seconds()
	}
	for _, r := range requests {
		i := kindOf(r.Service)
		services[i].Requests++
		latency := r.Latency
		if !r.Answered {
			services[i].Lost++
			latency = max(latency, traffic.Patience) // a refused connection is no fast answer
		}
		if latency > kinds[i].Deadline {
			services[i].Late++
		}
		latencies[i] = append(latencies[i], latency)
	}
	for i := range services {
		services[i].Median, services[i].P99 = percentile(latencies[i], 50).Seconds(), percentile(latencies[i], 99).Seconds()
		services[i].Max = percentile(latencies[i], 100).Seconds()
	}
	return services
}

// countCabinets sums up what each cabinet's nodes sent, and what its uplink carried.
func (s *story) countCabinets(samples []traffic.Sample, from, to time.Duration, first, last wireReading) []storyCabinet {
	var cabinets []storyCabinet
	seconds := (last.at - first.at).Seconds()
	for _, name := range []string{"b12", "b13"} {
		c := storyCabinet{Name: name}
		c.Cross = rateOf(samples, from, to, func(p traffic.Pair) bool {
			return storyServerOf(p.From).cabinet == name && storyServerOf(p.To).cabinet != name
		})
		c.Same = rateOf(samples, from, to, func(p traffic.Pair) bool {
			return storyServerOf(p.From).cabinet == name && storyServerOf(p.To).cabinet == name
		})
		for node, rate := range s.wanted {
			if storyServerOf(node).cabinet == name {
				c.CrossLimit += rate * payloadShare
			}
		}
		if c.CrossLimit > 0 {
			c.SameLimit = float64(storyLink) * storySame / 100 * payloadShare
		}
		up, down := first.Uplinks[name], last.Uplinks[name]
		c.Uplink = float64(down.Up-up.Up) * 8 / seconds / float64(storyUplink)
		c.Downlink = float64(down.Down-up.Down) * 8 / seconds / float64(storyUplink)
		c.Nodes = s.nodesIn(name)
		c.RTT, c.Again = roundTrips(samples, from, to, name)
		cabinets = append(cabinets, c)
	}
	return cabinets
}

func (s *story) nodesIn(cabinet string) (n int) {
	for _, name := range s.inUse {
		if storyServerOf(name).cabinet == cabinet {
			n++
		}
	}
	return n
}

// rateOf is what the pairs' receivers took, in bits of payload per second.
func rateOf(samples []traffic.Sample, from, to time.Duration, counts func(traffic.Pair) bool) float64 {
	var l line
	for _, sample := range samples {
		if sample.At < from || sample.At > to {
			continue
		}
		sum := uint64(0)
		for _, p := range sample.Pairs {
			if counts(p.Pair) {
				sum += p.Received
			}
		}
		l.add((sample.At - from).Seconds(), float64(sum)*8)
	}
	return l.slope()
}

// roundTrips is the median over time of the slowest connection's round trip, and the share of segments that were sent again, of the
// copies from a cabinet to another.
func roundTrips(samples []traffic.Sample, from, to time.Duration, cabinet string) (rtt, again float64) {
	var trips []time.Duration
	var first, last [2]uint64
	for _, sample := range samples {
		if sample.At < from || sample.At > to {
			continue
		}
		slowest := time.Duration(0)
		var sum [2]uint64
		for _, p := range sample.Pairs {
			if storyServerOf(p.From).cabinet == cabinet && storyServerOf(p.To).cabinet != cabinet {
				slowest = max(slowest, p.RTT)
				sum[0], sum[1] = sum[0]+p.Sent, sum[1]+p.Again
			}
		}
		if len(trips) == 0 {
			first = sum
		}
		trips, last = append(trips, slowest), sum
	}
	if sent := float64(last[0]) - float64(first[0]); sent > 0 {
		again = (float64(last[1]) - float64(first[1])) / sent
	}
	return percentile(trips, 50).Seconds(), again
}

// countPorts is how full the port of each bulk node was, in its fuller direction.
func (s *story) countPorts(first, last wireReading) []storyPort {
	var ports []storyPort
	seconds := (last.at - first.at).Seconds()
	for _, name := range s.inUse {
		a, b := first.Ports[name], last.Ports[name]
		full := float64(max(b.Up-a.Up, b.Down-a.Down)) * 8 / seconds / last.portRate
		ports = append(ports, storyPort{name, full})
	}
	return ports
}
