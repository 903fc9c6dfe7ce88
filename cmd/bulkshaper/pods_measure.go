package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"bulkshaper/cmd/bulkshaper/view"
	"bulkshaper/shaper"
	"bulkshaper/shaper/kernel/lab"
	"bulkshaper/shaper/kernel/lab/traffic"
	"bulkshaper/shaper/tc"
)

// podRun is what one network showed.
type podRun struct {
	Network      string           `json:"network"`
	Destinations []podDestination `json:"destinations"`
	Classes      []podClass       `json:"classes"`
	Hints        []string         `json:"hints"`
	// Asked is how the services were live, unshaped where that was measured, and shaped. ServicesWire is where what a bulk node asks goes
	// on the wire, ServicesClass the class of that by explain.
	Asked         []podAsked `json:"asked"`
	ServicesWire  string     `json:"services_wire_address,omitempty"`
	ServicesClass string     `json:"services_class,omitempty"`
	Load          demoLoad   `json:"machine"`
	// Wrong is what is not as it should be on any machine, Slow what a busy one may do to rates.
	Wrong []string `json:"wrong"`
	Slow  []string `json:"slow"`
}

func newPodRun(network string) podRun {
	return podRun{Network: network, Asked: []podAsked{}, Hints: []string{}, Wrong: []string{}, Slow: []string{}}
}

// podDestination is a pod, or a server, that the node sent to.
type podDestination struct {
	To string `json:"to"`
	// Wire is the address on the wire, Share how much of all bytes on the wire went there.
	Wire  string  `json:"wire_address"`
	Share float64 `json:"share"`
	// Explained is the class by explain for Wire, ExplainedPod that for the pod's own address, where that is another one.
	Explained    string `json:"explained"`
	ExplainedPod string `json:"explained_pod,omitempty"`
	// Received and Limit are payload in bits per second; Limit is what the class's rate leaves for payload if nobody else used it.
	Received float64 `json:"received_bits_per_second"`
	Limit    float64 `json:"limit_bits_per_second"`
}

// podClass is what a class counted of all that was sent, and what it should have by the wire and explain.
type podClass struct {
	Name     string  `json:"name"`
	Counted  float64 `json:"counted_share"`
	Expected float64 `json:"expected_share"`
}

// podStray is how far counted and expected shares may be apart: the counters are read a little before and after the wire.
const podStray = 0.05

// podLeast is the least payload of a class, in shares of what its rate leaves for it.
const podLeast = 0.90

// onWire is where a packet of a copy to a server goes.
func (b *podBed) onWire(server string) string {
	if b.target(server) == server {
		return podServerOf(server).address
	}
	return b.podOnWire(server)
}

// podOnWire is where a packet for a server's pod goes, as the network is documented (design: what the interface really sees).
func (b *podBed) podOnWire(server string) string {
	s := podServerOf(server)
	near := s.cabinet == podServerOf(podSender).cabinet
	if kind := b.network.kind; kind == lab.Routed || kind == lab.CrossSubnet && near {
		return b.cluster.Host(b.pod(server)).Address.String()
	}
	return s.address
}

// payloadOn is the share of payload in full frames to an address: tunnels have headers of their own.
func (b *podBed) payloadOn(server string) float64 {
	const tunnel = 50
	if b.target(server) != server && b.onWire(server) == podServerOf(server).address {
		return float64(payloadBytes-tunnel) / frameBytes
	}
	return payloadShare
}

// maxUnseen is how often it is measured again since a copy was not on the wire. One that comes into the short queue of a crowded class may
// lose its next packets there, and then waits, twice as long each time.
const maxUnseen = 8

