package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"bulkshaper/cmd/bulkshaper/drawing"
	"bulkshaper/shaper/kernel/lab/traffic"
)

// storySeries is what the picture shows over time, a point a slot.
type storySeries struct {
	// Latency is the 99th percentile by service that has to be live, in seconds. A request that was not answered has Patience.
	Latency map[string][]drawing.Point
	// Bulk is in bits of payload per second.
	Bulk map[string][]drawing.Point
	// Full are shares of a rate.
	Full map[string][]drawing.Point
}

// slot is the time that a point of the picture stands for.
const slot = 500 * time.Millisecond

const (
	seriesWithin = "within cabinets"
	seriesUplink = "busiest uplink"
	seriesPort   = "fullest access port of a bulk node"
)

func seriesAcross(from, to string) string { return from + " to " + to }

// series sorts all that was measured into slots.
func (s *story) series() storySeries {
	out := storySeries{Latency: map[string][]drawing.Point{}, Bulk: map[string][]drawing.Point{}, Full: map[string][]drawing.Point{}}
	kinds := storyKinds()
	slots := map[int]map[int64][]time.Duration{}
	for _, r := range s.requests.All() {
		kind := kindOf(r.Service)
		if !kinds[kind].MustLive {
			continue
		}
		if slots[kind] == nil {
			slots[kind] = map[int64][]time.Duration{}
		}
		latency := r.Latency
		if !r.Answered {
			latency = traffic.Patience
		}
		i := int64((r.Due - s.began) / slot)
		slots[kind][i] = append(slots[kind][i], latency)
	}
	middle := func(i int64) float64 { return (float64(i) + 0.5) * slot.Seconds() }
	for kind, bySlot := range slots {
		for i, latencies := range bySlot {
			out.Latency[kinds[kind].Name] = append(out.Latency[kinds[kind].Name], drawing.Point{X: middle(i), Y: percentile(latencies, 99).Seconds()})
		}
	}
	for _, points := range out.Latency {
		slices.SortFunc(points, func(a, b drawing.Point) int { return cmp.Compare(a.X, b.X) })
	}
	s.bulkSeries(out.Bulk)
	s.fullSeries(out.Full)
	return out
}

func (s *story) bulkSeries(out map[string][]drawing.Point) {
	sums := func(sample traffic.Sample) map[string]float64 {
		sum := map[string]float64{}
		for _, p := range sample.Pairs {
			from, to := storyServerOf(p.From).cabinet, storyServerOf(p.To).cabinet
			if from == to {
				sum[seriesWithin] += float64(p.Received) * 8
			} else {
				sum[seriesAcross(from, to)] += float64(p.Received) * 8
			}
		}
		return sum
	}
	var last traffic.Sample
	var before map[string]float64
	for _, sample := range s.bulk.Samples() {
		if before != nil && sample.At-last.At < slot {
			continue
		}
		now := sums(sample)
		if before != nil {
			for name, bits := range now {
				at := s.since((sample.At + last.At) / 2)
				out[name] = append(out[name], drawing.Point{X: at, Y: (bits - before[name]) / (sample.At - last.At).Seconds()})
			}
		}
		last, before = sample, now
	}
}

func (s *story) fullSeries(out map[string][]drawing.Point) {
	readings := s.meter.all()
	for i := 0; i < len(readings); {
		j := i + 1
		for j < len(readings) && readings[j].at-readings[i].at < slot {
			j++
		}
		if j == len(readings) {
			return
		}
		first, last := readings[i], readings[j]
		seconds := (last.at - first.at).Seconds()
		uplink, port := 0.0, 0.0
		for name, now := range last.Uplinks {
			before := first.Uplinks[name]
			uplink = max(uplink, float64(max(now.Up-before.Up, now.Down-before.Down))*8/seconds/float64(storyUplink))
		}
		for name, now := range last.Ports {
			if storyServerOf(name).role == bulkRole {
				before := first.Ports[name]
				port = max(port, float64(max(now.Up-before.Up, now.Down-before.Down))*8/seconds/last.portRate)
			}
		}
		at := s.since((first.at + last.at) / 2)
		// A port's rate is set in one moment and read in another.
		out[seriesUplink] = append(out[seriesUplink], drawing.Point{X: at, Y: min(1, uplink)})
		out[seriesPort] = append(out[seriesPort], drawing.Point{X: at, Y: min(1, port)})
		i = j
	}
}

