package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"bulkshaper/shaper"
	"bulkshaper/shaper/kernel/lab"
	"bulkshaper/shaper/kernel/lab/traffic"
)

// podStory copies between pods over each kind of pod network, beside services that ask each other over the same network: first
// without shaping, then with the daemon on every bulk node. It sees whether the services are live, and compares three things: what
// leaves the first node as a packet socket sees it, the class that explain names for that address, and the class that counted it.
type podStory struct {
	// live and free are the times of what is shaped, and of what is not.
	live, free storyTimes
	// again is how often it may still measure again for a machine that was too busy.
	again          int
	congestion     string
	json           bool
	stdout, stderr io.Writer
	report         podReport
}

// podNetwork is a kind of pod network, as people know it.
type podNetwork struct {
	name string
	kind lab.PodNetwork
	// prefixes says that the inventory lists the pods' prefixes.
	prefixes bool
	// wrong says that it should, for this network, and does not; the story then corrects it.
	wrong bool
	// byHand is packets made by hand instead of a network.
	byHand bool
}

func podNetworks() []podNetwork {
	return []podNetwork{
		{name: "host network", kind: lab.NoPods},
		{name: "VXLAN (Flannel)", kind: lab.VXLAN},
		{name: "routed (host-gw, BGP, VPC)", kind: lab.Routed, prefixes: true},
		{name: "cross-subnet (routed within, VXLAN beyond)", kind: lab.CrossSubnet, prefixes: true},
		{name: "IPIP (packets made by hand)", kind: lab.NoPods, byHand: true},
		{name: "routed, and the inventory without prefixes", kind: lab.Routed, wrong: true},
	}
}

// run tells the story and judges it.
func (s *podStory) run(ctx context.Context) (err error) {
	s.report.Machine = describeMachine()
	for _, network := range podNetworks() {
		s.progress("%s", network.name)
		b := &podBed{story: s, network: network}
		err := b.run(ctx)
		if down := b.close(); down != nil {
			err = errors.Join(err, fmt.Errorf("take the lab down: %w", down))
		}
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", network.name, err)
		}
	}
	told := s.report.judge()
	if s.json {
		return errors.Join(printJSON(s.stdout, s.report), told)
	}
	_, err = fmt.Fprint(s.stdout, s.report.text())
	return errors.Join(err, told)
}

func (s *podStory) progress(format string, args ...any) {
	fmt.Fprintf(s.stderr, "demo: "+format+"\n", args...) // a closed stderr is no reason to stop
}

// podBed is a cluster with one kind of pod network.
type podBed struct {
	stage
	story   *podStory
	network podNetwork
}

func (b *podBed) run(ctx context.Context) error {
	if err := b.raise(podTopology(b.network.kind, b.story.congestion), podSender); err != nil {
		return err
	}
	if err := b.writeInventory(listedPods(b.network.prefixes)); err != nil {
		return err
	}
	if b.network.byHand {
		if err := b.startDaemons(ctx); err != nil {
			return err
		}
		return b.sendByHand(ctx)
	}
	if err := b.startTraffic(); err != nil {
		return err
	}
	if b.network.wrong { // without shaping it is what it was with the right inventory
		if err := b.startDaemons(ctx); err != nil {
			return err
		}
		if err := b.measure(ctx, b.network.name, nil); err != nil {
			return err
		}
		return b.correct(ctx)
	}
	before, err := b.unshaped(ctx)
	if err != nil {
		return err
	}
	return b.measure(ctx, b.network.name, &before)
}

func (b *podBed) startTraffic() (err error) {
	if b.bulk, err = traffic.StartBulk(b.cluster, trafficArgs(traffic.KindBulk), b.log); err != nil {
		return err
	}
	if b.requests, err = traffic.StartRequests(b.cluster, b.services(), trafficArgs(traffic.KindRequests), b.log); err != nil {
		return err
	}
	return b.bulk.Set(b.copies())
}

// correct gives the inventory the prefixes that it lacks, and measures again.
func (b *podBed) correct(ctx context.Context) error {
	edited := time.Now()
	if err := b.writeInventory(listedPods(true)); err != nil {
		return err
	}
	for name, n := range b.nodes {
		err := n.wait(ctx, readyLimit, func(s shaper.Status) bool {
			r := s.LastReload
			return s.InSync && r != nil && r.Result == shaper.ReloadSuccess && r.Time.After(edited) && r.Operations > 0
		})
		if err != nil {
			return fmt.Errorf("wait for the daemon on %s to follow the edit: %w%s", name, err, n.logTail())
		}
	}
	b.network.wrong = false
	if err := b.recovered(ctx); err != nil {
		return err
	}
	return b.measure(ctx, "routed, after the prefixes were added", nil)
}

// recovered waits, not for ever, until the copies have noticed what they may send now: connections that nearly starved in the default
// class wait seconds before they try again.
func (b *podBed) recovered(ctx context.Context) error {
	const (
		look   = 250 * time.Millisecond
		enough = 0.97 // of what the classes leave for payload
	)
	allowed := 0.0
	for class := range podPercent() {
		allowed += float64(podRate(class)) * payloadShare
	}
	sends := func(p traffic.Pair) bool { return p.From == podSender || p.From == b.pod(podSender) }
	for limit := time.Now().Add(recoverLimit); time.Now().Before(limit); {
		from := traffic.Now()
		if err := pause(ctx, look); err != nil {
			return err
		}
		to := traffic.Now()
		samples, err := b.bulk.Until(ctx, to)
		if err != nil {
			return err
		}
		if rateOf(samples, from, to, sends) >= enough*allowed {
			return nil
		}
	}
	return nil
}

// recoverLimit is more than the longest pause of a connection whose packets were lost a few times in a row.
const recoverLimit = 8 * time.Second

func (b *podBed) startDaemons(ctx context.Context) error {
	for _, s := range podServers() {
		if s.role != bulkRole {
			continue
		}
		if err := b.writePodConfig(s.name); err != nil {
			return err
		}
		if err := b.startNode(s.name); err != nil {
			return err
		}
	}
	return b.inSync(ctx)
}
