package shaper

import (
	"cmp"
	"fmt"
	"slices"

	"bulkshaper/inventory"
	"bulkshaper/shaper/override"
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
	// LinkRate is what percentages are of, 0 where that is unknown.
	LinkRate tc.BitRate
	// Overrides are those in the plan, Refused those that the policy does not allow.
	Overrides []override.InForce
	Refused   []override.Refused
}

// Desire computes the wanted state. It is pure: the same input, host name, facts and overrides always give the same plan. Overrides
// are those that are active; one that cannot be followed never keeps the rest from being planned.
func Desire(in Input, hostname string, facts plan.Facts, overrides ...override.Override) (*Desired, error) {
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
	d := &Desired{Policy: pol, Node: node, LinkRate: cmp.Or(in.Config.LinkRate, facts.Link.Speed)}
	for _, w := range slices.Concat(in.Config.Warnings, policy.OtherNode(in.Config, in.Inventory, node, facts.Link.Addresses), warnings, pol.Warnings()) {
		d.Warnings = append(d.Warnings, w.String())
	}
	if bond := facts.Link.Bond; bond != "" {
		d.Warnings = append(d.Warnings, fmt.Sprintf("%[1]s is a port of %[2]s: shape %[2]s instead (interface: %[2]s); a port sees a part of what the node sends, "+
			"each port would have every rate for itself, and %[2]s may send by another port at any time", facts.Link.Name, bond))
	}
	d.override(in.Config.Interface, classes, overrides)
	d.Plan, err = plan.Build(in.Config, classes, pol.Destinations(), node, facts)
	if err != nil {
		return nil, fmt.Errorf("plan %s: %w", in.Config.Interface, err)
	}
	return d, nil
}

// override puts the overrides over the rates of classes.
func (d *Desired) override(iface string, classes []policy.Class, overrides []override.Override) {
	if len(overrides) == 0 {
		return
	}
	rates := override.Rates{Interface: iface, Link: d.LinkRate}
	for _, c := range classes {
		rates.Classes = append(rates.Classes, override.Limits{Name: c.Name, Parent: c.Parent, Rate: c.Rate, Ceil: c.Ceil})
	}
	d.Overrides, d.Refused = rates.Apply(overrides)
	for _, o := range d.Overrides {
		c := &classes[slices.IndexFunc(classes, func(c policy.Class) bool { return c.Name == o.Class })]
		c.ConfiguredRate, c.ConfiguredCeil, c.Rate, c.Ceil = c.Rate, c.Ceil, o.Limits.Rate, o.Limits.Ceil
	}
}

// FactsOf is what a plan depends on in the observed state.
func FactsOf(state tc.State) plan.Facts {
	return plan.Facts{Link: state.Link, AutoLeaf: state.AutoLeaf}
}

// sameFacts tells whether a plan made for a is one for b: counters, flags and queue lengths do not matter to it.
func sameFacts(a, b plan.Facts) bool {
	return a.AutoLeaf == b.AutoLeaf && a.Link.Name == b.Link.Name && a.Link.MTU == b.Link.MTU && a.Link.Speed == b.Link.Speed && a.Link.Bond == b.Link.Bond &&
		slices.Equal(a.Link.Addresses, b.Link.Addresses) && slices.Equal(a.Link.Tags, b.Link.Tags)
}
