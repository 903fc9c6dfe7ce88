package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bulkshaper/cmd/bulkshaper/ask"
	"bulkshaper/cmd/bulkshaper/screen"
	"bulkshaper/cmd/bulkshaper/view"
	"bulkshaper/shaper"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/override"
	"bulkshaper/shaper/tc"
)

func overrideCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "override CLASS rate=RATE [ceil=RATE]",
		Short: "Hold a class to another rate for a while; it ends by itself",
		Long: `Puts a rate over the config's until the time is over. The running daemon follows at once, also after a restart, and takes it
back when it ends. Without ceil= the class gets no more than the rate, also where it could borrow; above the ceil of the
config it gets only with ceil=. What the config could not have, an override cannot have either. A second one for the class
takes the place of the first. It is written into the run folder, so it takes root or the daemon's user.`,
		Example: `  bulkshaper override cross-cabinet rate=50mbit --for 30m --why "archive copy, ticket 4711"
  bulkshaper override list
  bulkshaper override clear cross-cabinet`,
		Args: cobra.MinimumNArgs(1),
	}
	flags := addInputFlags(c)
	c.ValidArgsFunction = flags.classNames
	length := c.Flags().String("for", "", "how `long`, for example 30m or 2h; at most 7 days")
	why := c.Flags().String("why", "", "a `text` for those who wonder")
	c.RunE = func(c *cobra.Command, args []string) error {
		if strings.Contains(args[0], "=") {
			return wrong(fmt.Errorf("%q is no class; write it like `bulkshaper override cross-cabinet rate=50mbit --for 30m`", args[0]))
		}
		rate, ceil, err := override.ParseSettings(args[1:])
		if err != nil {
			return wrong(err)
		}
		for _, setting := range args[1:] {
			key, value, _ := strings.Cut(setting, "=")
			if taken, remedy, ok := config.InBytes(value); ok {
				fmt.Fprintf(c.ErrOrStderr(), "warning: %s: %s; %s\n", key, taken, remedy)
			}
		}
		d, err := override.ParseLength(*length)
		if err != nil {
			return wrong(fmt.Errorf("--for: %w", err))
		}
		o, err := flags.overrides(c)
		if err != nil {
			return err
		}
		next := override.New(o.rates.Interface, args[0], rate, ceil, time.Now(), d)
		if err := next.Say(*why, whoAmI()); err != nil {
			return wrong(err)
		}
		return o.set(c.Context(), next, time.Now())
	}
	c.AddCommand(overrideListCommand(), overrideClearCommand())
	return c
}

func overrideListCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Short:   "The overrides in force, and when they end",
		Example: "  bulkshaper override list",
		Args:    cobra.NoArgs,
	}
	flags := addInputFlags(c)
	format := addFormat(c, "text", "json")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := format.check(); err != nil {
			return err
		}
		o, err := flags.overrides(c)
		if err != nil {
			return err
		}
		if o.daemonSays != "" {
			fmt.Fprintf(c.ErrOrStderr(), "warning: the daemon follows no more than what is listed: %s\n", o.daemonSays)
		}
		if format.value == "json" {
			return printJSON(c.OutOrStdout(), o.inForce)
		}
		if o.notFollowed && len(o.inForce) == 0 {
			_, err := fmt.Fprintf(c.OutOrStdout(), "no override is followed on %s\n", o.rates.Interface)
			return err
		}
		return printOverrides(c.OutOrStdout(), o.rates.Interface, o.inForce, time.Now())
	}
	return c
}

func overrideClearCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "clear [CLASS]",
		Short:   "End an override, or all of them, now",
		Example: "  bulkshaper override clear cross-cabinet",
		Args:    cobra.MaximumNArgs(1),
	}
	flags := addInputFlags(c)
	c.ValidArgsFunction = flags.classNames
	c.RunE = func(c *cobra.Command, args []string) error {
		o, err := flags.overrides(c)
		if err != nil {
			return err
		}
		class := ""
		if len(args) == 1 {
			class = args[0]
		}
		return o.clear(c.Context(), class, time.Now())
	}
	return c
}

// overriding is what the override commands work with.
type overriding struct {
	place
	store override.Store
	// silent is why no daemon answers, nil where one does.
	silent error
	// rates are those of the config, without overrides; inForce are the overrides that the daemon, or the next apply, follows.
	rates   override.Rates
	inForce []shaper.OverrideStatus
	// daemonSays is why the daemon does not follow others, "" where there are none or this command has said so itself; notFollowed says
	// that there are some, or may be.
	daemonSays  string
	notFollowed bool
	stdout      io.Writer
	stderr      io.Writer
}

