package main

import (
	"fmt"
	"time"
)

// What is claimed, in shares but for the latency.
const (
	leastBroken  = 0.50 // of fresh requests and of DNS are late
	leastFull    = 0.95 // uplink while services are broken
	mostFullPort = 0.80 // access port then: nobody sees it
	mostShaped   = 0.90 // uplink while the nodes are shaped
	leastCross   = 0.95 // of the payload that the classes allow
	leastSame    = 0.90
	mostSlowed   = 0.60 // of the shaped bulk, for the old remedy
	mostAdded    = 10 * time.Millisecond
)

func atLeast(what string, got, least float64) storyCheck {
	return storyCheck{what, percentOf(got), "at least " + percentOf(least), got >= least}
}

func atMost(what string, got, most float64) storyCheck {
	return storyCheck{what, percentOf(got), "at most " + percentOf(most), got <= most}
}

func percentOf(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// claimed judges what is said of the services.
func (p *storyPhase) claimed(*story) []storyCheck {
	var checks []storyCheck
	for i, kind := range storyKinds() {
		switch {
		case p.Claim == claimBroken && kind.MustBreak:
			checks = append(checks, p.Services[i].broken())
		case p.Claim == claimLive && kind.MustLive:
			checks = append(checks, p.Services[i].live())
		}
	}
	return checks
}

// broken claims that a service does not work, live that it does.
func (s storyService) broken() storyCheck { return atLeast("late "+s.Name, s.lateShare(), leastBroken) }

func (s storyService) live() storyCheck {
	return storyCheck{"late " + s.Name, fmt.Sprintf("%d of %d", s.Late, s.Requests), "none", s.Late == 0 && s.Requests > 0}
}

func checkNoPortFull(_ *story, p *storyPhase) []storyCheck {
	return append(checkUplinkFull(nil, p), atMost("fullest access port", p.fullestPort(), mostFullPort))
}

func checkUplinkFull(_ *story, p *storyPhase) []storyCheck {
	return []storyCheck{atLeast("busiest uplink", p.busiestUplink(), leastFull)}
}

// checkShaped compares with the old remedy as well.
func checkShaped(s *story, p *storyPhase) []storyCheck {
	checks := checkCarried(s, p)
	if slowed := s.phase("ports slowed"); slowed != nil && p.cross() > 0 {
		checks = append(checks, atMost("bulk across with slowed ports, of that shaped", slowed.cross()/p.cross(), mostSlowed))
	}
	return checks
}

// checkCarried sees that bulk runs at its rates, and that services do not feel it.
func checkCarried(s *story, p *storyPhase) []storyCheck {
	checks := []storyCheck{atMost("busiest uplink", p.busiestUplink(), mostShaped)}
	for _, c := range p.Cabinets {
		checks = append(checks, atLeast("bulk across from "+c.Name+", of what its classes allow", c.Cross/c.CrossLimit, leastCross),
			atLeast("bulk within "+c.Name+", of what its class allows", c.Same/c.SameLimit, leastSame))
	}
	if added, ok := s.added(p); ok {
		checks = append(checks, storyCheck{"99th percentile of latency, added by the copy", fmt.Sprintf("%.1f ms", 1000*added),
			fmt.Sprintf("at most %d ms", mostAdded.Milliseconds()), added <= mostAdded.Seconds()})
	}
	return checks
}

// added is by how much the copy raised the 99th percentile of the service that it hit worst, in seconds.
func (s *story) added(p *storyPhase) (float64, bool) {
	quiet := s.phase("quiet")
	if quiet == nil {
		return 0, false
	}
	worst := 0.0
	for i, kind := range storyKinds() {
		if kind.MustLive {
			worst = max(worst, p.Services[i].P99-quiet.Services[i].P99)
		}
	}
	return worst, true
}

// phase finds one that was measured.
func (s *story) phase(name string) *storyPhase {
	for i := range s.report.Phases {
		if s.report.Phases[i].Name == name {
			return &s.report.Phases[i]
		}
	}
	return nil
}
