package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"bulkshaper/cmd/bulkshaper/view"
	"bulkshaper/inventory"
	"bulkshaper/shaper"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/kernel"
	"bulkshaper/shaper/override"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/u32"
)

// explainer answers about addresses: from the files, and where it can be read from the kernel.
type explainer struct {
	input   shaper.Input
	policy  *policy.Policy
	node    *inventory.Server
	classes map[string]classFacts
	names   map[tc.Handle]string
	rules   map[string]config.Rule

	state    tc.State
	filters  *u32.Classifier
	standing map[tc.Handle]tc.Class
	// unasked says why the kernel was not asked, unaskedErr is the error of that, nil where nobody wanted to.
	unasked    string
	unaskedErr error
	// notes are what else could not be asked.
	notes []string

	members []policy.Destination
	shared  map[string]*view.Shared
}

type classFacts struct {
	id         tc.Handle
	rate, ceil tc.BitRate
	// text says the rate where it is not known in bits.
	text string
	// override says which override holds the class to that rate.
	override string
}

// explainer reads the files, and the kernel unless withKernel is false. A kernel that cannot be read is told with each answer.
func (f *inputFlags) explainer(ctx context.Context, withKernel bool) (*explainer, error) {
	collectSeldom()
	input, _, err := f.load(ctx)
	if err != nil {
		return nil, err
	}
	x := &explainer{input: input, classes: map[string]classFacts{}, names: map[tc.Handle]string{}, rules: map[string]config.Rule{}, shared: map[string]*view.Shared{},
		unasked: "--no-kernel was given"}
	for _, r := range input.Config.Rules {
		x.rules[r.Name] = r
	}
	if withKernel {
		x.unaskedErr = x.observe(ctx)
		x.unasked = ""
		if x.unaskedErr != nil {
			x.unasked = x.unaskedErr.Error()
		}
	}
	facts := shaper.FactsOf(x.state)
	if x.unasked != "" {
		facts = plan.Facts{Link: tc.Link{Name: input.Config.Interface, MTU: 1500}}
	}
	if x.node, err = policy.FindNode(input.Config, input.Inventory, facts.Link.Addresses, hostname()); err != nil {
		return nil, wrong(err)
	}
	if x.policy, err = policy.New(input.Config, input.Inventory, x.node); err != nil {
		return nil, wrong(err)
	}
	return x, wrong(x.resolve(facts.Link.Speed))
}

// observe reads the kernel.
func (x *explainer) observe(ctx context.Context) error {
	if err := needInterface(x.input.Config); err != nil {
		return err
	}
	k, err := kernel.Open(kernel.Options{Interface: x.input.Config.Interface, Log: zap.NewNop()})
	if err != nil {
		return err
	}
	defer k.Close()
	if x.state, err = k.Observe(ctx); err != nil {
		return noInterface(err)
	}
	x.filters, x.standing = u32.NewClassifier(x.state.Filters), map[tc.Handle]tc.Class{}
	for _, c := range x.state.Classes {
		x.standing[c.ID] = c
	}
	return nil
}

// resolve finds ids and rates of the classes. Without the interface a percentage of its speed stays one.
func (x *explainer) resolve(speed tc.BitRate) error {
	resolved, _, err := policy.Resolve(x.input.Config, x.input.Inventory, x.node, speed)
	if err != nil && x.unasked == "" {
		return err
	}
	for _, c := range x.input.Config.Classes {
		facts := classFacts{id: tc.MakeHandle(tc.Major, c.ID)}
		if err != nil && c.Rate.Percent != 0 {
			facts.text = fmt.Sprintf("rate %g%% of the link, whose speed is not known here", c.Rate.Percent)
		}
		if err != nil && c.Rate.Fixed != 0 {
			facts.rate = c.Rate.Fixed.WholeBytes()
		}
		x.classes[c.Name] = facts
	}
	if err == nil {
		for _, c := range resolved {
			x.classes[c.Name] = classFacts{id: tc.MakeHandle(tc.Major, c.ID), rate: c.Rate.WholeBytes(), ceil: c.Ceil.WholeBytes()}
		}
		x.override(resolved, speed)
	}
	for name, c := range x.classes {
		x.names[c.id] = name
	}
	x.names[tc.ControlClass] = tc.ControlName
	return nil
}