// overrides asks the daemon, who knows what it follows, or reads config, inventory and interface itself.
func (f *inputFlags) overrides(c *cobra.Command) (*overriding, error) {
	p := f.place()
	p.tellWhere(c.ErrOrStderr())
	_, status, silent := p.ask(c.Context())
	other := otherInterface(silent)
	if other != nil {
		fmt.Fprintf(c.ErrOrStderr(), "warning: what follows is of the daemon; %s\n", other.OtherInterface())
		status = other.Status
	}
	daemonSays, notFollowed := status.OverridesError, status.OverridesError != ""
	if silent != nil && other == nil {
		var denied *ask.SilentError
		if errors.As(silent, &denied) && denied.Denied != "" {
			fmt.Fprintf(c.ErrOrStderr(), "warning: %v; what follows is read from the files\n", silent)
		}
		n, err := f.open(c.Context())
		if err != nil {
			return nil, err
		}
		defer n.close()
		n.tellOverrides(c.ErrOrStderr())
		notFollowed = n.notFollowed() != ""
		status = shaper.StatusOf(shaper.SnapshotOf(n.input, n.desired), tc.Stats{})
	}
	return &overriding{place: p, store: override.Store{Dir: p.runDir}, silent: silent, rates: configuredRates(status), inForce: status.Overrides,
		daemonSays: daemonSays, notFollowed: notFollowed, stdout: c.OutOrStdout(), stderr: c.ErrOrStderr()}, nil
}

// configuredRates are the classes of a status as they are without overrides.
func configuredRates(s shaper.Status) override.Rates {
	rates := override.Rates{Interface: s.Interface, Link: tc.BitRate(s.LinkRate)}
	names := map[string]string{}
	for _, c := range s.Classes {
		names[c.ClassID] = c.Name
	}
	for _, c := range s.Classes {
		l := override.Limits{Name: c.Name, Parent: names[c.Parent], Rate: tc.BitRate(c.Rate), Ceil: tc.BitRate(c.Ceil)}
		for _, o := range s.Overrides {
			if o.Class == c.Name {
				l.Rate, l.Ceil = tc.BitRate(o.ConfiguredRate), tc.BitRate(o.ConfiguredCeil)
			}
		}
		if c.Name != tc.ControlName {
			rates.Classes = append(rates.Classes, l)
		}
	}
	return rates
}

func (o *overriding) set(ctx context.Context, next override.Override, now time.Time) error {
	err := o.write(func(list []override.Override) ([]override.Override, error) { return o.rates.Set(list, next, now) })
	if err != nil {
		return err
	}
	inForce, _ := o.rates.Apply([]override.Override{next})
	for _, f := range inForce { // one, but for one that goes only together with others
		fmt.Fprintf(o.stdout, "%s on %s: rate %s (configured %s), ceil %s (configured %s), until %s\n", next.Class, next.Interface,
			view.Held(uint64(f.Limits.Rate)), view.Held(uint64(f.Configured.Rate)), view.Held(uint64(f.Limits.Ceil)), view.Held(uint64(f.Configured.Ceil)), screen.Until(next.Until, now))
	}
	return o.taken(ctx, func(s shaper.Status) bool {
		for _, standing := range s.Overrides {
			if standing.Class == next.Class && standing.Until.Equal(next.Until) && standing.Since.Equal(next.Since) {
				return standsAt(s, next.Class, standing.Rate)
			}
		}
		return false
	}, "`bulkshaper apply` shapes with it now, but takes it back only when it is run again after the end")
}

func (o *overriding) clear(ctx context.Context, class string, now time.Time) error {
	var cleared []override.Override
	err := o.write(func(list []override.Override) (rest []override.Override, err error) {
		rest, cleared, err = o.rates.Clear(list, class, now)
		return rest, err
	})
	switch {
	case err != nil:
		return err
	case len(cleared) == 0 && class == "":
		fmt.Fprintf(o.stdout, "no overrides on %s\n", o.rates.Interface)
		return nil
	case len(cleared) == 0:
		fmt.Fprintf(o.stdout, "no override of %s on %s\n", class, o.rates.Interface)
		return nil
	}
	for _, was := range cleared {
		fmt.Fprintf(o.stdout, "%s on %s: no longer overridden\n", was.Class, was.Interface)
	}
	return o.taken(ctx, func(s shaper.Status) bool {
		return !slices.ContainsFunc(cleared, func(was override.Override) bool {
			configured := slices.IndexFunc(o.rates.Classes, func(l override.Limits) bool { return l.Name == was.Class })
			return slices.ContainsFunc(s.Overrides, func(f shaper.OverrideStatus) bool { return f.Class == was.Class && f.Since.Equal(was.Since) }) ||
				configured >= 0 && !standsAt(s, was.Class, uint64(o.rates.Classes[configured].Rate))
		})
	}, "`bulkshaper apply` takes it back")
}

