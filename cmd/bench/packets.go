package main

import (
	"context"
	"fmt"
	"net/netip"

	"bulkshaper/cmd/bench/shapes"
	"bulkshaper/inventory"
	"bulkshaper/shaper"
	"bulkshaper/shaper/tc"
)

// packetFigures measure what a packet costs. Both interfaces stand at the same time and are sent to in turn.
func (r *runner) packetFigures(ctx context.Context) {
	for _, s := range shapes.All() {
		limit := 1.05
		if s.Letter == "f" || s.Letter == "g" {
			limit = 1.15
		}
		name := fmt.Sprintf("packet, (%s) %s", s.Letter, s.Name)
		f := figure{ID: "packet-" + s.Letter, Name: name, Unit: "ns", Against: countOf(r.few), Limit: limit}
		cold := figure{ID: "packet-" + s.Letter + "-spread", Name: "  sent to all of them in turn", Unit: "ns", Against: countOf(r.few)}
		warm, all, err := r.shapeCost(ctx, s)
		if err != nil {
			r.report(f.fail(err))
			r.report(cold.fail(err))
			continue
		}
		r.report(f.compared(warm))
		cold.Note = "each filter is cold in the processor's cache"
		r.report(cold.compared(all))
	}
	f := figure{ID: "packet-none", Name: "packet, no qdisc", Unit: "ns", Against: "HTB, " + countOf(r.many) + " of (a)"}
	p, err := r.plainCost(ctx)
	if err != nil {
		r.report(f.fail(err))
		return
	}
	r.report(f.compared(p))
}

// track is a bed that packets are sent through, with what it must have counted in the end.
type track struct {
	bed     *bed
	sender  *sender
	desired *shaper.Desired
	sent    map[tc.Handle]uint64
}

func (r *runner) track(ctx context.Context, shape func(*bed) (*shaper.Desired, error)) (*track, error) {
	b, err := newBed(ctx, false)
	if err != nil {
		return nil, err
	}
	t := &track{bed: b, sent: map[tc.Handle]uint64{}}
	if t.desired, err = shape(b); err == nil {
		t.sender, err = newSender(b)
	}
	if err != nil {
		b.close()
		return nil, err
	}
	return t, nil
}

// trackOf is a track in the layout in use, with these destinations.
func (r *runner) trackOf(ctx context.Context, servers []*inventory.Server) (*track, error) {
	return r.track(ctx, func(b *bed) (*shaper.Desired, error) {
		desired, _, err := b.shape(ctx, r.layout, servers)
		return desired, err
	})
}

func (t *track) close() {
	t.sender.close()
	t.bed.close()
}

// send sends packets to addresses in turn and notes the classes they must be counted in.
func (t *track) send(addresses []netip.Addr, to *targets, from, packets int) (float64, error) {
	cost, err := t.sender.send(to, from, packets)
	if t.desired == nil || err != nil {
		return cost, err
	}
	classes := map[string]tc.Handle{}
	for _, c := range t.desired.Plan.Classes {
		classes[c.Name] = c.Class.ID
	}
	n := len(addresses)
	for i := range min(packets, n) {
		times := packets / n
		if i < packets%n {
			times++
		}
		class := t.desired.Policy.Lookup(addresses[(from+i)%n]).Class
		t.sent[classes[class]] += uint64(times)
	}
	return cost, nil
}

// check compares what the kernel counted with what was sent.
func (t *track) check(ctx context.Context) error {
	if t.desired == nil {
		return nil
	}
	stats, err := t.bed.stats(ctx)
	if err != nil {
		return err
	}
	for _, c := range stats.Classes {
		id := c.Class.ID
		if c.SentPackets != t.sent[id] {
			return fmt.Errorf("class %s counted %d packets, %d were sent to it", id, c.SentPackets, t.sent[id])
		}
		delete(t.sent, id)
	}
	if stats.DirectPackets != 0 || len(t.sent) > 0 {
		return fmt.Errorf("%d packets went out directly; classes without counters: %d", stats.DirectPackets, len(t.sent))
	}
	return nil
}

// race sends through both tracks in turn, the order changing.
func (r *runner) race(a, b *track, addresses []netip.Addr, rounds, packets int) (pairs, error) {
	to := newTargets(addresses)
	var p pairs
	for i := range rounds + 1 {
		first, second := a, b
		if i%2 == 1 {
			first, second = b, a
		}
		x, err := first.send(addresses, to, i*packets, packets)
		if err != nil {
			return p, err
		}
		y, err := second.send(addresses, to, i*packets, packets)
		if err != nil {
			return p, err
		}
		if i%2 == 1 {
			x, y = y, x
		}
		if i > 0 { // the first round warms up
			p.add(x, y)
		}
	}
	return p, nil
}

// shapeCost compares many destinations with a few of them: warm is for packets to those few, the same packets over both; all for
// packets to every destination in turn.
func (r *runner) shapeCost(ctx context.Context, s shapes.Shape) (warm, all pairs, err error) {
	destinations := s.Destinations(r.many)
	var few []netip.Prefix
	var fewAddresses, allAddresses []netip.Addr
	for i := range r.few {
		d := destinations[(2*i+1)*len(destinations)/(2*r.few)]
		few = append(few, d)
		fewAddresses = append(fewAddresses, inside(d))
	}
	// A stride that has no factor in common with the count visits all, and none beside its neighbour.
	for i := range destinations {
		allAddresses = append(allAddresses, inside(destinations[i*7919%len(destinations)]))
	}
	large, err := r.trackOf(ctx, s.Servers(r.many))
	if err != nil {
		return warm, all, err
	}
	defer large.close()
	small, err := r.trackOf(ctx, shapes.Single(few))
	if err != nil {
		return warm, all, err
	}
	defer small.close()
	if warm, err = r.race(large, small, fewAddresses, r.rounds, r.packets); err != nil {
		return warm, all, err
	}
	if all, err = r.race(large, small, allAddresses, r.rounds/2+1, r.packets); err != nil {
		return warm, all, err
	}
	if err := large.check(ctx); err != nil {
		return warm, all, fmt.Errorf("%s: %w", countOf(r.many), err)
	}
	if err := small.check(ctx); err != nil {
		return warm, all, fmt.Errorf("%s: %w", countOf(r.few), err)
	}
	return warm, all, nil
}

// plainCost compares no qdisc with HTB and many destinations.
func (r *runner) plainCost(ctx context.Context) (p pairs, err error) {
	s := shapes.All()[0]
	shaped, err := r.trackOf(ctx, s.Servers(r.many))
	if err != nil {
		return p, err
	}
	defer shaped.close()
	plain, err := r.track(ctx, func(b *bed) (*shaper.Desired, error) {
		return nil, b.tc(ctx, "", "qdisc", "replace", "dev", iface, "root", "noqueue")
	})
	if err != nil {
		return p, err
	}
	defer plain.close()
	return r.race(plain, shaped, addresses(s.Destinations(r.many), r.few), r.rounds, r.packets)
}

// addresses picks n destinations, evenly spread.
func addresses(destinations []netip.Prefix, n int) []netip.Addr {
	list := make([]netip.Addr, n)
	for i := range list {
		list[i] = inside(destinations[(2*i+1)*len(destinations)/(2*n)])
	}
	return list
}
