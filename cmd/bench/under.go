package main

import (
	"context"
	"fmt"
	"time"

	"bulkshaper/shaper/config"
)

// variant is a way to treat what leaves the interface; the first is the baseline.
type variant struct {
	id, name string
	set      func(context.Context, *bed) error
}

func variants() []variant {
	return []variant{
		{"none", "no qdisc", func(ctx context.Context, b *bed) error {
			return b.tc(ctx, "", "qdisc", "replace", "dev", iface, "root", "noqueue")
		}},
		{"ours", "bulkshaper", func(ctx context.Context, b *bed) error { return b.shapeAt(ctx, 1_024_000_000, config.LeafAuto) }},
		{"story", "the story's tc", func(ctx context.Context, b *bed) error { return b.tc(ctx, storyTC(), "-batch", "-") }},
		{"tbf", "a TBF", func(ctx context.Context, b *bed) error {
			return b.tc(ctx, "", "qdisc", "replace", "dev", iface, "root", "tbf", "rate", "204800kbit", "burst", "64kb", "latency", "50ms")
		}},
	}
}

// load is what else is sent while latency is measured: in all 160 Mbit/s, in a class of 204.8 or through a TBF of as many.
type load struct {
	id, name   string
	senders    int
	congestion string
}

const loadBytes = 160_000_000 / 8 // per second

func loads() []load {
	return []load{{"alone", "alone", 0, ""}, {"one", "one bulk sender", 1, "cubic"},
		{"four-cubic", "four bulk senders, cubic", 4, "cubic"}, {"four-bbr", "four bulk senders, bbr", 4, "bbr"}}
}

// exchangeSize is how long question and answer are: a small packet each, or a large one.
type exchangeSize struct {
	id    string
	bytes int
}

func exchangeSizes() []exchangeSize { return []exchangeSize{{"small", 64}, {"large", 1400}} }

// underBed is a bed with its variant and the connections that latency is measured by.
type underBed struct {
	variant
	bed       *bed
	exchanges map[string]*exchange
}

// underLimitFigures compare goodput and latency of what no limit is reached by.
func (r *runner) underLimitFigures(ctx context.Context) {
	var beds []underBed
	defer func() {
		for _, b := range beds {
			b.close()
		}
	}()
	var err error
	for _, v := range variants() {
		var b underBed
		if b, err = newUnderBed(ctx, v); err != nil {
			err = fmt.Errorf("%s: %w", v.name, err)
			break
		}
		beds = append(beds, b)
	}
	for _, l := range loads() {
		results := map[string]*pairs{} // by the figure's id
		for round := 0; err == nil && round < r.costRepeats; round++ {
			err = r.underLimit(ctx, l, beds, round, results)
		}
		for _, v := range variants()[1:] {
			for _, size := range exchangeSizes() {
				r.tell(figure{ID: fmt.Sprintf("costs-latency-%s-%s-%s", l.id, size.id, v.id), Unit: "us", Against: "no qdisc",
					Name: fmt.Sprintf("%s: question and answer of %d bytes, %s", v.name, size.bytes, l.name)}, results, err)
			}
			if l.senders > 0 {
				f := figure{ID: fmt.Sprintf("costs-under-%s-%s", l.id, v.id), Unit: "Mbit/s", Against: "no qdisc", Name: fmt.Sprintf("%s: goodput, %s", v.name, l.name)}
				if v.id == "ours" {
					f.Limit, f.AtLeast = 0.985, true
				}
				r.tell(f, results, err)
			}
		}
	}
}

func (r *runner) tell(f figure, results map[string]*pairs, err error) {
	if err != nil {
		r.report(f.fail(err))
		return
	}
	r.report(f.compared(*results[f.ID]))
}

func newUnderBed(ctx context.Context, v variant) (u underBed, err error) {
	u = underBed{variant: v, exchanges: map[string]*exchange{}}
	if u.bed, err = newBed(ctx, true); err != nil {
		return u, err
	}
	defer func() {
		if err != nil {
			u.close()
		}
	}()
	if err = v.set(ctx, u.bed); err != nil {
		return u, err
	}
	for _, size := range exchangeSizes() {
		e, err := u.bed.exchange(ctx, nobody(), size.bytes)
		if err != nil {
			return u, err
		}
		u.exchanges[size.id] = e
	}
	return u, nil
}

func (u underBed) close() {
	for _, e := range u.exchanges {
		e.close()
	}
	u.bed.close()
}

// underLimit measures every variant once, in an order that changes with the round.
func (r *runner) underLimit(ctx context.Context, l load, beds []underBed, round int, results map[string]*pairs) error {
	taken := map[string]float64{}
	for turn := range beds {
		b := beds[(turn+round)%len(beds)]
		if err := r.underOne(ctx, l, b, taken); err != nil {
			return fmt.Errorf("%s, %s: %w", b.name, l.name, err)
		}
	}
	for _, v := range variants()[1:] {
		kinds := []string{"costs-under-" + l.id}
		for _, size := range exchangeSizes() {
			kinds = append(kinds, "costs-latency-"+l.id+"-"+size.id)
		}
		for _, kind := range kinds {
			id := kind + "-" + v.id
			if results[id] == nil {
				results[id] = &pairs{}
			}
			if base, ok := taken[kind+"-none"]; ok {
				results[id].add(taken[id], base)
			}
		}
	}
	return nil
}

func (r *runner) underOne(ctx context.Context, l load, b underBed, taken map[string]float64) error {
	var flows []*costFlow
	for i := range l.senders {
		f, err := b.bed.pour(ctx, costDestination(costOther+i), l.congestion, loadBytes/l.senders)
		if err != nil {
			return err
		}
		defer f.close()
		flows = append(flows, f)
	}
	if l.senders > 0 {
		if err := wait(ctx, r.settle/2); err != nil {
			return err
		}
		rates, err := carried(ctx, r.window, flows...)
		if err != nil {
			return err
		}
		all := 0.
		for _, rate := range rates {
			all += rate
		}
		taken["costs-under-"+l.id+"-"+b.id] = all
	}
	for size, e := range b.exchanges {
		took, err := e.take(r.exchanges)
		if err != nil {
			return err
		}
		taken["costs-latency-"+l.id+"-"+size+"-"+b.id] = took
	}
	return nil
}

// Sizes of the measurements of costs.
const (
	costSettle = 600 * time.Millisecond
	costWindow = 500 * time.Millisecond
	// exchangeEvery keeps the exchanges, and the senders beside them, below the limit: large questions one after the other would be three
	// times the rate of their class, and what they wait is the rate's doing.
	exchangeEvery = 500 * time.Microsecond
)