// write changes the store, and makes the run folder where no daemon has run yet.
func (o *overriding) write(change func([]override.Override) ([]override.Override, error)) error {
	if o.guessed {
		return wrong(fmt.Errorf("nothing is written: the config does not tell the run folder, and %s may be that of another interface's daemon; mend the config, or give --run-dir", o.runDir))
	}
	var silent *ask.SilentError
	if errors.As(o.silent, &silent) {
		switch {
		case silent.Other != nil:
			return fmt.Errorf("nothing is written to %s: %w", o.runDir, silent)
		case silent.Hangs:
			return fmt.Errorf("nothing is written to %s, which nobody would follow: %w", o.runDir, silent)
		case silent.Holder != "":
			return fmt.Errorf("nothing is written to %s, which nobody follows: %w; restart that daemon, or put its config back", o.runDir, silent)
		}
	}
	err := os.MkdirAll(o.runDir, 0o755)
	if err == nil {
		err = o.store.Update(change)
	}
	if errors.Is(err, os.ErrPermission) {
		err = fmt.Errorf("%w; run it as root", err)
	}
	return err
}

// takenPatience is how long a daemon may take to follow; it needs some 20 ms, and longer while it reads many files.
const (
	takenPatience = 10 * time.Second
	takenPoll     = 20 * time.Millisecond
)

// taken waits until the daemon has followed. Without a daemon it says what that means.
func (o *overriding) taken(ctx context.Context, followed func(shaper.Status) bool, without string) error {
	if o.silent != nil {
		fmt.Fprintf(o.stderr, "warning: %v: nothing follows by itself until one runs; %s\n", o.silent, without)
		return nil
	}
	for end := time.Now().Add(takenPatience); ; {
		_, s, err := o.place.ask(ctx)
		switch ok := err == nil; {
		case ok && followed(s):
			_, err := fmt.Fprintln(o.stdout, "the daemon follows")
			return err
		case time.Now().After(end) && ok && !s.InSync:
			return fmt.Errorf("it is written, but the daemon does not follow yet: %s", s.Reason)
		case time.Now().After(end):
			return errors.New("it is written, but the daemon does not follow yet; see `bulkshaper history` and its log")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(takenPoll):
		}
	}
}

// standsAt tells whether the kernel holds the class to the rate; one that does not stand is held to nothing.
func standsAt(s shaper.Status, class string, rate uint64) bool {
	i := slices.IndexFunc(s.Classes, func(c shaper.ClassStatus) bool { return c.Name == class })
	return i >= 0 && s.Classes[i].StandingRate == rate
}

func printOverrides(w io.Writer, iface string, inForce []shaper.OverrideStatus, now time.Time) error {
	if len(inForce) == 0 {
		_, err := fmt.Fprintf(w, "no overrides on %s\n", iface)
		return err
	}
	t := newTable("CLASS", "RATE", "CEIL", "CONFIGURED", "UNTIL", "LEFT", "BY", "WHY")
	for _, o := range inForce {
		configured := view.Held(o.ConfiguredRate)
		if o.ConfiguredCeil != o.ConfiguredRate {
			configured += ", ceil " + view.Held(o.ConfiguredCeil)
		}
		t.row(o.Class, view.Held(o.Rate), view.Held(o.Ceil), configured, o.Until.Local().Format(time.DateTime),
			o.Until.Sub(now).Round(time.Second), screen.OrDash(o.By), screen.OrDash(o.Why))
	}
	_, err := fmt.Fprint(w, t)
	return err
}

// whoAmI is the person at the keyboard: the one who logged in, also behind su and sudo, or the user of the process.
func whoAmI() string {
	id := strconv.Itoa(os.Getuid())
	const unset = "4294967295"
	if data, err := os.ReadFile("/proc/self/loginuid"); err == nil {
		if login := strings.TrimSpace(string(data)); login != unset && login != "" {
			id = login
		}
	}
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return "uid " + id
}
