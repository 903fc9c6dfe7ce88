package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"bulkshaper/shaper/kernel/lab/traffic"
)

// storyAsClaimed is a report with nothing wrong.
func storyAsClaimed() *story {
	s := &story{}
	for _, step := range storyPhases() {
		p := storyPhase{Name: step.name, Claim: step.claim, Measurable: true, Tries: 1}
		for _, kind := range storyKinds() {
			service := storyService{Name: kind.Name, DeadlineSeconds: kind.Deadline.Seconds(), Requests: 500, Median: 0.011, P99: 0.012, Max: 0.02}
			if step.claim == claimBroken {
				service.Late, service.P99 = 400, 2
			}
			p.Services = append(p.Services, service)
		}
		full, cross := 0.85, 76e6
		switch {
		case step.claim == claimBroken:
			full, cross = 1, 93e6
		case step.name == "ports slowed":
			full, cross = 0.4, 36e6
		case step.name == "quiet":
			full, cross = 0.01, 0
		}
		for _, name := range []string{"b12", "b13"} {
			p.Cabinets = append(p.Cabinets, storyCabinet{Name: name, Cross: cross, CrossLimit: 76.5e6, Same: 23.8e6, SameLimit: 23.9e6, Uplink: full, Downlink: full})
		}
		p.Ports = []storyPort{{"hadoop01", 0.6}}
		s.report.Phases = append(s.report.Phases, p)
	}
	return s
}

// judge fills in what is claimed, as the story does after measuring.
func (s *story) judge() error {
	for i, step := range storyPhases()[:len(s.report.Phases)] {
		p := &s.report.Phases[i]
		p.Checks = p.claimed(s)
		if step.checks != nil {
			p.Checks = append(p.Checks, step.checks(s, p)...)
		}
	}
	return s.report.verdict()
}

