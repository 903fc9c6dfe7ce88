package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"bulkshaper/cmd/bulkshaper/view"
	"bulkshaper/inventory"
	"bulkshaper/metrics"
	"bulkshaper/shaper"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/kernel"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
)

func checkCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "check",
		Short: "Read config and inventory and print every problem; needs no privilege",
		Long: `Reads config and inventory as the daemon would and prints every problem, by file, with the line, a remedy, and in the end
how many there are of each kind. Warnings do not make the exit code 2; errors do. Where the interface exists the whole plan is
made, and on any other machine that of --node.

--diff tells what an edit changes on the node --node, without privilege and without asking a kernel: rates, destinations that
move to another class, come or go. OLD-FOLDER has the files as they were: either a checkout of the whole repository, in which the
config is at the same relative path, or a copy of the folder of the config. Paths that lie outside of what it is a copy of are
taken as unchanged.`,
		Example: `  bulkshaper check --config testdata/incident/config.yaml
  bulkshaper check --format json
  bulkshaper check --diff OLD-FOLDER --node hadoop27`,
		Args: cobra.NoArgs,
	}
	flags := addInputFlags(c)
	format := addFormat(c, "text", "json")
	old := c.Flags().String("diff", "", "tell what changed since the `folder` with the files as they were")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := format.check(); err != nil {
			return err
		}
		r, err := flags.check(c.Context(), *old)
		if err != nil {
			return err
		}
		if format.value == "json" {
			err = printJSON(c.OutOrStdout(), r)
		} else {
			err = printLines(c.OutOrStdout(), view.ReportLines(styleOf(c.OutOrStdout()), r))
		}
		if err == nil && !r.OK {
			err = &codedError{exitWrong, errors.New(count(r.Errors, "error") + " found")}
		}
		return err
	}
	return c
}

// check reads everything. Its error is for what cannot be reported: bad usage, an interruption.
func (f *inputFlags) check(ctx context.Context, old string) (*view.Report, error) {
	collectSeldom()
	input, _, err := f.load(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err() // nothing was found out
	}
	if err == nil {
		err = checkWebConfig(input.Config)
	}
	var about string
	var warnings []inventory.Problem
	if err == nil {
		warnings = append(warnings, input.Inventory.Warnings...)
		var more []inventory.Problem
		about, more, err = checkNode(ctx, input)
		warnings = append(warnings, more...)
	}
	var problems inventory.Problems
	if err != nil && !errors.As(err, &problems) {
		problems = inventory.Problems{{Message: err.Error()}}
	}
	r := view.NewReport(problems, warnings, func(file string) []byte {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil // the problem is told all the same, without the line
		}
		return data
	})
	r.About = about
	if input.Inventory != nil {
		r.Servers, r.Roles = len(input.Inventory.Servers), len(input.Inventory.Roles)
	}
	if old != "" && r.OK {
		r.Diff, r.DiffNote, err = f.compareOld(ctx, input, old)
		if err != nil {
			return nil, wrong(err)
		}
	}
	return r, nil
}

// checkWebConfig reads the web config as the server would. It holds secrets: who may not read it is told nothing about it.
func checkWebConfig(cfg *config.Config) error {
	err := metrics.CheckWebConfig(cfg.WebConfig)
	if err == nil || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return inventory.Problems{{File: cfg.WebConfig, Message: err.Error(), Remedy: "correct the file, or metrics.web_config"}}
}

// checkNode makes the plan as far as this machine can: wholly where the interface exists, without the link's speed where only
// the node is known, and otherwise just the rules, which are looked at with any server's eyes. It says which.
func checkNode(ctx context.Context, in shaper.Input) (about string, warnings []inventory.Problem, err error) {
	facts, found, warnings := linkFacts(ctx, in.Config.Interface)
	node, err := policy.FindNode(in.Config, in.Inventory, facts.Link.Addresses, hostname())
	switch {
	case err != nil && (found || in.Config.Node != ""):
		return "", nil, err
	case err != nil && len(in.Inventory.Servers) == 0:
		return "no server to plan for", nil, nil
	case err != nil:
		pol, err := policy.New(in.Config, in.Inventory, in.Inventory.Servers[0])
		if err != nil {
			return "", nil, err
		}
		return "this host is not in the inventory, so rates and plan were not checked (--node NAME)", pol.Warnings(), nil
	case !found && in.Config.LinkRate == 0 && needsSpeed(in):
		pol, err := policy.New(in.Config, in.Inventory, node)
		if err != nil {
			return "", nil, err
		}
		return fmt.Sprintf("seen from %s, but for rates in percent: interface %s is not here (--link-rate)", node.Name, in.Config.Interface), pol.Warnings(), nil
	}
	desired, err := shaper.Desire(in, hostname(), facts)
	if err != nil {
		return "", nil, err
	}
	about = fmt.Sprintf("on %s: %s, %s%s", node.Name, count(len(desired.Plan.Classes), "class"), count(len(desired.Plan.Destinations), "destination"), promised(desired))
	return about, append(warnings, notedBy(in, node, facts, desired)...), nil
}

// promised says how much of the link the classes that stand directly on it are promised, where that is more than there is. It is no
// warning: the packaged classes have it so, and while all of them send, the link decides.
func promised(desired *shaper.Desired) string {
	var sum tc.BitRate
	for _, c := range desired.Plan.Classes {
		if c.Class.Parent == tc.Root || c.Class.Parent == desired.Plan.Root.Handle {
			if c.Name != tc.ControlName { // a little, at the rate of the default class
				sum += c.Class.Rate
			}
		}
	}
	if desired.LinkRate == 0 || sum <= desired.LinkRate {
		return ""
	}
	return fmt.Sprintf("; the rates of its classes add up to %.0f%% of the link", 100*float64(sum)/float64(desired.LinkRate))
}

// linkFacts is what is known of the interface; without it those of a common Ethernet card stand in.
func linkFacts(ctx context.Context, name string) (facts plan.Facts, found bool, warnings []inventory.Problem) {
	stand := plan.Facts{Link: tc.Link{Name: name, MTU: 1500}, AutoLeaf: tc.KindPFIFO}
	if name == "" {
		return stand, false, nil
	}
	k, err := kernel.Open(kernel.Options{Interface: name, Log: zap.NewNop()})
	if err != nil {
		return stand, false, nil
	}
	defer k.Close()
	state, err := k.Observe(ctx)
	if err != nil {
		return stand, false, nil
	}
	if owner := diff.Ownership(state); owner.Kind == diff.Foreign {
		foreign := &diff.ForeignRootError{Interface: name, Root: owner.Root, Maker: owner.Maker}
		warnings = append(warnings, inventory.Problem{Message: foreign.Error()})
	}
	return shaper.FactsOf(state), true, warnings
}

// needsSpeed tells whether a rate is a percentage of the link.
func needsSpeed(in shaper.Input) bool {
	for _, c := range in.Config.Classes {
		if c.Rate.Percent != 0 || c.Ceil.Percent != 0 {
			return true
		}
	}
	return false
}

// notedBy are the warnings of the rates and of the rules.
func notedBy(in shaper.Input, node *inventory.Server, facts plan.Facts, desired *shaper.Desired) []inventory.Problem {
	_, warnings, err := policy.Resolve(in.Config, in.Inventory, node, facts.Link.Speed)
	if err != nil {
		return nil // the plan was made of the same
	}
	return append(warnings, desired.Policy.Warnings()...)
}
