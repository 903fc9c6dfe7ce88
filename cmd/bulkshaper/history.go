package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"bulkshaper/metrics"
	"bulkshaper/shaper"
	"bulkshaper/shaper/words"
)

func historyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "history",
		Short: "What happened to the shaping: the last hundred changes, repairs, refusals and overrides, and why",
		Long: `Asks the daemon what it did and why, newest first. A restart of the daemon does not lose it, a reboot does. Without a daemon
it shows what the last one left.`,
		Example: "  bulkshaper history\n  bulkshaper history -n 5",
		Args:    cobra.NoArgs,
	}
	flags := addInputFlags(c)
	format := addFormat(c, "text", "json")
	most := c.Flags().IntP("number", "n", shaper.HistoryLength, "how many at most")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := format.check(); err != nil {
			return err
		}
		if *most < 1 {
			return wrong(fmt.Errorf("--number %d: give at least 1", *most))
		}
		p := flags.place()
		p.tellWhere(c.ErrOrStderr())
		answer, err := p.history(c.Context(), c.ErrOrStderr())
		if err != nil {
			return err
		}
		answer.Events = answer.Events[:min(len(answer.Events), *most)]
		if format.value == "json" {
			return printJSON(c.OutOrStdout(), answer)
		}
		return printHistory(c.OutOrStdout(), answer.Events)
	}
	return c
}

// history is what the daemon tells, or what the last one left.
func (p place) history(ctx context.Context, stderr io.Writer) (metrics.HistoryAnswer, error) {
	d, _, silent := p.ask(ctx)
	if silent == nil {
		return d.History(ctx)
	}
	if other := otherInterface(silent); other != nil {
		fmt.Fprintf(stderr, "warning: the daemon's answer; %s\n", other.OtherInterface())
		return other.Other.History(ctx)
	}
	events, err := shaper.ReadHistory(p.runDir)
	switch {
	case err != nil:
		return metrics.HistoryAnswer{}, fmt.Errorf("%w; what was kept cannot be read either: %w", silent, err)
	case events == nil:
		return metrics.HistoryAnswer{}, fmt.Errorf("%w, and no history is kept in %s", silent, p.runDir)
	}
	fmt.Fprintf(stderr, "warning: %v; this is what is kept in %s\n", silent, p.runDir)
	slices.Reverse(events)
	return metrics.HistoryAnswer{Interface: p.iface, Events: events}, nil
}

// printHistory prints an event in a line, and below it what was done or what is wrong.
func printHistory(w io.Writer, events []shaper.Event) error {
	out := &errWriter{w: w}
	if len(events) == 0 {
		out.printf("nothing happened yet\n")
	}
	for _, e := range events {
		out.printf("%s  %-9s  %s\n", e.Time.Local().Format(time.DateTime), e.Kind, e.Why)
		for _, file := range e.Files {
			out.printf("    file: %s\n", file)
		}
		if e.FilesMore > 0 {
			out.printf("    and %s more\n", count(e.FilesMore, "file"))
		}
		if e.Error != "" {
			out.printf("    %s\n", e.Error)
		}
		for _, p := range e.Problems {
			out.printf("    %s\n", p)
		}
		if e.Rebuild != "" {
			out.printf("    the root qdisc was set up again: %s\n", e.Rebuild)
		}
		if e.Takeover != "" {
			out.printf("    taken over in place: %s\n", e.Takeover)
		}
		for _, o := range e.Operations {
			out.printf("    %s %s\n", o.Verb, count(o.Count, o.Object))
			for _, example := range o.Examples {
				out.printf("      %s\n", words.Because(named(example), example.Why))
			}
			if more := o.Count - len(o.Examples); more > 0 {
				out.printf("      and %d more\n", more)
			}
		}
		if len(e.Operations) > 0 {
			felt := "hitless"
			if !e.Hitless {
				felt = "NOT HITLESS"
			}
			out.printf("    %s, took %s\n", felt, time.Duration(e.Took*float64(time.Second)).Round(100*time.Microsecond))
		}
	}
	return out.err
}

// named is an object with the name of its class.
func named(o shaper.OperationDone) string {
	if o.Class == "" {
		return o.Object
	}
	return o.Object + " (" + o.Class + ")"
}
