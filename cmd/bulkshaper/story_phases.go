package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"bulkshaper/shaper"
	"bulkshaper/shaper/kernel/lab"
	"bulkshaper/shaper/tc"
)

// storyStep is a phase as it is planned.
type storyStep struct {
	name, what string
	// claim is what is said of the services then.
	claim storyClaim
	// enter does what the phase is about.
	enter func(ctx context.Context, s *story, p *storyPhase) error
	// hurtByLoad says that a busy machine can only make the result worse: services that are live, and bulk that reaches its rate, are so in
	// spite of it. Services that fail may do so for it, and latency added is less where the quiet cluster was slow for it.
	hurtByLoad bool
	// checks are those beyond the claim.
	checks func(s *story, p *storyPhase) []storyCheck
}

func storyPhases() []storyStep {
	return []storyStep{
		{"quiet", "no bulk at all", claimLive, func(context.Context, *story, *storyPhase) error { return nil }, false, nil},
		{"copy", "every bulk node copies to every one in the other cabinet", claimBroken, startCopy, false, checkNoPortFull},
		{"ports slowed", "the old remedy, every bulk port at a tenth of its speed", claimLive, slowPorts, false, nil},
		{"shaped", "ports at full speed again, and the daemon on every bulk node", claimLive, startShaping, true, checkShaped},
		{"doubled, fixed rates", "a cabinet gets twice the bulk nodes, each with its fixed rate", claimBroken, doubleCabinet, false, checkUplinkFull},
		{"doubled, shares", "the rate is a share of the uplink now", claimLive, shareUplink, true, checkCarried},
		{"inventory edited", "on call takes half of the doubled cabinet out of the bulk role", claimLive, editRoles, true, checkCarried},
	}
}

func startCopy(_ context.Context, s *story, _ *storyPhase) error { return s.bulk.Set(s.copies()) }

func slowPorts(_ context.Context, s *story, _ *storyPhase) error { return s.setPorts(storySlow) }

// setPorts sets the speed of every bulk node's port.
func (s *story) setPorts(rate tc.BitRate) error {
	for _, server := range storyServers() {
		if server.role == bulkRole {
			if err := s.cluster.Host(server.name).SetWire(lab.Limit{Rate: rate}); err != nil {
				return err
			}
		}
	}
	s.meter.setPorts(float64(rate))
	return nil
}

func startShaping(ctx context.Context, s *story, p *storyPhase) error {
	if err := s.setPorts(storyLink); err != nil {
		return err
	}
	return s.startStoryNodes(ctx, s.inUse, p)
}

// startStoryNodes starts daemons and waits until they have shaped their nodes.
func (s *story) startStoryNodes(ctx context.Context, names []string, p *storyPhase) error {
	start := time.Now()
	for _, name := range names {
		if err := s.writeStoryConfig(name, fixedCross()); err != nil {
			return err
		}
		if err := s.startNode(name); err != nil {
			return err
		}
	}
	fixed := (storyLink * storyCross / 100).WholeBytes()
	return s.follow(ctx, start, func(string) tc.BitRate { return fixed }, p)
}

// follow waits until every node has its class for other cabinets at its rate in the kernel, and its daemon says that it is in sync
// and knows all servers.
func (s *story) follow(ctx context.Context, start time.Time, rate func(node string) tc.BitRate, p *storyPhase) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for name, n := range s.nodes {
		want := rate(name)
		s.wanted[name] = float64(want)
		if err := n.reach(ctx, want); err != nil {
			return fmt.Errorf("wait for the daemon on %s to have %s for other cabinets: %w%s", name, want, err, n.logTail())
		}
	}
	p.FollowSeconds = time.Since(start).Seconds()
	servers := len(s.inUse) + len(serviceNodes())
	for name, n := range s.nodes {
		err := n.wait(ctx, readyLimit, func(status shaper.Status) bool { return status.InSync && status.Servers >= servers })
		if err != nil {
			return fmt.Errorf("wait for the daemon on %s: %w%s", name, err, n.logTail())
		}
	}
	return nil
}

// reach waits until the class for other cabinets has its rate. It asks the kernel, often; the daemons have better to do.
func (n *demoNode) reach(ctx context.Context, want tc.BitRate) error {
	for {
		stats, err := n.kernel.Stats(ctx)
		if err != nil {
			return err
		}
		class := classOf(stats, crossClass).Class
		if class.Rate == want {
			return nil
		}
		select {
		case <-n.daemon.Done():
			return fmt.Errorf("it has ended: %s", n.daemon.Ended())
		case <-ctx.Done():
			return fmt.Errorf("not in time, it has %s: %w", class.Rate, ctx.Err())
		case <-time.After(pollEvery):
		}
	}
}

func doubleCabinet(ctx context.Context, s *story, p *storyPhase) error {
	var joining []string
	for _, server := range storyServers() {
		if server.joins == 1 {
			joining = append(joining, server.name)
		}
	}
	s.inUse = append(s.inUse, joining...)
	if err := s.writeInventory(s.listed()); err != nil {
		return err
	}
	if err := s.startStoryNodes(ctx, joining, p); err != nil {
		return err
	}
	return s.bulk.Set(s.copies())
}

// shareUplink edits the config of every node.
func shareUplink(ctx context.Context, s *story, p *storyPhase) error {
	start := time.Now()
	for name := range s.nodes {
		if err := s.writeStoryConfig(name, sharedCross()); err != nil {
			return err
		}
	}
	return s.follow(ctx, start, s.sharedRate, p)
}

// sharedRate is a node's share of its cabinet's uplink, counted by hand.
func (s *story) sharedRate(node string) tc.BitRate {
	nodes := 0
	for _, name := range s.inUse {
		if storyServerOf(name).cabinet == storyServerOf(node).cabinet {
			nodes++
		}
	}
	return (storyUplink * storyUse / 100 / tc.BitRate(nodes)).WholeBytes()
}

// editRoles takes the role from those that doubled the cabinet. Their copies have been moved, and their daemons are stopped.
func editRoles(ctx context.Context, s *story, p *storyPhase) error {
	leaving := func(name string) bool { return storyServerOf(name).joins == 1 }
	s.inUse = slices.DeleteFunc(slices.Clone(s.inUse), leaving)
	if err := s.bulk.Set(s.copies()); err != nil {
		return err
	}
	for name, n := range s.nodes {
		if leaving(name) {
			if err := n.daemon.Stop(stopLimit); err != nil {
				return fmt.Errorf("daemon on %s: %w%s", name, err, n.logTail())
			}
			delete(s.nodes, name)
			delete(s.wanted, name)
			if err := n.close(); err != nil {
				return err
			}
		}
	}
	start := time.Now()
	if err := s.writeInventory(s.listed()); err != nil {
		return err
	}
	return s.follow(ctx, start, s.sharedRate, p)
}
