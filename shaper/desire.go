package shaper

import (
	"fmt"
	"slices"

	"bulkshaper/inventory"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
)

// Desired is what the input means for this node and this link.
type Desired struct {
	Plan     *plan.Plan
	Policy   *policy.Policy
	Node     *inventory.Server
	Warnings []string
}

// Desire computes the wanted state. It is pure: the same input, host name and facts always give the same plan.
func Desire(in Input, hostname string, facts plan.Facts) (*Desired, error) {
	node, err := policy.FindNode(in.Config, in.Inventory, facts.Link.Addresses, hostname)
	if err != nil {
		return nil, err
	}
	classes, warnings, err := policy.Resolve(in.Config, in.Inventory, node, facts.Link.Speed)
	if err != nil {
		return nil, err
	}
	pol, err := policy.New(in.Config, in.Inventory, node)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, w := range append(warnings, pol.Warnings()...) {
		lines = append(lines, w.String())
	}
	wanted, err := plan.Build(in.Config, classes, pol.Destinations(), node, facts)
	if err != nil {
		return nil, fmt.Errorf("plan %s: %w", in.Config.Interface, err)
	}
	return &Desired{Plan: wanted, Policy: pol, Node: node, Warnings: lines}, nil
}

// FactsOf is what a plan depends on in the observed state.
func FactsOf(state tc.State) plan.Facts {
	return plan.Facts{Link: state.Link, AutoLeaf: state.AutoLeaf}
}

// sameFacts tells whether a plan made for a is one for b: counters, flags and queue lengths do not matter to it.
func sameFacts(a, b plan.Facts) bool {
	return a.AutoLeaf == b.AutoLeaf && a.Link.Name == b.Link.Name && a.Link.MTU == b.Link.MTU && a.Link.Speed == b.Link.Speed &&
		slices.Equal(a.Link.Addresses, b.Link.Addresses)
}
