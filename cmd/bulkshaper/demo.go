package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bulkshaper/shaper/kernel/lab"
	"bulkshaper/shaper/kernel/lab/traffic"
	"bulkshaper/shaper/tc"
)

func demoCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "demo",
		Short: "Build a throw-away cluster, shape it, reshape it, and show what happens",
		Long: `Builds two cabinets and a core in network namespaces, runs one daemon a node there, sends traffic, and shows what each class was
to get and got. Then it corrects a server's cabinet in the inventory while traffic to that server runs, and shows what that
did. It takes about twenty seconds, touches nothing of the machine's own network and leaves nothing behind.

--scenario incident replays what bulkshaper is for, in about a minute: services that run well until a copy starts, and then fail
although no port is full; every bulk port slowed tenfold; the daemon on every node instead; a cabinet that gets twice the bulk
nodes, with fixed rates and with shares; and an edit of the inventory. --out FOLDER draws it, as incident.svg and incident.png, and
writes the figures to incident.json.

--scenario pods copies between pods over the networks that clusters have: the host's, VXLAN, routed pods, a mixture of both, IPIP. It
shows which class each was counted in beside what explain says, how services over the same network fare without shaping and with it,
and, where the inventory lacks the pods' prefixes, what that does to them and how status tells.

It is a test of its own as well: where something is not as it should be it says so and exits with 1. Where the machine was too busy
for a measurement to mean anything it says "not measurable", and exits with 1 as well. It needs root, or a machine that lets its
users make user namespaces.`,
		Example: "  bulkshaper demo\n  bulkshaper demo --rate 50mbit --format json\n  bulkshaper demo --scenario incident --out /tmp/incident\n  bulkshaper demo --scenario pods",
		Args:    cobra.NoArgs,
	}
	flags := c.Flags()
	duration := flags.Duration("duration", 5*time.Second, "how long to measure")
	rate := flags.String("rate", "100mbit", "the rate of the nodes' links: less for a slow machine")
	scenario := flags.String("scenario", "", "a story instead: incident or pods")
	completeWith(c, "scenario", "incident", "pods")
	out := flags.String("out", "", "`folder` for the story's picture and figures")
	congestion := flags.String("congestion", "", "the story's TCP congestion control (default: the kernel's)")
	short := flags.Bool("short", false, "measure the phases of the story for two seconds only: enough for the verdict")
	format := addFormat(c, "text", "json")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := format.check(); err != nil {
			return err
		}
		var tell func(context.Context) error
		switch *scenario {
		case "":
			for _, name := range []string{"out", "congestion", "short"} {
				if flags.Changed(name) {
					return wrong(fmt.Errorf("--%s is for a scenario", name))
				}
			}
			link, err := tc.ParseBitRate(*rate)
			if err != nil {
				return wrong(fmt.Errorf("--rate: %w", err))
			}
			if link < minDemoRate || link > maxDemoRate {
				return wrong(fmt.Errorf("--rate %s: use %s to %s", *rate, minDemoRate, maxDemoRate))
			}
			if *duration < minDemoDuration || *duration > maxDemoDuration {
				return wrong(fmt.Errorf("--duration %s: use %s to %s", *duration, minDemoDuration, maxDemoDuration))
			}
			d := &demo{link: link, duration: *duration, json: format.value == "json", stdout: c.OutOrStdout(), stderr: c.ErrOrStderr()}
			tell = d.run
		case "incident":
			for _, name := range []string{"rate", "duration"} {
				if flags.Changed(name) {
					return wrong(fmt.Errorf("--%s is not for a scenario", name))
				}
			}
			options := longStory()
			if *short {
				options = shortStory()
			}
			options.congestion, options.out, options.json = *congestion, *out, format.value == "json"
			s := &story{options: options, stdout: c.OutOrStdout(), stderr: c.ErrOrStderr()}
			tell = s.run
		case "pods":
			for _, name := range []string{"rate", "duration", "out"} {
				if flags.Changed(name) {
					return wrong(fmt.Errorf("--%s is not for --scenario pods", name))
				}
			}
			times := storyTimes{2 * time.Second, 3 * time.Second}
			s := &podStory{live: times, free: times, again: 4, congestion: *congestion, json: format.value == "json", stdout: c.OutOrStdout(), stderr: c.ErrOrStderr()}
			if *short {
				s.live, s.free, s.again = storyTimes{time.Second, 1250 * time.Millisecond}, storyTimes{800 * time.Millisecond, 750 * time.Millisecond}, 1
			}
			tell = s.run
		default:
			return wrong(fmt.Errorf("--scenario %q: there are incident and pods", *scenario))
		}
		err := tell(c.Context())
		if errors.Is(err, lab.ErrPermission) && os.Geteuid() != 0 {
			return demoInUserNamespace(c)
		}
		return err
	}
	c.AddCommand(trafficCommand())
	return c
}