// override takes in the rates that are in force for a while. Those of another node, or of a run folder that is not here, are not known.
func (x *explainer) override(resolved []policy.Class, speed tc.BitRate) {
	if x.unasked != "" {
		return
	}
	list, err := activeOverrides(x.input.Config)
	if err != nil {
		x.notes = append(x.notes, fmt.Sprintf("whether an override is in force could not be asked: %v", err))
		return
	}
	rates := override.Rates{Interface: x.input.Config.Interface, Link: cmp.Or(x.input.Config.LinkRate, speed)}
	for _, c := range resolved {
		rates.Classes = append(rates.Classes, override.Limits{Name: c.Name, Parent: c.Parent, Rate: c.Rate, Ceil: c.Ceil})
	}
	inForce, _ := rates.Apply(list)
	for _, o := range inForce {
		facts := x.classes[o.Class]
		facts.rate, facts.ceil = o.Limits.Rate.WholeBytes(), o.Limits.Ceil.WholeBytes()
		facts.override = fmt.Sprintf("by an override until %s, then %s again", untilText(o.Until, time.Now()), o.Configured.Rate)
		x.classes[o.Class] = facts
	}
}

// className is a class by name and id.
func (x *explainer) className(id tc.Handle) string {
	if name, ok := x.names[id]; ok {
		return name + " " + id.String()
	}
	return "class " + id.String() + " (not in the plan)"
}

// explain answers for each address that dest stands for.
func (x *explainer) explain(dest string) ([]view.Explanation, error) {
	addresses, err := x.addresses(dest)
	if err != nil {
		return nil, err
	}
	var answers []view.Explanation
	for _, a := range addresses {
		answers = append(answers, x.explainAddress(dest, a))
	}
	return answers, nil
}

// addresses are those that dest stands for.
func (x *explainer) addresses(dest string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(dest); err == nil {
		return []netip.Addr{a.Unmap().WithZone("")}, nil
	}
	if p, err := netip.ParsePrefix(dest); err == nil {
		return []netip.Addr{p.Addr().Unmap()}, nil
	}
	s, ok := x.input.Inventory.Server(dest)
	if !ok {
		remedy := ""
		var names []string
		for _, s := range x.input.Inventory.Servers {
			names = append(names, s.Names...)
		}
		if near := config.Nearest(inventory.CanonicalName(dest), names); near != "" {
			remedy = "; did you mean " + near + "?"
		}
		return nil, fmt.Errorf("explain %q: neither an address nor a server of the inventory%s", dest, remedy)
	}
	addresses := slices.Clone(s.Addresses)
	for _, p := range s.Prefixes {
		addresses = append(addresses, p.Addr())
	}
	if len(addresses) == 0 {
		return nil, fmt.Errorf("explain %q: the inventory has no address of it; add one to %s", dest, s.File)
	}
	return addresses, nil
}

func (x *explainer) explainAddress(dest string, a netip.Addr) view.Explanation {
	verdict := x.policy.Explain(a)
	e := view.Explanation{Destination: dest, Address: a.String(), Roles: []string{}, Rule: verdict.Rule, Class: verdict.Class, Own: verdict.Own}
	for _, t := range verdict.Tried {
		e.Tried = append(e.Tried, view.Tried{Rule: t.Rule, Reason: t.Reason})
	}
	if s := verdict.Owner; s != nil {
		e.Server, e.Cabinet, e.Datacenter, e.File, e.Prefix = s.Name, s.Cabinet, s.Datacenter, s.File, verdict.Prefix.String()
		e.Roles = append(e.Roles, s.Roles...)
	}
	if verdict.Own {
		e.Kernel = view.KernelAnswer{Agrees: true, Note: "packets to this node itself do not leave by the interface"}
		return e
	}
	if r, ok := x.rules[verdict.Rule]; ok {
		e.Matches = matchText(r.Match)
		if r.Place.Line > 0 {
			e.RulePlace = fmt.Sprintf("%s:%d", r.Place.File, r.Place.Line)
		}
	}
	class := x.classes[verdict.Class]
	e.ClassID, e.Rate, e.Ceil, e.RateText, e.Override = class.id.String(), uint64(class.rate), uint64(class.ceil), class.text, class.override
	e.Shared = x.sharedBy(verdict.Class)
	e.Kernel = x.askKernel(a, class.id)
	e.Ack = x.explainAck(a, verdict.Class, e.Kernel)
	return e
}