// measure measures what leaves podSender and how the services are, with before as what was measured of them without shaping, and again
// where a copy waits to send or the machine was too busy for it to mean anything.
func (b *podBed) measure(ctx context.Context, name string, before *podAsked) error {
	if err := pause(ctx, b.story.live.settle); err != nil {
		return err
	}
	n := b.nodes[podSender]
	if err := n.wait(ctx, readyLimit, func(s shaper.Status) bool { return len(s.Hints) > 0 == b.network.wrong }); err != nil {
		return fmt.Errorf("wait for status to hint at an inventory that lacks something, or not: %w", err)
	}
	for unseen := 0; ; {
		run, err := b.measureOnce(ctx, name)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(run.Destinations, func(d podDestination) bool { return d.Share == 0 }); i >= 0 && unseen < maxUnseen {
			unseen++
			b.story.progress("nothing to %s was on the wire yet, so it is measured again", run.Destinations[i].Wire)
			continue
		}
		busy := len(run.Slow) > 0 && run.Load.tooMuch() || !run.asked(true).Measurable
		if !busy || b.story.again == 0 {
			if before != nil {
				run.Asked = append([]podAsked{*before}, run.Asked...)
			}
			b.story.report.Runs = append(b.story.report.Runs, run)
			return nil
		}
		b.story.again--
		b.story.progress("the machine was too busy (%s), so it is measured again", run.asked(true).Load)
	}
}

func (b *podBed) measureOnce(ctx context.Context, name string) (run podRun, err error) {
	run = newPodRun(name)
	n := b.nodes[podSender]
	first, err := b.bulk.Until(ctx, traffic.Now())
	if err != nil {
		return run, err
	}
	sniffer, err := n.host.Sniff()
	if err != nil {
		return run, err
	}
	before, err := n.kernel.Stats(ctx)
	var asked podWindow
	if err == nil {
		asked, err = b.ask(ctx, b.story.live.window)
	}
	after, failed := n.kernel.Stats(ctx)
	seen, stopped := sniffer.Stop()
	for _, e := range []error{err, failed, stopped} {
		if e != nil {
			return run, e
		}
	}
	last, err := b.bulk.Until(ctx, traffic.Now())
	if err != nil {
		return run, err
	}
	status, err := n.status(ctx)
	if err != nil {
		return run, err
	}
	run.Hints = append(run.Hints, status.Hints...)
	services, err := b.asked(ctx, asked, true)
	if err != nil {
		return run, err
	}
	run.Asked = append(run.Asked, services)
	run.Load.Busy = asked.busy
	if seen.Missed > 0 {
		run.Slow = append(run.Slow, fmt.Sprintf("%d packets on the wire were missed, so shares are not exact", seen.Missed))
	}
	explained, err := b.explain(ctx, addressesOf(seen))
	if err != nil {
		return run, err
	}
	run.ServicesWire = b.podOnWire(podService)
	run.ServicesClass = explained[run.ServicesWire].Class
	run.destinations(b, seen, explained, first[len(first)-1], last[len(last)-1])
	run.classes(status, before, after, seen, explained)
	run.judge(b)
	return run, nil
}

func addressesOf(seen lab.Seen) []string {
	var list []string
	for a := range seen.Bytes {
		list = append(list, a.String())
	}
	return list
}

// podWithin is the address of a server's pod inside the tunnel, or on the wire; that of the server where it has none.
func (b *podBed) podWithin(server string) string {
	if s := podServerOf(server); b.network.byHand && s.role == bulkRole {
		return netip.MustParsePrefix(s.pods).Addr().Next().Next().String()
	}
	return b.cluster.Host(b.target(server)).Address.String()
}

// explain asks the program on the node for everything that was on the wire, and for the pods.
func (b *podBed) explain(ctx context.Context, onWire []string) (map[string]view.Explanation, error) {
	ask := map[string]bool{}
	for _, a := range onWire {
		ask[a] = true
	}
	for _, server := range podTargets() {
		ask[b.onWire(server)], ask[b.podWithin(server)] = true, true
	}
	ask[b.podOnWire(podService)] = true
	out, err := os.Create(filepath.Join(b.dir, "explain.json"))
	if err != nil {
		return nil, fmt.Errorf("make file: %w", err)
	}
	defer out.Close()
	args := append([]string{"explain", "--format", "json", "--config", b.config(podSender)}, slices.Sorted(maps.Keys(ask))...)
	p, err := b.cluster.Host(podSender).Start("/proc/self/exe", args, []string{}, out)
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.Done():
	}
	text, err := os.ReadFile(out.Name())
	if err != nil {
		return nil, fmt.Errorf("read what explain says: %w", err)
	}
	var list []view.Explanation
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("read what explain says (%s): %w%s", p.Ended(), err, fileTail(out.Name()))
	}
	answers := map[string]view.Explanation{}
	for _, e := range list {
		answers[e.Address] = e
	}
	return answers, nil
}

