package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"bulkshaper/shaper"
	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/kernel"
	"bulkshaper/shaper/tc"
)

func applyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "apply",
		Short: "Shape this node once",
		Long: `Does once what the daemon does all the time: reads config and inventory, compares the wanted state with what stands in the
kernel, and does the operations that are missing. A second apply does nothing.`,
		Example: "  bulkshaper apply --interface eth1 --roles roles.json --servers jsons/",
		Args:    cobra.NoArgs,
	}
	flags := addInputFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		n, err := flags.open(c.Context())
		if err != nil {
			return err
		}
		defer n.close()
		warn(c.ErrOrStderr(), n.desired.Warnings)
		n.tellOverrides(c.ErrOrStderr())
		return n.apply(c.Context(), c.OutOrStdout())
	}
	return c
}

// applyTries is how often an apply goes on after somebody changed the kernel under it, or while a class drains.
const applyTries = 100

func (n *node) apply(ctx context.Context, w io.Writer) error {
	options := diff.Options{Takeover: n.input.Config.Takeover}
	start := time.Now()
	drained := start.Add(shaper.DrainWait)
	done := 0
	for try := 1; ; try++ {
		keep := func(id tc.Handle) bool { return time.Now().Before(drained) && n.backlogged(ctx, id) }
		out, err := shaper.Converge(ctx, n.kernel, n.state, n.desired.Plan, options, keep)
		done += out.Done()
		switch {
		case raced(err) && try < raceTries:
			time.Sleep(rand.N(shaper.DrainPoll))
		case err != nil && done > 0:
			return fmt.Errorf("%w; %s done before that stand, run apply again when the cause is mended", err, count(done, "operation"))
		case err != nil:
			return err
		case out.Converged:
			_, err = fmt.Fprintf(w, "%s shaped as %s: %s in %s, %s, %s\n", n.desired.Plan.Interface, n.desired.Plan.Node, count(done, "operation"),
				time.Since(start).Round(time.Millisecond), count(len(n.desired.Plan.Classes), "class"), count(len(n.desired.Plan.Destinations), "destination"))
			return err
		case try == applyTries:
			return fmt.Errorf("%s: %w", n.desired.Plan.Interface, shaper.ErrNotConverged)
		default:
			time.Sleep(shaper.DrainPoll)
		}
		if n.state, err = n.kernel.Observe(ctx); err != nil {
			return err
		}
	}
}

// raceTries is how often an apply that met another one at work looks again at what stands.
const raceTries = 10

// raced tells whether the kernel was not as it had been observed a moment before.
func raced(err error) bool {
	for _, sign := range []error{shaper.ErrNotConverged, syscall.EEXIST, syscall.ENOENT, syscall.EBUSY} {
		if errors.Is(err, sign) {
			return true
		}
	}
	return false
}

func (n *node) backlogged(ctx context.Context, id tc.Handle) bool {
	stats, err := n.kernel.Stats(ctx)
	if err != nil {
		return false
	}
	for _, c := range stats.Classes {
		if c.Class.ID == id {
			return c.BacklogPackets > 0
		}
	}
	return false
}

func clearCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "clear",
		Short:   "Remove our shaping from the interface, and nothing else",
		Example: "  bulkshaper clear --interface eth1",
		Args:    cobra.NoArgs,
	}
	flags := addInputFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := flags.configOnly()
		if err != nil {
			return err
		}
		if err := needInterface(cfg); err != nil {
			return err
		}
		iface := cfg.Interface
		k, err := kernel.Open(kernel.Options{Interface: iface, Log: zap.NewNop()})
		if err != nil {
			return err
		}
		defer k.Close()
		state, err := k.Observe(c.Context())
		if err != nil {
			return noInterface(err)
		}
		ops, err := diff.Clear(state)
		if err != nil {
			return err
		}
		if s, err := daemonAsker(filepath.Join(cfg.RunDir, socketName))(c.Context()); err == nil && s.Interface == iface {
			fmt.Fprintf(c.ErrOrStderr(), "warning: a daemon shapes %s and will do so again at once; stop it first\n", iface)
		}
		for _, r := range shaper.Apply(c.Context(), k, state.Link, ops) {
			if r.Err != nil {
				return fmt.Errorf("%s: %w", r.Op, r.Err)
			}
		}
		text := iface + " is no longer shaped"
		if len(ops) == 0 && diff.Ownership(state).Kind == diff.Ours {
			text = iface + ": nothing more to remove; the root qdisc stays for the classes and filters on it that are not ours"
		} else if len(ops) == 0 {
			text = iface + " was not shaped by bulkshaper; nothing to remove"
		} else if q, ok := ops[0].Object.(tc.Qdisc); !ok || q.Parent != tc.Root {
			text += "; its root qdisc stays for the classes and filters on it that are not ours"
		}
		_, err = fmt.Fprintln(c.OutOrStdout(), text)
		return err
	}
	return c
}
