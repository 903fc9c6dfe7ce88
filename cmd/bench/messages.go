package main

import (
	"context"

	"bulkshaper/cmd/bench/shapes"
	"bulkshaper/inventory"
	"bulkshaper/shaper"
	"bulkshaper/shaper/diff"
)

// messageFigures count the netlink messages for one server among many, moved, added and removed again, in each shape.
func (r *runner) messageFigures(ctx context.Context) {
	var moved, added, removed []float64
	f := figure{ID: "messages-moved", Name: "messages for one moved server among " + countOf(r.many), Limit: 4, Note: "the most of all shapes"}
	g := figure{ID: "messages-added", Name: "messages for one added server", Limit: 4, Note: "the most of all shapes and places"}
	h := figure{ID: "messages-removed", Name: "messages for one removed server", Limit: 4, Note: "the most of all shapes and places"}
	for _, s := range shapes.All() {
		m, a, d, err := r.messages(ctx, s)
		if err != nil {
			for _, f := range []figure{f, g, h} {
				r.report(f.fail(err))
			}
			return
		}
		moved, added, removed = append(moved, m), append(added, a), append(removed, d)
	}
	r.report(f.most(moved))
	r.report(g.most(added))
	r.report(h.most(removed))
}

// most judges f by the greatest of values.
func (f figure) most(values []float64) figure {
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	f = f.measured(most)
	f.Samples = len(values)
	return f
}

// messages is the most that moving, adding and removing one server takes, tried at some places of a shape.
func (r *runner) messages(ctx context.Context, s shapes.Shape) (moved, added, removed float64, err error) {
	b, err := newBed(ctx, false)
	if err != nil {
		return 0, 0, 0, err
	}
	defer b.close()
	servers := s.Servers(r.many)
	if _, _, err := b.shape(ctx, r.layout, servers); err != nil {
		return 0, 0, 0, err
	}
	k, err := b.open()
	if err != nil {
		return 0, 0, 0, err
	}
	defer k.Close()
	state, err := k.Observe(ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	// to brings the kernel to servers, and counts.
	to := func(servers []*inventory.Server) (float64, error) {
		desired, err := desire(r.layout, state, servers)
		if err != nil {
			return 0, err
		}
		out, err := shaper.Converge(ctx, k, state, desired.Plan, diff.Options{Owned: true}, nil)
		state = out.State
		return float64(len(out.Results)), err
	}
	const places = 3
	for place := range places {
		i := 1 + (2*place+1)*(len(servers)-1)/(2*places)
		without := append(append([]*inventory.Server{}, servers[:i]...), servers[i+1:]...)
		other := *servers[i]
		other.Cabinet = servers[0].Cabinet
		step := func(most *float64, servers []*inventory.Server) {
			if err != nil {
				return
			}
			var n float64
			if n, err = to(servers); n > *most {
				*most = n
			}
		}
		step(&moved, append(append([]*inventory.Server{}, without...), &other))
		step(&moved, servers)
		step(&removed, without)
		step(&added, servers)
		if err != nil {
			return 0, 0, 0, err
		}
	}
	return moved, added, removed, nil
}
