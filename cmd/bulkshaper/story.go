package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"bulkshaper/shaper/kernel/lab/traffic"
)

// story is the incident, from the quiet cluster to the one that is reshaped by an edit. Each phase does something to the cluster,
// waits until that has settled, measures, and is judged by what it measured.
type story struct {
	options        storyOptions
	stdout, stderr io.Writer

	stage
	meter *storyMeter

	began  time.Duration // on the clock of the traffic
	inUse  []string      // bulk nodes that copy
	wanted map[string]float64
	report storyReport
}

// storyOptions is what may be asked for.
type storyOptions struct {
	congestion string
	out        string // folder for the pictures and the report, "" for none
	json       bool
	// live and broken are the times of phases in which services are live, and of those in which they are broken: there copies that have
	// just begun fight for the uplink, and it takes them longer to get even.
	live, broken storyTimes
}

// storyTimes is how long a phase runs before it is measured, and how long that takes.
type storyTimes struct{ settle, window time.Duration }

// longStory is what the figures of the README come from, shortStory the least that gives the same verdicts.
func longStory() storyOptions {
	return storyOptions{live: storyTimes{2 * time.Second, 5 * time.Second}, broken: storyTimes{3 * time.Second, 5 * time.Second}}
}

func shortStory() storyOptions {
	return storyOptions{live: storyTimes{time.Second, 1500 * time.Millisecond}, broken: storyTimes{2500 * time.Millisecond, 2500 * time.Millisecond}}
}

// times are those of a phase.
func (o storyOptions) times(claim storyClaim) storyTimes {
	if claim == claimBroken {
		return o.broken
	}
	return o.live
}

// trafficArgs lead a worker to its main function.
func trafficArgs(kind string) []string { return []string{"demo", "traffic", kind} }

// run tells the story and judges it. Whatever ends it, everything is taken down again.
func (s *story) run(ctx context.Context) (err error) {
	defer func() {
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		if down := s.close(); down != nil {
			err = errors.Join(err, fmt.Errorf("take the lab down: %w", down))
		}
	}()
	if err := s.build(); err != nil {
		return err
	}
	told := s.tell(ctx)
	var verdict *storyVerdictError
	if told != nil && !errors.As(told, &verdict) {
		return told
	}
	return errors.Join(s.publish(), told)
}

// tell goes through the phases. It ends early at one that could not be measured: what comes after it would be compared with nothing.
func (s *story) tell(ctx context.Context) error {
	for i, p := range storyPhases() {
		s.progress("phase %d of %d, %s: %s", i+1, len(storyPhases()), p.name, p.what)
		phase := storyPhase{Name: p.name, What: p.what, Claim: p.claim, Begin: s.since(traffic.Now())}
		if err := p.enter(ctx, s, &phase); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if err := s.measure(ctx, p, &phase); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		phase.End = s.since(traffic.Now())
		s.report.Phases = append(s.report.Phases, phase)
		s.progress("%s", phase.line())
		if !phase.Measurable {
			break
		}
	}
	return s.report.verdict()
}

func (s *story) since(at time.Duration) float64 { return (at - s.began).Seconds() }

// progress tells what is going on, for whoever waits.
func (s *story) progress(format string, args ...any) {
	fmt.Fprintf(s.stderr, "demo: "+format+"\n", args...) // a closed stderr is no reason to stop
}

// build makes the cluster and starts the requests, which go on until the end.
func (s *story) build() (err error) {
	start := time.Now()
	s.wanted = map[string]float64{}
	if err := s.raise(storyTopology(s.options.congestion), storyServers()[0].name); err != nil {
		return err
	}
	for _, server := range storyServers() {
		if server.role == bulkRole && server.joins == 0 {
			s.inUse = append(s.inUse, server.name)
		}
	}
	if err := s.writeInventory(s.listed()); err != nil {
		return err
	}
	if s.bulk, err = traffic.StartBulk(s.cluster, trafficArgs(traffic.KindBulk), s.log); err != nil {
		return err
	}
	if s.requests, err = traffic.StartRequests(s.cluster, storyRequests(), trafficArgs(traffic.KindRequests), s.log); err != nil {
		return err
	}
	s.began = traffic.Now()
	if s.meter, err = startMeter(s.cluster, float64(storyLink)); err != nil {
		return err
	}
	s.report.Machine = describeMachine()
	s.report.Congestion = s.options.congestion
	s.progress("%d bulk nodes and %d of the services in two cabinets, and a core: %d network namespaces in %s", len(s.inUse),
		len(serviceNodes()), s.cluster.Namespaces(), time.Since(start).Round(time.Millisecond))
	return nil
}

// close ends what still runs and removes everything.
func (s *story) close() error {
	if s.meter != nil {
		s.meter.close()
	}
	return s.stage.close()
}
