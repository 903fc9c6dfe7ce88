package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
)

// storyReport is what the story measured, as JSON.
type storyReport struct {
	Machine    storyMachine `json:"machine"`
	Congestion string       `json:"congestion_control"`
	Verdict    string       `json:"verdict"` // one of the verdicts below
	Phases     []storyPhase `json:"phases"`
}

// The verdicts.
const (
	verdictPassed        = "passed"
	verdictFailed        = "failed"
	verdictNotMeasurable = "not measurable"
)

// storyMachine is what the figures were measured on.
type storyMachine struct {
	Processors int    `json:"processors"`
	Kernel     string `json:"kernel"`
}

func describeMachine() storyMachine {
	m := storyMachine{Processors: runtime.NumCPU()}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil { // it is for people only
		m.Kernel = strings.TrimSpace(string(text))
	}
	return m
}

// storyClaim is what is said of the services in a phase.
type storyClaim string

const (
	claimLive   storyClaim = "live"
	claimBroken storyClaim = "broken"
)

// storyPhase is a phase as it was measured. Times are seconds since the story began.
type storyPhase struct {
	Name  string     `json:"name"`
	What  string     `json:"what"`
	Claim storyClaim `json:"claim"`

	Begin       float64 `json:"begin"`
	MeasureFrom float64 `json:"measured_from"`
	MeasureTo   float64 `json:"measured_to"`
	End         float64 `json:"end"`
	// FollowSeconds is how long the daemons took for what the phase began with, from the first file to the last kernel.
	FollowSeconds float64 `json:"follow_seconds,omitempty"`

	Services   []storyService `json:"services"`
	Cabinets   []storyCabinet `json:"cabinets"`
	Ports      []storyPort    `json:"ports"`
	Load       storyLoad      `json:"machine"`
	Tries      int            `json:"tries"`
	Measurable bool           `json:"measurable"`
	Checks     []storyCheck   `json:"checks"`
}

// storyService is what became of a service's requests.
type storyService struct {
	Name            string  `json:"name"`
	DeadlineSeconds float64 `json:"deadline_seconds"`
	Requests        int     `json:"requests"`
	// Late missed the deadline, with those among them that were Lost: not answered at all.
	Late int `json:"late"`
	Lost int `json:"lost"`
	// Latencies in seconds.
	Median float64 `json:"median"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
}

func (s storyService) lateShare() float64 {
	if s.Requests == 0 {
		return 0
	}
	return float64(s.Late) / float64(s.Requests)
}

// storyCabinet is a cabinet's bulk, in bits of payload per second, and its uplink, as a share of its rate.
type storyCabinet struct {
	Name  string `json:"name"`
	Nodes int    `json:"nodes"`
	// Cross went to the other cabinet; CrossLimit is the payload that fits into what the classes allow, 0 without shaping.
	Cross      float64 `json:"cross_bits_per_second"`
	CrossLimit float64 `json:"cross_limit_bits_per_second"`
	Same       float64 `json:"same_bits_per_second"`
	SameLimit  float64 `json:"same_limit_bits_per_second"`
	Uplink     float64 `json:"uplink"`
	Downlink   float64 `json:"downlink"`
	// RTT is that of the slowest connection to the other cabinet, in seconds; Again the share of segments sent again.
	RTT   float64 `json:"rtt"`
	Again float64 `json:"sent_again"`
}

// storyPort is how full a bulk node's port was.
type storyPort struct {
	Node string  `json:"node"`
	Full float64 `json:"full"`
}

// storyCheck is a claim with what was measured of it.
type storyCheck struct {
	What string `json:"what"`
	Got  string `json:"got"`
	Want string `json:"want"`
	OK   bool   `json:"ok"`
}

func (p *storyPhase) good() bool {
	return !slices.ContainsFunc(p.Checks, func(c storyCheck) bool { return !c.OK })
}

// busiestUplink is that of any cabinet in any direction.
func (p *storyPhase) busiestUplink() (full float64) {
	for _, c := range p.Cabinets {
		full = max(full, c.Uplink, c.Downlink)
	}
	return full
}

func (p *storyPhase) fullestPort() (full float64) {
	for _, port := range p.Ports {
		full = max(full, port.Full)
	}
	return full
}

// cross is what all nodes sent to the other cabinet.
func (p *storyPhase) cross() (sum float64) {
	for _, c := range p.Cabinets {
		sum += c.Cross
	}
	return sum
}

// line is the phase in a line, for whoever waits.
func (p *storyPhase) line() string {
	var late []string
	for _, s := range p.Services {
		late = append(late, fmt.Sprintf("%s %.0f %%", s.Name, 100*s.lateShare()))
	}
	verdict := "as claimed"
	switch {
	case !p.Measurable:
		verdict = "not measurable"
	case !p.good():
		verdict = "NOT as claimed"
	}
	return fmt.Sprintf("  %s: late %s; bulk across %s; busiest uplink %.0f %%, fullest port %.0f %%; %s", verdict, strings.Join(late, ", "),
		humanRate(p.cross()), 100*p.busiestUplink(), 100*p.fullestPort(), p.Load)
}

// storyVerdictError is a story that did not end as claimed.
type storyVerdictError struct {
	verdict string
	lines   []string
}

func (e *storyVerdictError) Error() string {
	if e.verdict == verdictNotMeasurable {
		return "not measurable here: " + strings.Join(e.lines, "; ") + "; so this says nothing about the shaping: try again when the machine has less to do"
	}
	return "not as claimed:\n  " + strings.Join(e.lines, "\n  ")
}

// verdict judges the whole.
func (r *storyReport) verdict() error {
	var wrongs, unsure []string
	for _, p := range r.Phases {
		if !p.Measurable {
			unsure = append(unsure, fmt.Sprintf("%s: the machine was too busy %d times (%s)", p.Name, p.Tries, p.Load))
			continue
		}
		for _, c := range p.Checks {
			if !c.OK {
				wrongs = append(wrongs, fmt.Sprintf("%s: %s: %s, claimed %s", p.Name, c.What, c.Got, c.Want))
			}
		}
	}
	if len(unsure) == 0 && len(r.Phases) < len(storyPhases()) {
		unsure = append(unsure, fmt.Sprintf("it ended after %d of %d phases", len(r.Phases), len(storyPhases())))
	}
	return verdictOf(&r.Verdict, wrongs, unsure)
}

// verdictOf is the verdict, and the error that tells it: what was measured and is wrong outweighs what could not be measured.
func verdictOf(verdict *string, wrongs, unsure []string) error {
	switch {
	case len(wrongs) > 0:
		*verdict = verdictFailed
		return &storyVerdictError{verdictFailed, wrongs}
	case len(unsure) > 0:
		*verdict = verdictNotMeasurable
		return &storyVerdictError{verdictNotMeasurable, unsure}
	}
	*verdict = verdictPassed
	return nil
}
