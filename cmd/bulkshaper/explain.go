package main

import (
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/u32"
)

func explainCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "explain DEST...",
		Short: "Which class a server or an address is in, why, and what the kernel would really do",
		Long: `For each server or address: who owns it, the rule that matches, the class, and what the filters that stand in the kernel
would do with a packet to it. Exits with 3 where kernel and inventory disagree. A server's pod prefixes are asked for by
their first address.`,
		Example: "  bulkshaper explain hadoop14 10.1.2.3",
		Args:    cobra.MinimumNArgs(1),
	}
	flags := addInputFlags(c)
	format := addFormat(c, "text", "json")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := format.check(); err != nil {
			return err
		}
		n, err := flags.open(c.Context())
		if err != nil {
			return err
		}
		defer n.close()
		var answers []explanation
		for _, dest := range args {
			found, err := n.explain(dest)
			if err != nil {
				return wrong(err)
			}
			answers = append(answers, found...)
		}
		if format.value == "json" {
			err = printJSON(c.OutOrStdout(), answers)
		} else {
			err = printExplanations(c.OutOrStdout(), answers)
		}
		if err != nil {
			return err
		}
		for _, a := range answers {
			if !a.Kernel.Agrees {
				return &codedError{code: exitDiffers}
			}
		}
		return nil
	}
	return c
}

// explanation is what one address gets. The names of its fields are part of the contract.
type explanation struct {
	Destination string       `json:"destination"`
	Address     string       `json:"address"`
	Server      string       `json:"server"`
	Cabinet     string       `json:"cabinet"`
	Datacenter  string       `json:"datacenter"`
	Roles       []string     `json:"roles"`
	Rule        string       `json:"rule"`
	Class       string       `json:"class"`
	ClassID     string       `json:"classid"`
	Own         bool         `json:"own"`
	Kernel      kernelAnswer `json:"kernel"`

	tried []policy.Tried
}

// kernelAnswer is where the filters that stand now would send a packet.
type kernelAnswer struct {
	ClassID string `json:"classid"`
	Class   string `json:"class"`
	Filter  string `json:"filter"`
	Agrees  bool   `json:"agrees"`
	Note    string `json:"note,omitempty"`
}

func (n *node) explain(dest string) ([]explanation, error) {
	addresses, err := n.addresses(dest)
	if err != nil {
		return nil, err
	}
	var answers []explanation
	for _, a := range addresses {
		answers = append(answers, n.explainAddress(dest, a))
	}
	return answers, nil
}

// addresses are those that dest stands for.
func (n *node) addresses(dest string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(dest); err == nil {
		return []netip.Addr{a.Unmap().WithZone("")}, nil
	}
	if p, err := netip.ParsePrefix(dest); err == nil {
		return []netip.Addr{p.Addr().Unmap()}, nil
	}
	s, ok := n.input.Inventory.Server(dest)
	if !ok {
		return nil, fmt.Errorf("explain %q: neither an address nor a server of the inventory", dest)
	}
	addresses := slices.Clone(s.Addresses)
	for _, p := range s.Prefixes {
		addresses = append(addresses, p.Addr())
	}
	if len(addresses) == 0 {
		return nil, fmt.Errorf("explain %q: the inventory has no address of it (%s)", dest, s.File)
	}
	return addresses, nil
}

func (n *node) explainAddress(dest string, a netip.Addr) explanation {
	verdict := n.desired.Policy.Explain(a)
	e := explanation{
		Destination: dest, Address: a.String(), Roles: []string{}, Rule: verdict.Rule, Class: verdict.Class, Own: verdict.Own,
		tried: verdict.Tried,
	}
	if s := verdict.Owner; s != nil {
		e.Server, e.Cabinet, e.Datacenter = s.Name, s.Cabinet, s.Datacenter
		e.Roles = append(e.Roles, s.Roles...)
	}
	if verdict.Own {
		e.Kernel = kernelAnswer{Agrees: true, Note: "packets to this node itself do not leave by the interface"}
		return e
	}
	class := classIDs(n.desired.Plan)[verdict.Class]
	e.ClassID, e.Kernel = class.String(), n.askKernel(a, class)
	return e
}

