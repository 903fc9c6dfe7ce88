package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/prometheus/exporter-toolkit/web"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"bulkshaper/inventory"
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
		Long: `Reads config and inventory as the daemon would and prints every problem with its place and a remedy. Warnings do not make
the exit code 2; errors do. Where the interface exists the whole plan is made, and on any other machine that of --node.`,
		Example: "  bulkshaper check --config testdata/incident/config.yaml",
		Args:    cobra.NoArgs,
	}
	flags := addInputFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		input, _, err := flags.load(c.Context())
		if c.Context().Err() != nil {
			return c.Context().Err() // nothing was found out
		}
		var about string
		var warnings []string
		if err == nil {
			err = checkWebConfig(input.Config)
		}
		if err == nil {
			for _, w := range input.Inventory.Warnings {
				warnings = append(warnings, w.String())
			}
			var more []string
			about, more, err = checkNode(c.Context(), input)
			warnings = append(warnings, more...)
		}
		out := &errWriter{w: c.OutOrStdout()}
		for _, w := range warnings {
			out.printf("warning: %s\n", w)
		}
		var problems inventory.Problems
		if errors.As(err, &problems) {
			for _, p := range problems {
				out.printf("error: %s\n", p)
			}
			return &codedError{exitWrong, errors.New(count(len(problems), "error") + " found")}
		}
		if err != nil {
			out.printf("error: %s\n", err)
			return &codedError{exitWrong, errors.New("1 error found")}
		}
		out.printf("ok: %s, %s, %s; %s\n", count(len(input.Inventory.Servers), "server"), count(len(input.Inventory.Roles), "role"),
			count(len(warnings), "warning"), about)
		return out.err
	}
	return c
}

// checkWebConfig reads the web config as the server would. It holds secrets: who may not read it is told nothing about it.
func checkWebConfig(cfg *config.Config) error {
	err := web.Validate(cfg.WebConfig)
	if err == nil || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return inventory.Problems{{File: cfg.WebConfig, Message: err.Error(), Remedy: "correct the file, or metrics.web_config"}}
}

// checkNode makes the plan as far as this machine can: wholly where the interface exists, without the link's speed where only
// the node is known, and otherwise just the rules, which are looked at with any server's eyes. It says which.
func checkNode(ctx context.Context, in shaper.Input) (about string, warnings []string, err error) {
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
		return "this host is not in the inventory, so rates and plan were not checked (--node NAME)", lines(pol.Warnings()), nil
	case !found && in.Config.LinkRate == 0 && needsSpeed(in):
		pol, err := policy.New(in.Config, in.Inventory, node)
		if err != nil {
			return "", nil, err
		}
		return fmt.Sprintf("seen from %s, but for rates in percent: interface %s is not here (--link-rate)", node.Name, in.Config.Interface), lines(pol.Warnings()), nil
	}
	desired, err := shaper.Desire(in, hostname(), facts)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("on %s: %s, %s", node.Name, count(len(desired.Plan.Classes), "class"), count(len(desired.Plan.Destinations), "destination")), append(warnings, desired.Warnings...), nil
}

// linkFacts is what is known of the interface; without it those of a common Ethernet card stand in.
func linkFacts(ctx context.Context, name string) (facts plan.Facts, found bool, warnings []string) {
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
		warnings = append(warnings, foreign.Error())
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

func lines(problems []inventory.Problem) (texts []string) {
	for _, p := range problems {
		texts = append(texts, p.String())
	}
	return texts
}