func TestStoryJudge(t *testing.T) {
	const quiet, copying, slowed, shaped, fixed, shares, edited = 0, 1, 2, 3, 4, 5, 6
	phase := func(i int, change func(*storyPhase)) func(*story) {
		return func(s *story) { change(&s.report.Phases[i]) }
	}
	for name, c := range map[string]struct {
		change func(*story)
		want   string // "" for nothing wrong
	}{
		"as claimed":           {func(*story) {}, ""},
		"just enough broken":   {phase(copying, func(p *storyPhase) { p.Services[0].Late, p.Services[2].Late = 250, 250 }), ""},
		"fresh RPC not broken": {phase(copying, func(p *storyPhase) { p.Services[0].Late = 249 }), "copy: late RPC, fresh: 49.8 %, claimed at least 50.0 %"},
		"DNS not broken":       {phase(fixed, func(p *storyPhase) { p.Services[2].Late = 0 }), "doubled, fixed rates: late DNS: 0.0 %"},
		"kept RPC not broken":  {phase(copying, func(p *storyPhase) { p.Services[1].Late = 0 }), ""},
		"uplink not full": {phase(copying, func(p *storyPhase) {
			p.Cabinets[0].Uplink, p.Cabinets[0].Downlink = 0.94, 0.94
			p.Cabinets[1] = p.Cabinets[0]
		}), "copy: busiest uplink: 94.0 %"},
		"one uplink full, one direction": {phase(fixed, func(p *storyPhase) { p.Cabinets[0].Uplink, p.Cabinets[1].Uplink, p.Cabinets[1].Downlink = 0, 0, 0 }), ""},
		"a port looks full":              {phase(copying, func(p *storyPhase) { p.Ports[0].Full = 0.81 }), "copy: fullest access port: 81.0 %, claimed at most 80.0 %"},
		"one request late, quiet":        {phase(quiet, func(p *storyPhase) { p.Services[2].Late = 1 }), "quiet: late DNS: 1 of 500, claimed none"},
		"one request late, shaped":       {phase(shaped, func(p *storyPhase) { p.Services[1].Late = 1 }), "shaped: late RPC, kept: 1 of 500, claimed none"},
		"one request late, slowed":       {phase(slowed, func(p *storyPhase) { p.Services[0].Late = 1 }), "ports slowed: late RPC, fresh: 1 of 500"},
		"a database reply late":          {phase(shaped, func(p *storyPhase) { p.Services[3].Late = 1 }), ""},
		"no requests at all":             {phase(edited, func(p *storyPhase) { p.Services[0].Requests = 0 }), "inventory edited: late RPC, fresh: 0 of 0"},
		"added latency":                  {phase(shares, func(p *storyPhase) { p.Services[2].P99 = 0.0221 }), "doubled, shares: 99th percentile of latency, added by the copy: 10.1 ms"},
		"added to a slower quiet": {func(s *story) {
			s.report.Phases[quiet].Services[2].P99, s.report.Phases[shares].Services[2].P99 = 0.02, 0.029
		}, ""},
		"uplink too full though shaped": {phase(shaped, func(p *storyPhase) { p.Cabinets[1].Downlink = 0.91 }), "shaped: busiest uplink: 91.0 %, claimed at most 90.0 %"},
		"one cabinet starves":           {phase(shares, func(p *storyPhase) { p.Cabinets[1].Cross = 72e6 }), "doubled, shares: bulk across from b13, of what its classes allow: 94.1 %"},
		"the copy within starves":       {phase(edited, func(p *storyPhase) { p.Cabinets[0].Same = 21e6 }), "inventory edited: bulk within b12"},
		"old remedy as good as shaping": {phase(slowed, func(p *storyPhase) { p.Cabinets[0].Cross = 60e6 }), "shaped: bulk across with slowed ports, of that shaped: 63.2 %"},
		"nothing was shaped":            {phase(shaped, func(p *storyPhase) { p.Cabinets[0].Cross, p.Cabinets[0].CrossLimit = 0, 0 }), "shaped: bulk across from b12"},
		"not measurable":                {func(s *story) { s.report.Phases = s.report.Phases[:2]; s.report.Phases[1].Measurable = false }, "not measurable here: copy: the machine was too busy"},
		"not measurable, and wrong before": {func(s *story) {
			s.report.Phases = s.report.Phases[:2]
			s.report.Phases[1].Measurable = false
			s.report.Phases[0].Services[0].Late = 3
		}, "not as claimed"},
		"ended early": {func(s *story) { s.report.Phases = s.report.Phases[:3] }, "not measurable"},
	} {
		s := storyAsClaimed()
		c.change(s)
		err := s.judge()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		verdict := verdictPassed
		switch {
		case strings.Contains(c.want, "not measurable"):
			verdict = verdictNotMeasurable
		case c.want != "":
			verdict = verdictFailed
		}
		if s.report.Verdict != verdict {
			t.Errorf("%s: verdict %q, want %q", name, s.report.Verdict, verdict)
		}
	}
}

// TestStoryMeasurable: a busy machine makes results worthless, but a good one that it can only have made worse; one stall only a wrong
// one, since it can make a few requests late.
func TestStoryMeasurable(t *testing.T) {
	for _, c := range []struct {
		busy, lag, stall       float64
		good, hurtByLoad, want bool
	}{
		{0.5, 0.001, 0.001, true, false, true}, {0.5, 0.001, 0.001, false, false, true},
		{0.91, 0.001, 0.001, true, false, false}, {0.5, 0.0041, 0.001, true, false, false},
		{0.9, 0.004, 0.008, false, false, true}, {0.5, 0.001, 0.0081, false, false, false}, {0.5, 0.001, 0.0081, true, false, true},
		{0.99, 0.05, 0.1, true, true, true}, {0.99, 0.001, 0.001, false, true, false}, {0.5, 0.001, 0.001, false, true, true},
	} {
		l := storyLoad{demoLoad{c.busy, c.lag}, c.stall}
		if got := l.measurable(c.good, c.hurtByLoad); got != c.want {
			t.Errorf("%s, good %v, hurt by load %v: %v", l, c.good, c.hurtByLoad, got)
		}
	}
}

