package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"bulkshaper/shaper"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/tc"
)

func statusCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "status",
		Short: "The classes by name: rate, now sending, sent, dropped, waiting, destinations",
		Long: `Asks the daemon where one runs, and otherwise reads config, inventory and kernel itself. "now" is measured over a second
unless --format json is given.`,
		Example: "  bulkshaper status\n  bulkshaper status --watch",
		Args:    cobra.NoArgs,
	}
	flags := addInputFlags(c)
	format := addFormat(c, "text", "json")
	watch := c.Flags().BoolP("watch", "w", false, "print again every second until interrupted")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := format.check(); err != nil {
			return err
		}
		ask, done, err := flags.statusSource(c.Context(), c.ErrOrStderr())
		if err != nil {
			return err
		}
		defer done()
		if format.value == "json" && !*watch {
			s, err := ask(c.Context())
			if err != nil {
				return err
			}
			return printJSON(c.OutOrStdout(), s)
		}
		return showStatus(c.Context(), c.OutOrStdout(), format.value, *watch, ask)
	}
	return c
}

// asker gives the status as it is now.
type asker func(context.Context) (shaper.Status, error)

// statusSource is the daemon's socket, or without a daemon that answers there our own reading. A config that was broken since
// the daemon read it does not keep it from answering.
func (f *inputFlags) statusSource(ctx context.Context, stderr io.Writer) (asker, func(), error) {
	cfg, broken := f.configOnly()
	if broken != nil {
		cfg = config.Default()
		if dir := f.keys.single["run-dir"]; *dir != "" {
			cfg.RunDir = *dir
		}
	}
	ask := daemonAsker(filepath.Join(cfg.RunDir, socketName))
	if s, err := ask(ctx); err == nil {
		switch name := *f.keys.single["interface"]; {
		case name != "" && name != s.Interface: // another interface is asked for than the daemon's
		case broken != nil:
			fmt.Fprintf(stderr, "warning: the daemon's answer; the config as it is now is wrong: %v\n", broken)
			fallthrough
		default:
			return ask, func() {}, nil
		}
	}
	n, err := f.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	return n.status, n.close, nil
}

func daemonAsker(socket string) asker {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	return func(ctx context.Context) (shaper.Status, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://daemon/api/v1/status", nil)
		if err != nil {
			return shaper.Status{}, err
		}
		response, err := client.Do(request)
		if err != nil {
			return shaper.Status{}, err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return shaper.Status{}, fmt.Errorf("ask the daemon at %s: %s", socket, response.Status)
		}
		var s shaper.Status
		err = json.NewDecoder(response.Body).Decode(&s)
		return s, err
	}
}

// status compares and counts without a daemon.
func (n *node) status(ctx context.Context) (shaper.Status, error) {
	state, err := n.kernel.Observe(ctx)
	if err != nil {
		return shaper.Status{}, err
	}
	stats, err := n.kernel.Stats(ctx)
	if err != nil {
		return shaper.Status{}, err
	}
	snap := shaper.SnapshotOf(n.input, n.desired)
	snap.LastReload, snap.LastSuccess = shaper.Reload{Time: n.read, Result: shaper.ReloadSuccess}, n.read
	snap.InterfaceUp, snap.Filters = state.Link.Up, shaper.CostsOf(n.desired.Plan, state.Filters)
	changes, err := diff.Compute(state, n.desired.Plan, diff.Options{})
	switch {
	case err != nil:
		snap.Reason = err.Error()
	case len(changes.Ops) > 0:
		snap.Reason = fmt.Sprintf("%s to do: run `bulkshaper plan`; no daemon answers", count(len(changes.Ops), "operation"))
	default:
		snap.InSync = true
	}
	if changes != nil {
		snap.Foreign = changes.Foreign
	}
	return shaper.StatusOf(snap, stats), nil
}