// picture draws the story.
func (r *storyReport) picture(series storySeries) *drawing.Drawing {
	const width, left, right, bottom = 1280, 70, 20, 880
	c := &drawing.Chart{Drawing: drawing.New(width, bottom+32), Left: left, Right: width - right, End: 1}
	for _, p := range r.Phases {
		c.End = max(c.End, p.End)
	}
	c.Text(drawing.Point{X: left, Y: 34}, drawing.Font{Size: 21, Bold: true, Color: drawing.RGB(drawing.Ink, 1), Anchor: drawing.Start},
		"A bulk copy breaks the services although no port is full; one daemon a node keeps both going")
	c.Text(drawing.Point{X: left, Y: 58}, drawing.Font{Size: 13, Color: drawing.RGB(drawing.Grey, 1), Anchor: drawing.Start}, r.caption())
	for i, p := range r.Phases {
		p.mark(c, i, 74, bottom)
	}
	line := func(of map[string][]drawing.Point, name string, color uint32) drawing.Series {
		return drawing.Series{Name: name, Color: color, Points: of[name]}
	}

	c.Panel("Latency of the services, 99th percentile of each half second; dashed: the deadline of an RPC", 152, 200,
		drawing.Log(0.005, traffic.Patience.Seconds()), []drawing.Tick{{Value: 0.01, Name: "10 ms"}, {Value: 0.1, Name: "100 ms"}, {Value: 1, Name: "1 s"},
			{Value: traffic.Patience.Seconds(), Name: "2 s", Note: "no answer"}})
	c.Mark(0, c.End, storyKinds()[0].Deadline.Seconds())
	c.Lines(line(series.Latency, "DNS", drawing.Green), line(series.Latency, "RPC, kept", drawing.Orange), line(series.Latency, "RPC, fresh", drawing.Blue))

	var ticks []drawing.Tick
	for v := 0; v <= 100; v += 25 {
		ticks = append(ticks, drawing.Tick{Value: float64(v) * 1e6, Name: fmt.Sprintf("%d Mbit/s", v)})
	}
	c.Panel("Goodput of the bulk copies; dashed: the payload that fits into what the classes allow", 412, 190, drawing.Linear(0, 110e6), ticks)
	for _, p := range r.Phases {
		limit := 0.0
		for _, cabinet := range p.Cabinets {
			limit = max(limit, cabinet.CrossLimit)
		}
		if p.Claim == claimLive && limit > 0 {
			c.Mark(p.Begin, p.End, limit)
		}
	}
	c.Lines(line(series.Bulk, seriesWithin, drawing.Purple), line(series.Bulk, seriesAcross("b13", "b12"), drawing.Orange),
		line(series.Bulk, seriesAcross("b12", "b13"), drawing.Blue))

	c.Panel("How full the network is", 662, 190, drawing.Linear(0, 1.05), []drawing.Tick{{Name: "0"}, {Value: 0.5, Name: "50 %"}, {Value: 1, Name: "100 %"}})
	c.Lines(line(series.Full, seriesPort, drawing.Purple), line(series.Full, seriesUplink, drawing.Red))
	c.Seconds(bottom)
	return c.Drawing
}

// caption says what the figures were measured on.
func (r *storyReport) caption() string {
	control := ""
	if r.Congestion != "" {
		control = ", " + r.Congestion
	}
	text := fmt.Sprintf("Two cabinets with uplinks of %s and bulk nodes of %s, in network namespaces on %d processors, Linux %s%s",
		storyUplink, storyLink, r.Machine.Processors, r.Machine.Kernel, control)
	if r.Verdict != verdictPassed {
		text += "; " + strings.ToUpper(r.Verdict)
	}
	return text
}

// mark marks the phase, the i-th, behind all panels.
func (p *storyPhase) mark(c *drawing.Chart, i int, top, bottom float64) {
	from, to := c.X(p.Begin), c.X(p.End)
	color, state := uint32(drawing.Green), "services live"
	if p.Claim == claimBroken {
		color, state = drawing.Red, "services broken"
	}
	switch {
	case !p.Measurable:
		color, state = drawing.Grey, "not measurable"
	case !p.good():
		color, state = drawing.Grey, "not as claimed"
	}
	c.Rect(from, top, to-from, bottom-top, drawing.RGB(color, 0.09))
	c.Rect(from, top, to-from, 5, drawing.RGB(color, 1))
	if i > 0 {
		c.Line(drawing.Stroke{Color: drawing.RGB(0xffffff, 1), Width: 2}, drawing.Point{X: from, Y: top}, drawing.Point{X: from, Y: bottom})
	}
	font := drawing.Font{Size: 13, Bold: true, Color: drawing.RGB(drawing.Ink, 1), Anchor: drawing.Middle}
	c.Text(drawing.Point{X: (from + to) / 2, Y: top + 23}, font, fmt.Sprintf("%d. %s", i+1, p.Name))
	font.Bold, font.Size, font.Color = false, 12, drawing.RGB(color, 1)
	c.Text(drawing.Point{X: (from + to) / 2, Y: top + 40}, font, state)
}
