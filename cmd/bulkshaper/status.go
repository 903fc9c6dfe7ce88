package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"bulkshaper/cmd/bulkshaper/screen"
	"bulkshaper/cmd/bulkshaper/view"
	"bulkshaper/shaper"
)

func statusCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "status",
		Short: "The classes by name: rate, sending now, sent, dropped, waiting, destinations",
		Long: `Who this node is, whether the kernel holds what config and inventory say and if not why, what the last edit changed, and a
line for each class. The daemon is asked at its socket in run_dir, then at metrics.listen; without one, config, inventory and
kernel are read here. The first lines say who answered. While the files are broken, without a daemon, it shows what stands and
exits with 2.

SENDING is the mean of the last seconds. The columns are those that fit; COLUMNS says how wide what is no terminal is.
--watch is a live view on a terminal (? lists its keys), and lines elsewhere. --format json is one answer, with --watch one a
line; in it "sending_bits_per_second" is there where a daemon answers, or with --interval.`,
		Example: `  bulkshaper status
  bulkshaper status --watch
  bulkshaper status --format json --interval 1s`,
		Args: cobra.NoArgs,
	}
	flags := addInputFlags(c)
	format := addFormat(c, "text", "json")
	watch := c.Flags().BoolP("watch", "w", false, "show it again and again")
	interval := c.Flags().Duration("interval", time.Second, "time between two readings")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := format.check(); err != nil {
			return err
		}
		if *interval < 100*time.Millisecond {
			return wrong(fmt.Errorf("--interval %s: less than 100ms measures nothing", *interval))
		}
		src, err := flags.statusSource(c.Context(), c.ErrOrStderr())
		if err != nil {
			return err
		}
		defer src.close()
		if src.broken != nil && *watch {
			return src.broken // there is nothing to wait for: this command does not see the files get well
		}
		switch w := c.OutOrStdout(); {
		case format.value == "json" && !*watch:
			s, err := src.ask(c.Context())
			if err == nil && c.Flags().Changed("interval") {
				s, err = src.measured(c.Context(), s, *interval)
			}
			if err != nil {
				return errors.Join(src.broken, err)
			}
			return errors.Join(src.broken, printJSON(w, s))
		case *watch && format.value == "text" && isTerminal(w):
			return watchStatus(c.Context(), w, src, *interval)
		case *watch:
			return followStatus(c.Context(), w, format.value, src, *interval)
		default:
			return errors.Join(src.broken, showStatus(c.Context(), w, src, *interval))
		}
	}
	return c
}

// measured is a status that says what the classes send: that of now where somebody has kept an earlier reading, else one after interval.
func (src *source) measured(ctx context.Context, s shaper.Status, interval time.Duration) (shaper.Status, error) {
	if s.SendingOver > 0 || len(s.Classes) == 0 {
		return s, nil
	}
	if err := pause(ctx, interval); err != nil {
		return s, err
	}
	next, err := src.ask(ctx)
	if err == nil && next.SendingOver == 0 {
		view.Measure(s, &next)
	}
	return next, err
}

func showStatus(ctx context.Context, w io.Writer, src *source, interval time.Duration) error {
	s, err := src.ask(ctx)
	if err == nil {
		s, err = src.measured(ctx, s, interval)
	}
	if err != nil {
		return err
	}
	return printLines(w, view.StatusLines(styleOf(w), view.Status{Status: s, Source: src.name, Now: time.Now()}, view.StatusOptions{}))
}

// followStatus prints lines, one a class at each reading, for what is no terminal; or JSON. A daemon that does not answer for a while is
// told and asked again.
func followStatus(ctx context.Context, w io.Writer, format string, src *source, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var last shaper.Status
	out := &errWriter{w: w}
	for {
		s, err := src.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			out.printf("%s no answer: %v\n", time.Now().Format(time.TimeOnly), err)
		case format == "json":
			view.Measure(last, &s)
			if out.err == nil {
				out.err = json.NewEncoder(w).Encode(s)
			}
		default:
			view.Measure(last, &s)
			for _, line := range view.StatusFlat(screen.Style{Unicode: styleOf(w).Unicode}, s) {
				out.printf("%s\n", line)
			}
		}
		if out.err != nil {
			return out.err
		}
		if err == nil {
			last = s
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func printLines(w io.Writer, lines []string) error {
	out := &errWriter{w: w}
	for _, line := range lines {
		out.printf("%s\n", line)
	}
	return out.err
}