// showStatus prints tables, with what was sent between two readings.
func showStatus(ctx context.Context, w io.Writer, format string, again bool, ask asker) error {
	last, err := ask(ctx)
	if err != nil {
		return err
	}
	lastAt := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		s, err := ask(ctx)
		if err != nil {
			if again && ctx.Err() == nil {
				fmt.Fprintln(w, "no answer:", err)
				continue
			}
			return err
		}
		now := time.Now()
		if format == "json" {
			err = json.NewEncoder(w).Encode(s)
		} else {
			err = printStatus(w, s, last, now.Sub(lastAt), again)
		}
		if err != nil || !again {
			return err
		}
		last, lastAt = s, now
	}
}

// clearScreen moves to the top of a terminal and wipes it.
const clearScreen = "\x1b[H\x1b[2J"

func printStatus(w io.Writer, s, last shaper.Status, elapsed time.Duration, again bool) error {
	out := &errWriter{w: w}
	if again && isTerminal(w) {
		out.printf(clearScreen)
	}
	out.printf("%s on %s, cabinet %s: ", s.Interface, s.Node, orUnknown(s.Cabinet))
	if s.InSync {
		out.printf("in sync\n")
	} else {
		out.printf("NOT IN SYNC: %s\n", s.Reason)
	}
	if !s.Daemon {
		out.printf("no daemon answers: this command has read files and kernel itself\n")
	}
	if !s.InterfaceUp {
		out.printf("the interface is down\n")
	}
	if s.Contended {
		out.printf("CONTENDED: somebody keeps changing the shaping; repairs are spaced out\n")
	}
	if r := s.LastReload; r != nil && s.Daemon {
		out.printf("last reload: %s %s ago, %s\n", r.Result, time.Since(r.Time).Round(time.Second), count(r.Operations, "operation"))
		for _, p := range r.Problems {
			out.printf("  %s\n", p)
		}
	}
	for _, foreign := range s.Foreign {
		out.printf("not ours: %s\n", foreign)
	}
	out.printf("%s, %s; %d packets went past all classes\n\n", count(s.Servers, "server"), count(len(s.Warnings), "warning"), s.Direct)
	for _, f := range s.Filters {
		out.printf("%s: %s in %s, a packet is compared %.1f times on average and %d times at most\n", f.Protocol,
			count(f.Destinations, "destination"), count(f.Tables, "hash table"), f.Mean, f.Worst)
	}
	if len(s.Filters) > 0 {
		out.printf("\n")
	}
	before := map[string]uint64{}
	for _, c := range last.Classes {
		before[c.ClassID] = c.SentBytes
	}
	t := newTable("CLASS", "CLASSID", "RATE", "CEIL", "NOW", "SENT", "PACKETS", "DROPPED", "BACKLOG", "BORROWED", "DESTINATIONS")
	for _, c := range s.Classes {
		now := "-"
		if was, ok := before[c.ClassID]; ok && c.SentBytes >= was && elapsed > 0 {
			now = humanRate(float64(c.SentBytes-was) * 8 / elapsed.Seconds())
		}
		if !c.Standing {
			now = "missing"
		}
		t.row(c.Name, c.ClassID, tc.BitRate(c.Rate), tc.BitRate(c.Ceil), now, humanBytes(c.SentBytes), c.SentPackets, c.Dropped,
			humanBytes(c.BacklogBytes), c.Borrowed, c.Destinations)
	}
	out.printf("%s", t)
	return out.err
}

func humanRate(bits float64) string { return human(bits, 1000, "bit", "kbit", "mbit", "gbit", "tbit") }

func humanBytes(n uint64) string {
	return human(float64(n), 1024, "B", "KiB", "MiB", "GiB", "TiB", "PiB")
}

// human is v with at most one decimal in the largest unit that keeps it over 1.
func human(v, step float64, units ...string) string {
	i := 0
	for v >= step && i < len(units)-1 {
		v, i = v/step, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%.0f%s", v, units[i])
	}
	return fmt.Sprintf("%.1f%s", v, units[i])
}