// askKernel sends a packet to a through the filters as they were read from the kernel.
func (n *node) askKernel(a netip.Addr, want tc.Handle) kernelAnswer {
	root, _ := n.state.RootQdisc()
	if diff.Ownership(n.state).Kind != diff.Ours {
		return kernelAnswer{Note: fmt.Sprintf("%s is not shaped by us: its root qdisc is %s %s", n.desired.Plan.Interface, root.Kind, root.Handle)}
	}
	packet, protocol := u32.Packet(a)
	result := u32.Classify(n.state.Filters, packet, protocol)
	if result.Unknown != "" {
		return kernelAnswer{Note: "cannot tell: " + result.Unknown}
	}
	class := tc.MakeHandle(root.Handle.Major(), uint16(root.HTB.Default))
	answer := kernelAnswer{Filter: noFilter}
	if result.Matched {
		class, answer.Filter = result.ClassID, result.Filter.Ident()
	}
	if !standsAsLeaf(n.state, class) {
		answer.Note = "class " + class.String() + " does not stand as a leaf, so the default class is taken"
		class = tc.MakeHandle(root.Handle.Major(), uint16(root.HTB.Default))
	}
	if _, ours := plan.OwnPref(result.Filter.Pref); result.Matched && !ours && class != want {
		answer.Note = fmt.Sprintf("that filter is not ours and comes first: if it should not, tc filter del dev %s parent %s pref %d",
			n.desired.Plan.Interface, root.Handle, result.Filter.Pref)
	}
	answer.ClassID, answer.Class, answer.Agrees = class.String(), nameOf(n.desired.Plan, class), class == want
	return answer
}

// noFilter stands where no filter matches.
const noFilter = "no filter, so the default class"

func standsAsLeaf(state tc.State, id tc.Handle) bool {
	found := false
	for _, c := range state.Classes {
		if c.Parent == id {
			return false
		}
		found = found || c.ID == id
	}
	return found
}

func nameOf(p *plan.Plan, id tc.Handle) string {
	for _, c := range p.Classes {
		if c.Class.ID == id {
			return c.Name
		}
	}
	return ""
}

func printExplanations(w io.Writer, answers []explanation) error {
	out := &errWriter{w: w}
	for _, a := range answers {
		out.printf("%s", a.Address)
		if a.Destination != a.Address {
			out.printf(" (%s)", a.Destination)
		}
		out.printf("\n")
		if a.Server == "" {
			out.printf("  owner:   none, the inventory does not name it\n")
		} else {
			out.printf("  owner:   %s, cabinet %s, roles %s\n", a.Server, orUnknown(a.Cabinet), orDash(strings.Join(a.Roles, " ")))
		}
		if a.Own {
			out.printf("  class:   none, it is this node's own address\n  kernel:  %s\n\n", kernelLine(a.Kernel))
			continue
		}
		for _, t := range a.tried {
			out.printf("  not:     rule %s, %s\n", t.Rule, t.Reason)
		}
		if a.Rule == "" {
			out.printf("  rule:    none matches, so the default class\n")
		} else {
			out.printf("  rule:    %s\n", a.Rule)
		}
		out.printf("  class:   %s %s\n", a.Class, a.ClassID)
		out.printf("  kernel:  %s\n\n", kernelLine(a.Kernel))
	}
	return out.err
}

func kernelLine(k kernelAnswer) string {
	var parts []string
	if k.ClassID != "" {
		parts = append(parts, strings.TrimSpace(k.Class+" "+k.ClassID)+" by "+k.Filter)
	}
	if k.Note != "" {
		parts = append(parts, k.Note)
	}
	switch {
	case k.Agrees:
		parts = append(parts, "agrees")
	case k.Note != "":
		parts = append(parts, "DISAGREES")
	default:
		parts = append(parts, "DISAGREES: run `bulkshaper plan` to see what is to change")
	}
	return strings.Join(parts, ", ")
}
