package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"bulkshaper/cmd/bench/shapes"
	"bulkshaper/shaper"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/tc"
)

// costFigures measure what shaping takes: from one flow that fills its class, from traffic that stays under its limit, and from the
// fairness between two flows of a class.
func (r *runner) costFigures(ctx context.Context) {
	r.fullClassFigures(ctx)
	r.underLimitFigures(ctx)
	r.fairnessFigures(ctx)
}

// A full frame is 1500 bytes and an Ethernet header, which HTB counts; IP, TCP and its time stamps leave 1448 for payload.
const payloadShare = 1448. / 1514

// costServers is how many the inventory has. By their numbers the first ones stand in the node's cabinet, those from costOther on do not.
const (
	costServers = 100
	costSame    = 2
	costOther   = 45
)

// costDestination is the address of the n-th server.
func costDestination(n int) netip.Addr {
	return shapes.All()[0].Destinations(costServers)[n].Addr()
}

// nobody is an address that the inventory does not have.
func nobody() netip.Addr { return netip.AddrFrom4([4]byte{203, 0, 113, 9}) }

func congestions() []string { return []string{"cubic", "bbr"} }

// shapeAt brings the interface to the packaged config on a link of that rate, with a kind of leaf.
func (b *bed) shapeAt(ctx context.Context, link tc.BitRate, leaf string) error {
	k, err := b.open()
	if err != nil {
		return err
	}
	defer k.Close()
	state, err := k.Observe(ctx)
	if err != nil {
		return err
	}
	cfg := baseConfig("hash")
	cfg.LinkRate = link
	for i := range cfg.Classes {
		cfg.Classes[i].Leaf = config.Leaf{Kind: leaf}
	}
	in := shaper.Input{Config: cfg, Inventory: inventoryOf(costServers)}
	desired, err := shaper.Desire(in, shapes.Node, shaper.FactsOf(state))
	if err != nil {
		return err
	}
	out, err := shaper.Converge(ctx, k, state, desired.Plan, diff.Options{}, nil)
	if err == nil && !out.Converged {
		err = fmt.Errorf("shape a link of %s: not converged", link)
	}
	return err
}

// fullClassFigures: one flow gets the payload that its class's rate allows.
func (r *runner) fullClassFigures(ctx context.Context) {
	for _, rate := range []tc.BitRate{10_000_000, 100_000_000, 1_000_000_000} {
		for _, congestion := range congestions() {
			f := figure{ID: fmt.Sprintf("costs-full-%s-%s", rate, congestion), Name: fmt.Sprintf("one flow in a class of %s, %s", rate, congestion),
				Unit: "Mbit/s", Against: "payload limit", Limit: 0.985, AtLeast: true}
			p, err := r.fullClass(ctx, rate, congestion)
			if err != nil {
				r.report(f.fail(err))
				continue
			}
			r.report(f.compared(p))
		}
	}
}

func (r *runner) fullClass(ctx context.Context, rate tc.BitRate, congestion string) (p pairs, err error) {
	b, err := newBed(ctx, true)
	if err != nil {
		return p, err
	}
	defer b.close()
	if err := b.shapeAt(ctx, 5*rate, config.LeafAuto); err != nil { // a fifth is that of the class for other cabinets
		return p, err
	}
	f, err := b.pour(ctx, costDestination(costOther), congestion, 0)
	if err != nil {
		return p, err
	}
	defer f.close()
	if err := wait(ctx, r.settle); err != nil {
		return p, err
	}
	window := r.window
	if rate < 50_000_000 {
		window *= 4 // a queue is more of what so slow a class carries
	}
	for range r.costRepeats {
		rates, err := carried(ctx, window, f)
		if err != nil {
			return p, err
		}
		p.add(rates[0], float64(rate)/1e6*payloadShare)
	}
	return p, nil
}

// fairnessFigures: two flows of a class to two servers, as the story measured 421 and 408 Mbit/s of 820.
func (r *runner) fairnessFigures(ctx context.Context) {
	const link = 1_024_000_000 // gives the story's 819200kbit and 204800kbit
	for _, class := range []struct {
		id, name string
		rate     float64 // Mbit/s
		first    int
	}{{"same", "of the same cabinet", 819.2, costSame}, {"cross", "of other cabinets", 204.8, costOther}} {
		for _, leaf := range []string{tc.KindFQCodel, tc.KindPFIFO} {
			for _, congestion := range congestions() {
				f := figure{ID: fmt.Sprintf("costs-fair-%s-%s-%s", class.id, leaf, congestion),
					Name: fmt.Sprintf("two servers %s at once, %s, %s", class.name, leaf, congestion), Unit: "Mbit/s", Against: "the one that got more"}
				p, err := r.fairness(ctx, link, leaf, congestion, class.first)
				if errors.Is(err, unix.ENOENT) && leaf == tc.KindFQCodel {
					f.Verdict, f.Note = absent, "this kernel has no fq_codel"
					r.report(f)
					continue
				}
				if err != nil {
					r.report(f.fail(err))
					continue
				}
				f.Note = fmt.Sprintf("together %.1f %% of the payload limit", 100*(median(p.value)+median(p.base))/(class.rate*payloadShare))
				r.report(f.compared(p))
			}
		}
	}
}

func (r *runner) fairness(ctx context.Context, link tc.BitRate, leaf, congestion string, first int) (p pairs, err error) {
	b, err := newBed(ctx, true)
	if err != nil {
		return p, err
	}
	defer b.close()
	if err := b.shapeAt(ctx, link, leaf); err != nil {
		return p, err
	}
	var flows []*costFlow
	for i := range 2 {
		f, err := b.pour(ctx, costDestination(first+i), congestion, 0)
		if err != nil {
			return p, err
		}
		defer f.close()
		flows = append(flows, f)
	}
	if err := wait(ctx, r.settle); err != nil {
		return p, err
	}
	// One long window: who gets more may change from second to second, and fairness is what is left of that.
	rates, err := carried(ctx, time.Duration(r.costRepeats)*r.window, flows...)
	if err == nil {
		p.add(min(rates[0], rates[1]), max(rates[0], rates[1]))
	}
	return p, err
}

// storyTC is what stood on a node of the story, for these servers, as its people wrote it.
func storyTC() string {
	var lines strings.Builder
	fmt.Fprintf(&lines, "qdisc replace dev %s root handle 1: htb default 100\n", iface)
	for id, rate := range map[string]string{"1:100": "204800kbit", "1:10": "819200kbit", "1:20": "204800kbit"} {
		fmt.Fprintf(&lines, "class add dev %s parent 1: classid %s htb rate %s ceil %s prio 0\n", iface, id, rate, rate)
	}
	for i := range costServers {
		class := "1:10"
		if i >= 40 {
			class = "1:20"
		}
		fmt.Fprintf(&lines, "filter add dev %s protocol ip parent 1: pref %d u32 match ip dst %s/32 flowid %s\n", iface, i+1, costDestination(i), class)
	}
	return lines.String()
}
