package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"bulkshaper/cmd/bulkshaper/view"
	"bulkshaper/shaper"
	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
)

func planCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "plan",
		Short: "Show what would change on this node now, and why; changes nothing",
		Long: `Compares what is wanted with what stands in the kernel, and tells what would change, by name, why, and whether packets feel it.
Of more than 20 of a kind those with the same reason are one line; --all tells each operation in its order. --format tc prints
lines for tc -batch, with the names as comments; they make what apply makes. But tc does not wait, as apply does, for a hash table that
was just unlinked and is busy for some 20 ms: for changes of a shaped interface use apply. After somebody has deleted a pref of ours with
tc, the kernel hides its hash tables until the pref stands again: apply comes upon them and takes a few operations more than plan tells.`,
		Example: `  bulkshaper plan --interface eth1 --roles roles.json --servers jsons/
  bulkshaper plan --exit-code
  bulkshaper plan --all
  bulkshaper plan --format tc | tc -batch -`,
		Args: cobra.NoArgs,
	}
	flags := addInputFlags(c)
	format := addFormat(c, "text", "json", "tc")
	all := c.Flags().Bool("all", false, "each operation in its order, as tc would be told it")
	full := c.Flags().Bool("full", false, "the whole wanted state instead of the changes")
	exitCode := c.Flags().Bool("exit-code", false, "exit with 3 if anything is to change")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := format.check(); err != nil {
			return err
		}
		n, err := flags.open(c.Context())
		if err != nil {
			return err
		}
		defer n.close()
		changes, err := diff.Compute(n.state, n.desired.Plan, diff.Options{Takeover: n.input.Config.Takeover})
		if err != nil && *full && format.value == "text" { // what is wanted does not depend on what stands
			fmt.Fprintln(c.ErrOrStderr(), "warning: it could not be applied now:", err)
			changes, err = &diff.Changes{}, nil
		}
		if err != nil {
			return err
		}
		warn(c.ErrOrStderr(), n.desired.Warnings)
		n.tellOverrides(c.ErrOrStderr())
		if err := printPlan(c.OutOrStdout(), format.value, *full, *all, n, changes); err != nil {
			return err
		}
		if *exitCode && len(changes.Ops) > 0 {
			return &codedError{code: exitDiffers}
		}
		return nil
	}
	return c
}

func printPlan(w io.Writer, format string, full, all bool, n *node, changes *diff.Changes) error {
	p := n.desired.Plan
	ops := changes.Ops
	if full {
		var err error
		if ops, err = p.Install(); err != nil {
			return err
		}
	}
	switch {
	case format == "json":
		return printJSON(w, planJSON(p, changes, n.state.Filters))
	case format == "tc":
		return printLines(w, view.BatchLines(p, n.state, ops))
	case full:
		return printFull(w, n)
	case all && len(changes.Ops) > 0:
		return printLines(w, view.OperationLines(styleOf(w), p, n.state, changes.Ops))
	}
	return printLines(w, view.PlanLines(styleOf(w), p, n.state, changes))
}

func classIDs(p *plan.Plan) map[string]tc.Handle {
	ids := make(map[string]tc.Handle, len(p.Classes))
	for _, c := range p.Classes {
		ids[c.Name] = c.Class.ID
	}
	return ids
}

type planOutput struct {
	Interface    string              `json:"interface"`
	Node         string              `json:"node"`
	Cabinet      string              `json:"cabinet"`
	Layout       string              `json:"layout"`
	Filters      []shaper.FilterCost `json:"filters,omitempty"`
	Rebuild      string              `json:"rebuild,omitempty"`
	Takeover     string              `json:"takeover,omitempty"`
	Advice       string              `json:"advice,omitempty"`
	Foreign      []string            `json:"foreign,omitempty"`
	Changes      []changeOutput      `json:"changes"`
	Classes      []classOutput       `json:"classes"`
	Destinations []destinationOutput `json:"destinations"`
}

type changeOutput struct {
	Verb    string `json:"verb"`
	Object  string `json:"object"`
	Why     string `json:"why"`
	Hitless bool   `json:"hitless"`
	TC      string `json:"tc"`
}

type classOutput struct {
	Name         string `json:"name"`
	ClassID      string `json:"classid"`
	Rate         uint64 `json:"rate_bits_per_second"`
	Ceil         uint64 `json:"ceil_bits_per_second"`
	Burst        uint64 `json:"burst_bytes"`
	Cburst       uint64 `json:"cburst_bytes"`
	Quantum      uint32 `json:"quantum_bytes"`
	Prio         uint32 `json:"prio"`
	Parent       string `json:"parent"`
	Destinations int    `json:"destinations"`
}

type destinationOutput struct {
	Prefix  string `json:"prefix"`
	Server  string `json:"server"`
	Rule    string `json:"rule"`
	Class   string `json:"class"`
	ClassID string `json:"classid"`
}

func planJSON(p *plan.Plan, changes *diff.Changes, standing []tc.Filter) planOutput {
	out := planOutput{
		Interface: p.Interface, Node: p.Node, Cabinet: p.Cabinet, Layout: p.Layout, Filters: shaper.CostsOf(p, standing), Rebuild: changes.Rebuild, Takeover: changes.Takeover, Advice: changes.Advice, Foreign: changes.Foreign,
		Changes: []changeOutput{}, Classes: []classOutput{}, Destinations: []destinationOutput{},
	}
	for _, op := range changes.Ops {
		out.Changes = append(out.Changes, changeOutput{string(op.Verb), op.Object.Ident(), op.Why, op.Hitless, op.TC(p.Interface)})
	}
	for _, c := range p.Classes {
		out.Classes = append(out.Classes, classOutput{
			Name: c.Name, ClassID: c.Class.ID.String(), Rate: uint64(c.Class.Rate), Ceil: uint64(c.Class.Ceil), Burst: uint64(c.Class.Burst()),
			Cburst: uint64(c.Class.Cburst()), Quantum: c.Class.Quantum, Prio: c.Class.Prio, Parent: c.Class.Parent.String(), Destinations: c.Destinations,
		})
	}
	ids := classIDs(p)
	for _, d := range p.Destinations {
		out.Destinations = append(out.Destinations, destinationOutput{d.Prefix.String(), d.Server, d.Rule, d.Class, ids[d.Class].String()})
	}
	return out
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
