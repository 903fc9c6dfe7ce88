package main

import (
	"context"
	"fmt"
	"net/netip"

	"bulkshaper/cmd/bench/shapes"
	"bulkshaper/shaper"
	"bulkshaper/shaper/tc"
)

// listFigures compare a list, as the original had it, with the layout in use: the whole cost of a packet, HTB and veth in both, as the
// 120 microseconds were measured that a list of 10,000 costs. A packet that goes through the whole list is what is judged. It is what
// default traffic pays, each packet of every service that the inventory does not name, and what the last in the list pay. Who stands
// in the middle pays half of it, so that evenly over the list the figure is half as large whatever the layout costs.
func (r *runner) listFigures(ctx context.Context) {
	as := func(id, name string) figure {
		return figure{ID: "packet-list" + id, Name: name, Unit: "ns", Against: r.layout + ", as many"}
	}
	nobody := as("", "packet, one list of "+countOf(r.some)+", to nobody in it")
	last := as("-last", "  to the last in it")
	nobody.Limit, nobody.AtLeast, last.Limit, last.AtLeast = 50, true, 50, true
	spread := as("-spread", "  to those in it, evenly")
	spread.Note = "these meet half of the list"
	costs, err := r.listCosts(ctx)
	if err != nil {
		for _, f := range []figure{nobody, last, spread} {
			r.report(f.fail(err))
		}
		return
	}
	bare := median(costs.bare.value)
	nobody.Note = fmt.Sprintf("default traffic; of this HTB and veth are %s, the filters alone %s against %s", number(bare),
		number(median(costs.nobody.value)-bare), number(median(costs.bare.base)-bare))
	r.report(nobody.compared(costs.nobody))
	r.report(last.compared(costs.last))
	r.report(spread.compared(costs.spread))
}

// listCosts are repetitions over a list, each beside one over the layout in use; of bare, over HTB without destinations beside it.
type listCosts struct{ nobody, last, spread, bare pairs }

// listCosts takes them, all of the same destinations.
func (r *runner) listCosts(ctx context.Context) (c listCosts, err error) {
	s := shapes.All()[0]
	hashed, err := r.trackOf(ctx, s.Servers(r.some))
	if err != nil {
		return c, err
	}
	defer hashed.close()
	listed, err := r.track(ctx, func(b *bed) (*shaper.Desired, error) { return nil, r.list(ctx, b, s) })
	if err != nil {
		return c, err
	}
	defer listed.close()
	bare, err := r.trackOf(ctx, s.Servers(0))
	if err != nil {
		return c, err
	}
	defer bare.close()
	destinations := s.Destinations(r.some)
	unknown := []netip.Addr{netip.AddrFrom4([4]byte{203, 0, 113, 9}), netip.AddrFrom4([4]byte{10, 200, 0, 1})}
	// A list is so slow that fewer packets give as good a time.
	few := max(r.packets/20, 100)
	for _, race := range []struct {
		into      *pairs
		track     *track
		addresses []netip.Addr
		packets   int
	}{
		{&c.nobody, listed, unknown, few},
		{&c.last, listed, []netip.Addr{inside(destinations[len(destinations)-1])}, few},
		{&c.spread, listed, addresses(destinations, 100), few},
		{&c.bare, bare, unknown, r.packets},
	} {
		if *race.into, err = r.race(race.track, hashed, race.addresses, r.rounds/2+1, race.packets); err != nil {
			return c, err
		}
	}
	if err := hashed.check(ctx); err != nil {
		return c, err
	}
	return c, bare.check(ctx)
}

// list puts the destinations of s into lists behind the packaged classes. A list takes 4,095 filters at most, so it takes several prefs.
func (r *runner) list(ctx context.Context, b *bed, s shapes.Shape) error {
	if _, _, err := b.shape(ctx, r.layout, s.Servers(0)); err != nil {
		return err
	}
	k, err := b.open()
	if err != nil {
		return err
	}
	defer k.Close()
	const perList = 4000
	var ops []tc.Op
	for i, d := range s.Destinations(r.some) {
		ops = append(ops, tc.Op{Verb: tc.Add, Object: tc.Filter{
			Parent: tc.MakeHandle(tc.Major, 0), Pref: uint16(100 + i/perList), Protocol: tc.ProtocolIP, Kind: tc.KindU32,
			Handle: tc.MakeU32Handle(0, 0, uint32(i%perList+1)), ClassID: tc.MakeHandle(tc.Major, 0x20), Sel: tc.MatchDestination(d),
		}})
	}
	return b.apply(ctx, k, ops)
}