// explainAck is what a pure acknowledgement to a gets, nil where there is nothing to say beyond what other packets in class get.
func (x *explainer) explainAck(a netip.Addr, class string, others view.KernelAnswer) *view.AckAnswer {
	ack := &view.AckAnswer{Class: class}
	if own := x.input.Config.AckClass; own != "" {
		ack.Rule, ack.Class = shaper.AckRule, own
	}
	facts := x.classes[ack.Class]
	ack.ClassID, ack.Rate = facts.id.String(), uint64(facts.rate)
	packet, protocol := u32.Ack(a)
	ack.Kernel = x.askKernelFor(packet, protocol, facts.id)
	if ack.Rule == "" && ack.Kernel.ClassID == others.ClassID {
		return nil
	}
	return ack
}

// matchText is what a rule asks for.
func matchText(m config.Match) string {
	var parts []string
	add := func(key string, values []string) {
		if values != nil {
			parts = append(parts, key+" "+strings.Join(values, " or "))
		}
	}
	add("role", m.Role)
	add("cabinet", m.Cabinet)
	add("datacenter", m.Datacenter)
	add("server", m.Server)
	var prefixes []string
	for _, p := range m.Address {
		prefixes = append(prefixes, p.String())
	}
	add("address in", prefixes)
	return strings.Join(parts, " and ")
}

// askKernel sends a packet to a through the filters as they were read from the kernel.
func (x *explainer) askKernel(a netip.Addr, want tc.Handle) view.KernelAnswer {
	packet, protocol := u32.Packet(a)
	return x.askKernelFor(packet, protocol, want)
}

// askKernelFor sends packet, and where packets may leave with a VLAN tag one with each tag: if one of those goes elsewhere, that is the answer.
func (x *explainer) askKernelFor(packet []byte, protocol tc.Protocol, want tc.Handle) view.KernelAnswer {
	answer := x.askKernelOnce(packet, protocol, want)
	for _, tag := range x.state.Link.Tags {
		if tagged := x.askKernelOnce(packet, tag, want); answer.Agrees && !tagged.Agrees {
			tagged.Note = strings.TrimSuffix(fmt.Sprintf("that is behind a tag of %s, %s", tag, tagged.Note), ", ")
			return tagged
		}
	}
	return answer
}

func (x *explainer) askKernelOnce(packet []byte, protocol tc.Protocol, want tc.Handle) view.KernelAnswer {
	if x.unasked != "" {
		return view.KernelAnswer{Note: x.unasked, Unasked: true}
	}
	root, _ := x.state.RootQdisc()
	iface := x.input.Config.Interface
	if diff.Ownership(x.state).Kind != diff.Ours {
		return view.KernelAnswer{Note: fmt.Sprintf("%s is not shaped by us: its root qdisc is %s %s", iface, root.Kind, root.Handle)}
	}
	result := x.filters.Classify(packet, protocol)
	if result.Unknown != "" {
		return view.KernelAnswer{Note: "cannot tell: " + result.Unknown}
	}
	class := tc.MakeHandle(root.Handle.Major(), uint16(root.HTB.Default))
	answer := view.KernelAnswer{Filter: noFilter}
	if result.Matched {
		class, answer.Filter = result.ClassID, result.Filter.Ident()
	}
	if !standsAsLeaf(x.state, class) {
		answer.Note = x.className(class) + " does not stand as a leaf, so the default class is taken"
		class = tc.MakeHandle(root.Handle.Major(), uint16(root.HTB.Default))
	}
	if _, ours := plan.OwnPref(result.Filter.Pref); result.Matched && !ours && class != want {
		answer.Note = fmt.Sprintf("that filter is not ours and comes first: if it should not, tc filter del dev %s parent %s pref %d", iface, root.Handle, result.Filter.Pref)
	}
	answer.ClassID, answer.Class, answer.Agrees = class.String(), x.names[class], class == want
	answer.Rate = uint64(x.standing[class].Rate)
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

// exit is the error that answers end with, nil where all is well: what is unknown or cannot be asked counts more than what disagrees.
func (x *explainer) exit(unknown []error, disagrees bool) error {
	switch {
	case len(unknown) > 0:
		return wrong(errors.Join(unknown...))
	case x.unaskedErr != nil:
		return fmt.Errorf("the kernel could not be asked: %w", x.unaskedErr)
	case disagrees:
		return &codedError{code: exitDiffers}
	}
	return nil
}