// destinations fills in what each was sent.
func (run *podRun) destinations(b *podBed, seen lab.Seen, explained map[string]view.Explanation, first, last traffic.Sample) {
	var all uint64
	for _, n := range seen.Bytes {
		all += n
	}
	received := func(s traffic.Sample, pair traffic.Pair) uint64 {
		for _, p := range s.Pairs {
			if p.Pair == pair {
				return p.Received
			}
		}
		return 0
	}
	for _, server := range podTargets() {
		wire, pod, from := b.onWire(server), b.podWithin(server), b.pod(podSender)
		if b.target(server) == server {
			from = podSender
		}
		pair := traffic.Pair{From: from, To: b.target(server)}
		d := podDestination{To: b.target(server), Wire: wire, Explained: explained[wire].Class,
			Share:    float64(seen.Bytes[netip.MustParseAddr(wire)]) / float64(max(1, all)),
			Received: float64(received(last, pair)-received(first, pair)) * 8 / (last.At - first.At).Seconds()}
		d.Limit = float64(podRate(d.Explained)) * b.payloadOn(server)
		if pod != wire {
			d.ExplainedPod = explained[pod].Class
		}
		run.Destinations = append(run.Destinations, d)
	}
}

// classes fills in what was counted, against what the wire and explain say.
func (run *podRun) classes(status shaper.Status, before, after tc.Stats, seen lab.Seen, explained map[string]view.Explanation) {
	var wire, counted float64
	expected := map[string]float64{}
	for a, n := range seen.Bytes {
		expected[explained[a.String()].Class] += float64(n)
		wire += float64(n)
	}
	sent := map[string]float64{}
	for _, c := range status.Classes {
		id, err := tc.ParseHandle(c.ClassID)
		if err != nil || c.Name == tc.ControlName {
			continue
		}
		sent[c.Name] = float64(classOf(after, id).SentBytes) - float64(classOf(before, id).SentBytes)
		counted += sent[c.Name]
	}
	for _, c := range status.Classes {
		if c.Name != tc.ControlName {
			run.Classes = append(run.Classes, podClass{c.Name, sent[c.Name] / max(1, counted), expected[c.Name] / max(1, wire)})
		}
	}
}

// judge says what is not as it should be.
func (run *podRun) judge(b *podBed) {
	say := func(format string, args ...any) { run.Wrong = append(run.Wrong, fmt.Sprintf(format, args...)) }
	for _, c := range run.Classes {
		if stray := c.Counted - c.Expected; stray < -podStray || stray > podStray {
			say("class %s counted %s of all that was sent, and by the wire and explain it is %s", c.Name, percentOf(c.Counted), percentOf(c.Expected))
		}
	}
	if run.ServicesClass != "" && run.ServicesClass != "default" {
		say("explain puts services, which are %s on the wire, in class %s, not default", run.ServicesWire, run.ServicesClass)
	}
	got := map[string]float64{}
	for _, d := range run.Destinations {
		want := map[string]string{"hadoop02": "same-cabinet", "app02": "default"}[serverOfPod(d.To)]
		if want == "" {
			want = "cross-cabinet"
		}
		if b.network.wrong {
			want = "default"
		}
		if d.Explained != want {
			say("explain puts %s, which is %s on the wire, in class %s, not %s", d.To, d.Wire, d.Explained, want)
		}
		if d.Share == 0 {
			run.Slow = append(run.Slow, fmt.Sprintf("nothing to %s was on the wire", d.Wire))
		}
		if d.Limit > 0 {
			got[d.Explained] += d.Received / d.Limit
		}
	}
	for class, share := range got {
		if share < podLeast {
			run.Slow = append(run.Slow, fmt.Sprintf("class %s carried %s of the payload that its rate allows, not %s", class, percentOf(share), percentOf(podLeast)))
		}
	}
	if told := len(run.Hints) > 0; told != b.network.wrong {
		say("status hints at an inventory that lacks something: %v, and it lacks something: %v", told, b.network.wrong)
	}
}

func serverOfPod(name string) string {
	for _, s := range podServers() {
		if name == lab.PodOf(s.name) {
			return s.name
		}
	}
	return name
}
