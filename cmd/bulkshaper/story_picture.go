package main

import (
	"cmp"
	"fmt"
	"math"
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

// Colours that also those tell apart who do not see them all (Okabe and Ito's set).
const (
	blue    = 0x0072b2
	orange  = 0xe69f00
	green   = 0x009e73
	red     = 0xd55e00
	purple  = 0xb0508f
	ink     = 0x222222
	grey    = 0x777777
	faint   = 0xdddddd
	opacity = 0.95
)

// picture draws the story.
func (r *storyReport) picture(series storySeries) *drawing.Drawing {
	const width, left, right = 1280, 70, 20
	c := chart{d: drawing.New(width, 912), left: left, right: width - right, end: 1}
	for _, p := range r.Phases {
		c.end = max(c.end, p.End)
	}
	c.d.Text(drawing.Point{X: left, Y: 34}, drawing.Font{Size: 21, Bold: true, Color: drawing.RGB(ink, 1), Anchor: drawing.Start},
		"A bulk copy breaks the services although no port is full; one daemon a node keeps both going")
	c.d.Text(drawing.Point{X: left, Y: 58}, drawing.Font{Size: 13, Color: drawing.RGB(grey, 1), Anchor: drawing.Start}, r.caption())
	c.phases(r.Phases, 74, 880)

	c.panel("Latency of the services, 99th percentile of each half second; dashed: the deadline of an RPC", 152, 200, logScale{0.005, traffic.Patience.Seconds()},
		[]tick{{0.01, "10 ms"}, {0.1, "100 ms"}, {1, "1 s"}, {2, "2 s: no answer"}})
	c.dashed(0, c.end, storyKinds()[0].Deadline.Seconds())
	c.lines(series.Latency, []curve{{"DNS", green}, {"RPC, kept", orange}, {"RPC, fresh", blue}})

	var bulk []tick
	for v := 0; v <= 100; v += 25 {
		bulk = append(bulk, tick{float64(v) * 1e6, fmt.Sprintf("%d Mbit/s", v)})
	}
	c.panel("Goodput of the bulk copies; dashed: the payload that fits into what the classes allow", 412, 190, linearScale{0, 110e6}, bulk)
	for _, p := range r.Phases {
		limit := 0.0
		for _, cabinet := range p.Cabinets {
			limit = max(limit, cabinet.CrossLimit)
		}
		if p.Claim == claimLive && limit > 0 {
			c.dashed(p.Begin, p.End, limit)
		}
	}
	c.lines(series.Bulk, []curve{{seriesWithin, purple}, {seriesAcross("b13", "b12"), orange}, {seriesAcross("b12", "b13"), blue}})

	c.panel("How full the network is", 662, 190, linearScale{0, 1.05}, []tick{{0, "0"}, {0.5, "50 %"}, {1, "100 %"}})
	c.lines(series.Full, []curve{{seriesPort, purple}, {seriesUplink, red}})
	c.seconds(880)
	return c.d
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

// chart lays panels above each other, with time from left to right.
type chart struct {
	d           *drawing.Drawing
	left, right float64
	end         float64 // seconds

	top, height float64 // of the panel
	scale       scale
}

type (
	tick struct {
		value float64
		name  string
	}
	curve struct {
		name  string
		color uint32
	}
	// scale gives the height of a value, from 0 to 1.
	scale       interface{ at(v float64) float64 }
	linearScale struct{ from, to float64 }
	logScale    struct{ from, to float64 }
)

func (s linearScale) at(v float64) float64 { return clip((v - s.from) / (s.to - s.from)) }

func (s logScale) at(v float64) float64 {
	return clip(math.Log(max(v, s.from)/s.from) / math.Log(s.to/s.from))
}

func clip(v float64) float64 { return max(0, min(1, v)) }

func (c *chart) x(seconds float64) float64 { return c.left + (c.right-c.left)*seconds/c.end }

func (c *chart) y(v float64) float64 { return c.top + c.height*(1-c.scale.at(v)) }

// phases marks them over all panels.
func (c *chart) phases(phases []storyPhase, top, bottom float64) {
	for i, p := range phases {
		from, to := c.x(p.Begin), c.x(p.End)
		color, state := uint32(green), "services live"
		if p.Claim == claimBroken {
			color, state = red, "services broken"
		}
		switch {
		case !p.Measurable:
			color, state = grey, "not measurable"
		case !p.good():
			color, state = grey, "not as claimed"
		}
		c.d.Rect(from, top, to-from, bottom-top, drawing.RGB(color, 0.09))
		c.d.Rect(from, top, to-from, 5, drawing.RGB(color, 1))
		if i > 0 {
			c.d.Line(drawing.Stroke{Color: drawing.RGB(0xffffff, 1), Width: 2}, drawing.Point{X: from, Y: top}, drawing.Point{X: from, Y: bottom})
		}
		middle := (from + to) / 2
		c.d.Text(drawing.Point{X: middle, Y: top + 23}, drawing.Font{Size: 13, Bold: true, Color: drawing.RGB(ink, 1), Anchor: drawing.Middle}, fmt.Sprintf("%d. %s", i+1, p.Name))
		c.d.Text(drawing.Point{X: middle, Y: top + 40}, drawing.Font{Size: 12, Color: drawing.RGB(color, 1), Anchor: drawing.Middle}, state)
	}
}

// panel begins one.
func (c *chart) panel(title string, top, height float64, s scale, ticks []tick) {
	c.top, c.height, c.scale = top, height, s
	c.d.Text(drawing.Point{X: c.left, Y: top - 9}, drawing.Font{Size: 13, Bold: true, Color: drawing.RGB(ink, 1), Anchor: drawing.Start}, title)
	for _, t := range ticks {
		y := c.y(t.value)
		c.d.Line(drawing.Stroke{Color: drawing.RGB(0x999999, 0.45), Width: 1}, drawing.Point{X: c.left, Y: y}, drawing.Point{X: c.right, Y: y})
		name, unit, _ := strings.Cut(t.name, ": ")
		c.d.Text(drawing.Point{X: c.left - 6, Y: y + 4}, drawing.Font{Size: 11, Color: drawing.RGB(grey, 1), Anchor: drawing.End}, name)
		c.d.Text(drawing.Point{X: c.left + 4, Y: y + 13}, drawing.Font{Size: 11, Color: drawing.RGB(grey, 1), Anchor: drawing.Start}, unit)
	}
}

// lines draws series, and names them at the right end of the panel's title.
func (c *chart) lines(series map[string][]drawing.Point, names []curve) {
	x := c.right
	for _, n := range names {
		points := make([]drawing.Point, 0, len(series[n.name]))
		for _, p := range series[n.name] {
			if p.X <= c.end {
				points = append(points, drawing.Point{X: c.x(p.X), Y: c.y(p.Y)})
			}
		}
		c.d.Line(drawing.Stroke{Color: drawing.RGB(n.color, opacity), Width: 2}, points...)
		x -= 7*float64(len(n.name)) + 44
		c.d.Line(drawing.Stroke{Color: drawing.RGB(n.color, opacity), Width: 3}, drawing.Point{X: x + 14, Y: c.top - 13}, drawing.Point{X: x + 36, Y: c.top - 13})
		c.d.Text(drawing.Point{X: x + 42, Y: c.top - 9}, drawing.Font{Size: 12, Color: drawing.RGB(ink, 1), Anchor: drawing.Start}, n.name)
	}
}

func (c *chart) dashed(from, to, v float64) {
	c.d.Line(drawing.Stroke{Color: drawing.RGB(ink, 0.8), Width: 1.2, Dash: 5}, drawing.Point{X: c.x(from), Y: c.y(v)}, drawing.Point{X: c.x(to), Y: c.y(v)})
}

// seconds writes the time below all panels.
func (c *chart) seconds(y float64) {
	font := drawing.Font{Size: 11, Color: drawing.RGB(grey, 1), Anchor: drawing.Middle}
	for v := 0.0; v <= c.end; v += 10 {
		name := fmt.Sprintf("%.0f", v)
		if v == 0 {
			name = "0 s"
		}
		c.d.Text(drawing.Point{X: c.x(v), Y: y + 16}, font, name)
	}
}
