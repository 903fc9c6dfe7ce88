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

	"bulkshaper/shaper/kernel/lab"
	"bulkshaper/shaper/tc"
)

func demoCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "demo",
		Short: "Build a throw-away cluster, shape it, reshape it, and show what happens",
		Long: `Builds two cabinets and a core in network namespaces, runs one daemon a node there, sends traffic, and shows what each class was
to get and got. Then it corrects a server's cabinet in the inventory while traffic to that server runs, and shows what that
did. It takes about twenty seconds, touches nothing of the machine's own network and leaves nothing behind.

It is a test of its own as well: where something is not as it should be it says so and exits with 1. It needs root, or a
machine that lets its users make user namespaces.`,
		Example: "  bulkshaper demo\n  bulkshaper demo --rate 50mbit --format json",
		Args:    cobra.NoArgs,
	}
	duration := c.Flags().Duration("duration", 5*time.Second, "how long to measure")
	rate := c.Flags().String("rate", "100mbit", "the rate of the nodes' links: less for a slow machine")
	format := addFormat(c, "text", "json")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := format.check(); err != nil {
			return err
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
		err = d.run(c.Context())
		if errors.Is(err, lab.ErrPermission) && os.Geteuid() != 0 {
			code, err := lab.InUserNamespace(c.Context(), []string{"demo", "--duration", duration.String(), "--rate", *rate, "--format", format.value})
			if err != nil {
				return fmt.Errorf("build lab: %w", err)
			}
			if code != exitDone {
				return &codedError{code: code}
			}
			return nil
		}
		return err
	}
	return c
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

	dir     string
	cluster *lab.Cluster
	nodes   []*demoNode
	flows   []*demoFlow
	report  demoReport
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
	var errs []error
	d.closeFlows(d.flows...)
	for _, n := range d.nodes {
		errs = append(errs, n.close())
	}
	if d.cluster != nil {
		errs = append(errs, d.cluster.Close())
	}
	if d.dir != "" {
		errs = append(errs, os.RemoveAll(d.dir))
	}
	return errors.Join(errs...)
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