// demoInUserNamespace runs the command once more, with the flags that were given, as root of a user namespace.
func demoInUserNamespace(c *cobra.Command) error {
	args := []string{"demo"}
	c.Flags().Visit(func(f *pflag.Flag) { args = append(args, "--"+f.Name+"="+f.Value.String()) })
	code, err := lab.InUserNamespace(c.Context(), args)
	if err != nil {
		return fmt.Errorf("build lab: %w", err)
	}
	if code != exitDone {
		return &codedError{code: code}
	}
	return nil
}

// trafficCommand is what the workers of the scenario run.
func trafficCommand() *cobra.Command {
	return &cobra.Command{
		Use: "traffic KIND SERVER...", Hidden: true, Args: cobra.MinimumNArgs(1), Short: "Traffic of the scenario, for the program itself to run",
		RunE: func(c *cobra.Command, args []string) error {
			guests, err := lab.Guests(args[1:])
			if err != nil {
				return wrong(err)
			}
			return traffic.Serve(c.Context(), args[0], guests, os.Stdin, os.Stdout)
		},
	}
}

// The least rate still gives the smallest class more than its burst and queue in the least time; above the most, two cores
// do not keep up.
const (
	minDemoRate     = tc.BitRate(20_000_000)
	maxDemoRate     = tc.BitRate(1_000_000_000)
	minDemoDuration = 2 * time.Second
	maxDemoDuration = time.Minute
)

// demo is one run of the demo.
type demo struct {
	link           tc.BitRate
	duration       time.Duration
	json           bool
	stdout, stderr io.Writer

	stage
	flows  []*demoFlow
	report demoReport
}

// run is the whole story. Whatever ends it, everything is taken down again.
func (d *demo) run(ctx context.Context) (err error) {
	defer func() {
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		if down := d.close(); down != nil {
			err = errors.Join(err, fmt.Errorf("take the lab down: %w", down))
		}
		if err == nil {
			err = d.print("\nAll is as it should be, and nothing is left behind.\n")
		}
	}()
	if err := d.build(); err != nil {
		return err
	}
	if err := d.startDaemons(ctx); err != nil {
		return err
	}
	err = d.measureClasses(ctx)
	if err == nil {
		err = d.edit(ctx)
	}
	if err == nil {
		err = d.stopDaemons(ctx)
	}
	if err == nil && d.json {
		err = printJSON(d.stdout, d.report)
	}
	return err
}

// progress tells what is going on, for whoever waits.
func (d *demo) progress(format string, args ...any) {
	fmt.Fprintf(d.stderr, "demo: "+format+"\n", args...) // a closed stderr is no reason to stop
}

// print tells the story, where it was not asked for as JSON.
func (d *demo) print(format string, args ...any) error {
	if d.json {
		return nil
	}
	_, err := fmt.Fprintf(d.stdout, format, args...)
	return err
}

// close ends what still runs and removes everything.
func (d *demo) close() error {
	d.closeFlows(d.flows...)
	return d.stage.close()
}

// demoReport is the result as JSON.
type demoReport struct {
	Node    string       `json:"node"`
	Seconds float64      `json:"seconds"`
	Classes []demoClass  `json:"classes"`
	Direct  uint64       `json:"direct_packets"`
	Others  []demoOther  `json:"other_nodes"`
	Load    demoLoad     `json:"machine"`
	Edit    demoEdit     `json:"edit"`
	Daemons []demoDaemon `json:"daemons"`
}

// shapingError is what was not as it should be, a line each.
type shapingError []string

func (e shapingError) Error() string { return "not as it should be:\n  " + strings.Join(e, "\n  ") }

// busyError says that the machine, not the shaping, decided what was measured.
type busyError struct {
	load   demoLoad
	unsure shapingError
}

func (e *busyError) Error() string {
	return fmt.Sprintf("not measurable here: machine too busy (%s), so this says nothing about the shaping; try again, or with a lower --rate; measured was\n  %s",
		e.load, strings.Join(e.unsure, "\n  "))
}