func TestCountServices(t *testing.T) {
	ms := time.Millisecond
	services := countServices(storyKinds(), kindOf, []traffic.Request{
		{Service: 0, Latency: 99 * ms, Answered: true}, {Service: 4, Latency: 101 * ms, Answered: true}, // fresh RPC, both ways
		{Service: 2, Latency: 51 * ms, Answered: true}, {Service: 6, Latency: traffic.Patience}, // DNS
		{Service: 1, Latency: 2 * ms},                 // kept RPC, refused: that is no fast answer
		{Service: 8, Latency: 5 * ms, Answered: true}, // the bulk node's
	})
	for i, want := range []storyService{{Requests: 2, Late: 1, Max: 0.101}, {Requests: 1, Late: 1, Lost: 1, Max: 2}, {Requests: 2, Late: 2, Lost: 1, Max: 2}, {}, {Requests: 1, Max: 0.005}} {
		if got := services[i]; got.Requests != want.Requests || got.Late != want.Late || got.Lost != want.Lost || got.Max != want.Max {
			t.Errorf("%s: %+v, want %+v", got.Name, got, want)
		}
	}
}

func TestPercentile(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i))
	}
	for percent, want := range map[int]time.Duration{1: 1, 50: 50, 99: 99, 100: 100} {
		if got := percentile(hundred, percent); got != want {
			t.Errorf("%d %%: %d, want %d", percent, got, want)
		}
	}
	if got := percentile(hundred[:1], 99); got != 100 {
		t.Errorf("of one: %d", got)
	}
	if got := percentile(nil, 99); got != 0 {
		t.Errorf("of none: %d", got)
	}
}

// TestStoryCluster: the cluster is the story's, whatever numbers it is made of: no port is full when all copy, each uplink is, and four
// nodes in their classes fill what may be used of it.
func TestStoryCluster(t *testing.T) {
	s := &story{}
	joining := 0
	for _, server := range storyServers() {
		if server.role == bulkRole && server.joins == 0 {
			s.inUse = append(s.inUse, server.name)
		}
		joining += server.joins
	}
	if len(s.inUse) != 8 || s.nodesIn("b12") != 4 || joining != 4 {
		t.Errorf("%v in use, %d join", s.inUse, joining)
	}
	if need := 4 * storyLink; need <= storyUplink {
		t.Errorf("a cabinet's nodes send %s, which fits into the uplink", need)
	}
	if port := (storyDisk + 4*storyMapper) / payloadShare / float64(storyLink); port > mostFullPort-0.1 {
		t.Errorf("a port may be %.0f %% full without shaping", 100*port)
	}
	if offered := 4 * 4 * storyMapper / payloadShare; offered < 1.3*float64(storyUplink) {
		t.Errorf("a cabinet is offered %.0f bit/s, which hardly fills its uplink", offered)
	}
	if least := float64(storyLink) * storyCross / 100 / 4; storyMapper < 1.3*least {
		t.Errorf("the copies are read hardly faster than their classes allow")
	}
	if within := float64(storyLink) * storySame / 100 * payloadShare; storyDisk < within {
		t.Errorf("the copy within a cabinet is read with less than its class allows")
	}
	if got := s.sharedRate("hadoop01"); got != (storyLink * storyCross / 100).WholeBytes() {
		t.Errorf("four nodes share %s each, and have %d %% of the link fixed", got, storyCross)
	}
	if err := errors.Join(storyTopologyError()); err != nil {
		t.Error(err)
	}
	pairs := map[traffic.Pair]int{}
	for _, c := range s.copies() {
		pairs[c.Pair] += c.Flows
	}
	if len(pairs) != 2*4*4+2 || slices.Contains(s.inUse, "app01") {
		t.Errorf("%d pairs copy", len(pairs))
	}
}

// storyTopologyError finds servers of the story that its topology lacks.
func storyTopologyError() error {
	names := map[string]bool{}
	for _, c := range storyTopology("").Cabinets {
		for _, s := range c.Servers {
			names[s.Name] = true
		}
	}
	for _, s := range storyServers() {
		if !names[s.name] {
			return errors.New("the topology lacks " + s.name)
		}
	}
	return nil
}
