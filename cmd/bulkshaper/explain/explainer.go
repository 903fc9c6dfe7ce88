package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"bulkshaper/cmd/bulkshaper/screen"
	"bulkshaper/cmd/bulkshaper/view"
	"bulkshaper/inventory"
	"bulkshaper/shaper"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/override"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/u32"
)

// Explainer answers about addresses: from the files, and where it can be read from the kernel.
type Explainer struct {
	*standing
	input   shaper.Input
	policy  *policy.Policy
	node    *inventory.Server
	classes map[string]classFacts
	rules   map[string]config.Rule
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

// New makes an Explainer of what was read, with the kernel unless withKernel is false. A kernel that cannot be read is told with each
// answer. hostname helps to find this node.
func New(ctx context.Context, input shaper.Input, hostname string, withKernel bool) (*Explainer, error) {
	x := &Explainer{standing: observe(ctx, input.Config.Interface, withKernel), input: input, classes: map[string]classFacts{},
		rules: map[string]config.Rule{}, shared: map[string]*view.Shared{}}
	for _, r := range input.Config.Rules {
		x.rules[r.Name] = r
	}
	facts := shaper.FactsOf(x.state)
	if x.unasked != "" {
		facts = plan.Facts{Link: tc.Link{Name: input.Config.Interface, MTU: 1500}}
	}
	var err error
	if x.node, err = policy.FindNode(input.Config, input.Inventory, facts.Link.Addresses, hostname); err != nil {
		if input.Config.Node == "" && errors.Is(x.unaskedErr, tc.ErrNoInterface) {
			err = x.unaskedErr // its addresses might have told, and no file is at fault
		}
		return nil, err
	}
	if x.policy, err = policy.New(input.Config, input.Inventory, x.node); err != nil {
		return nil, err
	}
	return x, x.resolve(facts.Link.Speed)
}

// Notes are what could not be asked besides.
func (x *Explainer) Notes() []string { return x.notes }

// resolve finds ids and rates of the classes. Without the interface a percentage of its speed stays one.
func (x *Explainer) resolve(speed tc.BitRate) error {
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
	return nil
}

// override takes in the rates that are in force for a while. Those of another node, or of a run folder that is not here, are not known.
func (x *Explainer) override(resolved []policy.Class, speed tc.BitRate) {
	if x.unasked != "" {
		return
	}
	list, err := override.Store{Dir: x.input.Config.RunDir}.Load()
	list = override.Active(list, time.Now())
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
		facts.override = fmt.Sprintf("by an override until %s, then %s again", screen.Until(o.Until, time.Now()), o.Configured.Rate)
		x.classes[o.Class] = facts
	}
}

// Explain answers for each address that dest stands for.
func (x *Explainer) Explain(dest string) ([]view.Explanation, error) {
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
func (x *Explainer) addresses(dest string) ([]netip.Addr, error) {
	a, ok, err := address(dest)
	if ok || err != nil {
		return []netip.Addr{a}, err
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

// address is dest where it is one, also with the length of its network behind it as in an inventory. A prefix of many is none: its addresses
// may be in several classes.
func address(dest string) (a netip.Addr, ok bool, err error) {
	if a, err := netip.ParseAddr(dest); err == nil {
		return a.Unmap().WithZone(""), true, nil
	}
	p, err := netip.ParsePrefix(dest)
	if err != nil {
		return netip.Addr{}, false, nil // the name of a server, then
	}
	if p == p.Masked() && !p.IsSingleIP() {
		return netip.Addr{}, false, fmt.Errorf("explain %q: a prefix, and its addresses may be in several classes; ask with `bulkshaper explain --between %s`", dest, p)
	}
	return p.Addr().Unmap(), true, nil
}

func (x *Explainer) explainAddress(dest string, a netip.Addr) view.Explanation {
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
func (x *Explainer) explainAck(a netip.Addr, class string, others view.KernelAnswer) *view.AckAnswer {
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
