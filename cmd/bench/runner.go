package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"bulkshaper/shaper/kernel"
	"bulkshaper/shaper/tc"
)

// sizes are how large a run is.
type sizes struct {
	few, some, many int // destinations, and servers
	// rounds of packets packets.
	rounds, packets int
	// repeats of what takes long.
	repeats int
	// idle is how many seconds stand for a minute.
	idle int
	// settle is how long a flow runs before it is measured, window how long that takes, costRepeats how often, and exchanges how many
	// questions are asked each time.
	settle, window         time.Duration
	costRepeats, exchanges int
}

func fullSizes() sizes {
	return sizes{few: 10, some: 10_000, many: 100_000, rounds: 24, packets: 20_000, repeats: 9, idle: 20,
		settle: costSettle, window: costWindow, costRepeats: 3, exchanges: 200}
}

// runner takes the figures one after the other.
type runner struct {
	sizes
	layout  string
	program string // the path of bulkshaper
	folder  string // for files, its own
	report  func(figure)
	started int // daemons, so far
}

// run takes the figures of the groups whose name begins with only. What keeps one from being taken is told in its row.
func (r *runner) run(ctx context.Context, only string) {
	for _, group := range []struct {
		name string
		take func(context.Context)
	}{
		{"packet", r.packetFigures}, {"list", r.listFigures}, {"install", r.installFigures}, {"messages", r.messageFigures},
		{"daemon", r.daemonFigures}, {"repair", r.repairFigures}, {"goodput", r.goodputFigures}, {"costs", r.costFigures},
	} {
		if strings.HasPrefix(group.name, only) {
			group.take(ctx)
		}
	}
}

// apply does ops on b's interface; the error is that of the first that failed.
func (b *bed) apply(ctx context.Context, k *kernel.Kernel, ops []tc.Op) error {
	for _, result := range k.Apply(ctx, tc.Link{Index: b.index, Name: iface}, ops) {
		if result.Err != nil && !errors.Is(result.Err, tc.ErrNotTried) {
			return fmt.Errorf("%s: %w", result.Op, result.Err)
		}
	}
	return nil
}

// countOf writes 100000 as 100,000.
func countOf(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
