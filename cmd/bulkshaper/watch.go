package main

import (
	"context"
	"io"
	"os"
	"time"

	"bulkshaper/cmd/bulkshaper/live"
)

// watchStatus shows the status on a terminal. One that cannot move its cursor gets lines.
func watchStatus(ctx context.Context, w io.Writer, src *source, interval time.Duration) error {
	if term := os.Getenv("TERM"); term == "dumb" || term == "" {
		return followStatus(ctx, w, "text", src, interval)
	}
	return live.Run(ctx, w, live.Options{Ask: src.ask, Recent: src.recent, Source: src.name, Interval: interval, Style: styleOf(w)})
}
