package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"bulkshaper/cmd/bulkshaper/ask"
	"bulkshaper/shaper"
	"bulkshaper/shaper/claim"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/confirm"
	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/kernel"
	"bulkshaper/shaper/tc"
)

func applyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "apply",
		Short: "Shape this node once",
		Long: `Does once what the daemon does all the time: reads config and inventory, compares the wanted state with what stands in the
kernel, and does the operations that are missing. A second apply does nothing.

With --confirm the shaping of before comes back by itself unless it is confirmed, also when the terminal or this process is gone: a
process of its own waits for that, which an end of the session by logind's KillUserProcesses or of the service that it was started
in ends as well, and then it puts back at once. A root qdisc that is somebody else's could not be put back, so --takeover and --confirm do
not go together where there is one. While a daemon shapes the interface, which would undo it, apply is refused.`,
		Example: "  bulkshaper apply --interface eth1 --roles roles.json --servers jsons/\n  bulkshaper apply --confirm 60s",
		Args:    cobra.NoArgs,
	}
	flags := addInputFlags(c)
	beside := addBeside(c)
	within := c.Flags().String("confirm", "", "put the shaping before back unless bulkshaper confirm comes within so `long`, for example 60s")
	c.RunE = func(c *cobra.Command, _ []string) error {
		var length time.Duration
		if c.Flags().Changed("confirm") {
			var err error
			if length, err = confirmLength(*within); err != nil {
				return wrong(err)
			}
		}
		n, err := flags.open(c.Context())
		if err != nil {
			return err
		}
		defer n.close()
		warn(c.ErrOrStderr(), n.desired.Warnings)
		n.tellOverrides(c.ErrOrStderr())
		if length > 0 {
			n.input.Config.Takeover = false // what is somebody else's could not be put back
			return n.applyGuarded(c.Context(), length, c.OutOrStdout())
		}
		place := confirm.Place{Dir: n.input.Config.RunDir, Interface: n.input.Config.Interface}
		if err := notWhilePending(place); err != nil {
			return err
		}
		if err := beside.check(c.Context(), c.ErrOrStderr(), n.input.Config); err != nil {
			return err
		}
		n.advise(c.ErrOrStderr())
		if _, err = n.apply(c.Context(), c.OutOrStdout()); err != nil {
			return err
		}
		if err := place.Over(); err != nil {
			fmt.Fprintf(c.ErrOrStderr(), "warning: `status` goes on to tell of an earlier apply --confirm: %v\n", err)
		}
		return nil
	}
	return c
}

// advise says what to do where somebody else's root is about to be replaced.
func (n *node) advise(stderr io.Writer) {
	if diff.Ownership(n.state).Kind != diff.Foreign {
		return
	}
	changes, err := diff.Compute(n.state, n.desired.Plan, diff.Options{Takeover: n.input.Config.Takeover})
	if err == nil && changes.Advice != "" { // apply itself tells the error
		fmt.Fprintf(stderr, "warning: %s\n", changes.Advice)
	}
}

// apply shapes, and gives how many operations that took.
func (n *node) apply(ctx context.Context, w io.Writer) (done int, err error) {
	start := time.Now()
	n.state, done, err = shaper.Bring(ctx, n.kernel, n.state, n.desired.Plan, diff.Options{Takeover: n.input.Config.Takeover})
	switch {
	case err != nil && done > 0:
		return done, fmt.Errorf("%w; %s done before that stand, run apply again when the cause is mended", err, count(done, "operation"))
	case err != nil:
		return done, err
	}
	_, err = fmt.Fprintf(w, "%s shaped as %s: %s in %s, %s, %s\n", n.desired.Plan.Interface, n.desired.Plan.Node, count(done, "operation"),
		time.Since(start).Round(time.Millisecond), count(len(n.desired.Plan.Classes), "class"), count(len(n.desired.Plan.Destinations), "destination"))
	return done, err
}

// daemonShapes names the daemon that shapes the interface: the one with the run folder dir, or one with another that is in this network
// namespace; "" for none. The error says that this user may not ask.
func daemonShapes(ctx context.Context, dir, iface string) (string, error) {
	if holder, held := claim.Find(iface); held {
		return fmt.Sprintf("a daemon (%s)", holder), nil
	}
	_, _, err := ask.First(ctx, []*ask.Daemon{ask.Socket(dir)}, iface)
	var silent *ask.SilentError
	switch {
	case err == nil:
		return "a daemon", nil
	case errors.As(err, &silent) && silent.Denied != "":
		return "", err
	}
	return "", nil
}

// beside is whether something is done although a daemon is there that undoes it.
type beside struct{ allowed *bool }

func addBeside(c *cobra.Command) beside {
	return beside{c.Flags().Bool("beside-daemon", false, "do it although a daemon shapes the interface, which undoes it at once")}
}

// check refuses what a daemon would undo at once, and not without packets lost.
func (b beside) check(ctx context.Context, stderr io.Writer, cfg *config.Config) error {
	daemon, err := daemonShapes(ctx, cfg.RunDir, cfg.Interface)
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "warning: whether a daemon shapes %s is not known: %v\n", cfg.Interface, err)
	case daemon != "" && *b.allowed:
		fmt.Fprintf(stderr, "warning: %s keeps %s as its own files say, and undoes at once what is otherwise\n", daemon, cfg.Interface)
	case daemon != "":
		return fmt.Errorf("%s keeps %s as its own files say, and would undo this at once; nothing was changed: stop it first (`systemctl stop bulkshaper`; "+
			"the shaping stays), or give --beside-daemon", daemon, cfg.Interface)
	}
	return nil
}

func clearCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "clear",
		Short: "Remove our shaping from the interface, and nothing else",
		Long: `Removes what bulkshaper made on the interface. While a daemon shapes it, which would shape it again at once, and while an apply waits to
be confirmed, it is refused.`,
		Example: "  bulkshaper clear --interface eth1",
		Args:    cobra.NoArgs,
	}
	flags := addInputFlags(c)
	beside := addBeside(c)
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
		if err := notWhilePending(confirm.Place{Dir: cfg.RunDir, Interface: iface}); err != nil {
			return err
		}
		if err := beside.check(c.Context(), c.ErrOrStderr(), cfg); err != nil {
			return err
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
