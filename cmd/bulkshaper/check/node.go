package check

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"go.uber.org/zap"

	"bulkshaper/cmd/bulkshaper/screen"
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
func checkNode(ctx context.Context, in shaper.Input, host string) (about string, warnings []inventory.Problem, err error) {
	facts, found, warnings := linkFacts(ctx, in.Config.Interface)
	node, err := policy.FindNode(in.Config, in.Inventory, facts.Link.Addresses, host)
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
	desired, err := shaper.Desire(in, host, facts)
	if err != nil {
		return "", nil, err
	}
	about = fmt.Sprintf("on %s: %s, %s%s", node.Name, screen.Count(len(desired.Plan.Classes), "class"), screen.Count(len(desired.Plan.Destinations), "destination"), promised(desired))
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

// notedBy are the warnings of the node, the rates and the rules.
func notedBy(in shaper.Input, node *inventory.Server, facts plan.Facts, desired *shaper.Desired) []inventory.Problem {
	_, warnings, err := policy.Resolve(in.Config, in.Inventory, node, facts.Link.Speed)
	if err != nil {
		return nil // the plan was made of the same
	}
	return slices.Concat(policy.OtherNode(in.Config, in.Inventory, node, facts.Link.Addresses), warnings, desired.Policy.Warnings())
}
