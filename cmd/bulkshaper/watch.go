package main

import (
	"context"
	"io"
	"time"
)

func watchStatus(ctx context.Context, w io.Writer, src *source, interval time.Duration) error {
	return followStatus(ctx, w, "text", src, interval)
}
