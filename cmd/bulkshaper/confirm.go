package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/syslog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"bulkshaper/shaper/confirm"
	"bulkshaper/shaper/kernel"
	"bulkshaper/shaper/runfile"
)

func confirmCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "confirm",
		Short: "Keep the shaping of an `apply --confirm`, which is taken back otherwise",
		Long: `Keeps what the last apply --confirm made. Exits with 1 where there is nothing to keep: nobody waits, or the shaping of before was
put back already.`,
		Example: "  bulkshaper confirm\n  bulkshaper confirm --back",
		Args:    cobra.NoArgs,
	}
	flags := addInputFlags(c)
	back := c.Flags().Bool("back", false, "put back the shaping of before now, without waiting for the end")
	c.RunE = func(c *cobra.Command, _ []string) error {
		p := flags.place()
		p.tellWhere(c.ErrOrStderr())
		if p.broken != nil && p.iface == "" {
			return p.broken
		}
		word := confirm.Keep
		if *back {
			word = confirm.Back
		}
		place := confirm.Place{Dir: p.runDir, Interface: p.iface}
		text, err := place.Ask(word)
		switch {
		case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED):
			return nobodyWaits(place)
		case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF): // it died while it was asked
			return nobodyWaits(place)
		case errors.Is(err, os.ErrPermission):
			return fmt.Errorf("%w; run it as root", err)
		case err != nil:
			return err
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s: %s\n", place.Interface, text)
		return err
	}
	return c
}

// nobodyWaits says what became of the last apply that was to be confirmed.
func nobodyWaits(place confirm.Place) error {
	last, ok := place.Last()
	switch {
	case !ok:
		return fmt.Errorf("nothing on %s waits for confirmation", place.Interface)
	case last.Outcome == "":
		return fmt.Errorf("nothing on %s waits for confirmation: %s; `bulkshaper plan` compares it with the files", place.Interface, place.Lost())
	}
	return fmt.Errorf("nothing on %s waits for confirmation: %s, at %s", place.Interface, last.Outcome, last.Done.Local().Format(time.DateTime))
}

// notWhilePending refuses to shape while an apply waits to be confirmed: what came between would be taken back, too.
func notWhilePending(place confirm.Place) error {
	if text := pendingText(place); text != "" {
		return errors.New(text)
	}
	return nil
}

// pendingText says that an apply waits to be confirmed, "" where none does.
func pendingText(place confirm.Place) string {
	until, pending := place.Pending()
	if !pending {
		return ""
	}
	return fmt.Sprintf("an apply on %s waits for confirmation until %s: run `bulkshaper confirm` to keep it, or `bulkshaper confirm --back`",
		place.Interface, until.Local().Format(time.DateTime))
}

// untilConfirmed is why a daemon has to wait, "" where it shapes from now on: then what became of earlier applies is of no interest.
func untilConfirmed(place confirm.Place) string {
	text := pendingText(place)
	if text == "" {
		_ = place.Over() // a run folder that cannot be written is told of already
	}
	return text
}

// guardArgument is the hidden command that the guard is started as.
const guardArgument = "confirm-guard"

// applyGuarded does an apply that is taken back unless it is confirmed.
func (n *node) applyGuarded(ctx context.Context, length time.Duration, w io.Writer) error {
	dir, err := filepath.Abs(n.input.Config.RunDir)
	if err != nil {
		return err
	}
	place := confirm.Place{Dir: dir, Interface: n.input.Config.Interface}
	if daemon, _ := daemonShapes(ctx, dir, place.Interface); daemon != "" { // who may not ask may not make the folder's lock either
		return fmt.Errorf("%s keeps %s as the files say, and would undo what is put back: stop it first (`systemctl stop bulkshaper`; the shaping stays), "+
			"apply --confirm, confirm, and start it again", daemon, place.Interface)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the run folder: %w", err)
	}
	lock, err := place.Lock()
	switch {
	case errors.Is(err, runfile.ErrLocked):
		if err := notWhilePending(place); err != nil {
			return err
		}
		return fmt.Errorf("another apply --confirm is at work on %s; try again", place.Interface)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w; run it as root", err)
	case err != nil:
		return err
	}
	defer lock.Close()
	guard, err := confirm.Start([]string{"bulkshaper", guardArgument, "--interface", place.Interface, "--run-dir", dir, "--for", length.String()}, lock)
	if err != nil {
		return err
	}
	done, err := n.apply(ctx, w)
	switch {
	case err != nil:
		text, failed := guard.Failed()
		if text != "" {
			err = fmt.Errorf("%w; %s", err, text)
		}
		return errors.Join(err, failed)
	case done == 0:
		if err := guard.Unchanged(); err != nil {
			return err
		}
		_, err = fmt.Fprintln(w, "nothing was changed, so nothing has to be confirmed")
		return err
	}
	if err := guard.Applied(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "run `bulkshaper confirm` within %s to keep it, or the shaping before comes back at %s\n", short(length),
		time.Now().Add(length).Format(time.TimeOnly))
	return err
}

// shortestConfirm and longestConfirm bound the time to confirm: a person has to type, and one who has not within an hour is gone.
const (
	shortestConfirm = time.Second
	longestConfirm  = time.Hour
)

// confirmLength reads --confirm.
func confirmLength(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("--confirm %q is no length of time; write it like 60s or 5m", text)
	case d < shortestConfirm || d > longestConfirm:
		return 0, fmt.Errorf("--confirm %s is not between %s and %s", text, short(shortestConfirm), short(longestConfirm))
	}
	return d, nil
}

// short is d as people write it, 1m and not 1m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func guardCommand() *cobra.Command {
	c := &cobra.Command{
		Use:    guardArgument,
		Short:  "What apply --confirm starts and leaves behind; not for people",
		Args:   cobra.NoArgs,
		Hidden: true,
	}
	place := confirm.Place{}
	c.Flags().StringVar(&place.Interface, "interface", "", "the `interface`")
	c.Flags().StringVar(&place.Dir, "run-dir", "", "the run `folder`")
	length := c.Flags().Duration("for", 0, "how `long` it waits")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if os.Getppid() == 0 || place.Interface == "" || place.Dir == "" || *length < shortestConfirm {
			return wrong(fmt.Errorf("%s is started by apply --confirm", guardArgument))
		}
		return guard(c.Context(), place, *length)
	}
	return c
}

// guard is the process that waits. SIGTERM ends ctx, and so the waiting: a service manager that stops what the apply belonged to leaves
// the shaping of before. SIGHUP is what a session sends that ends.
func guard(ctx context.Context, place confirm.Place, length time.Duration) error {
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	// Whoever runs out of memory must not lose the way back; without the privilege for that it is as likely a victim as others.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0o644)
	lock, parent := confirm.Inherited()
	defer lock.Close()
	defer parent.Close()
	k, err := kernel.Open(kernel.Options{Interface: place.Interface, Log: zap.NewNop()})
	if err != nil {
		return err
	}
	defer k.Close()
	g := confirm.Guard{Place: place, Kernel: k, For: length, Parent: parent, Log: func(text string) { toSyslog(place.Interface + ": " + text) }}
	return g.Run(ctx)
}

// toSyslog tells the system's log, and nobody where there is none: the record in the run folder has it as well.
func toSyslog(text string) {
	w, err := syslog.New(syslog.LOG_DAEMON|syslog.LOG_WARNING, "bulkshaper")
	if err != nil {
		return
	}
	defer w.Close()
	_ = w.Warning(text)
}
