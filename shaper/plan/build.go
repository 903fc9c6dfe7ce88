package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"bulkshaper/inventory"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
)

// Facts is what a plan needs to know of the machine.
type Facts struct {
	Link tc.Link
	// AutoLeaf is the kind of leaf that "auto" stands for; "" is pfifo, which every kernel has.
	AutoLeaf string
}

// R2Q is the root's divisor of rate to quantum. Every class has an explicit quantum, so it decides nothing.
const R2Q = 10

// Build makes the plan of node: classes are those of cfg with their rates resolved (policy.Resolve), destinations what the policy
// gives each prefix. Whatever would make the kernel do something else than what was meant, silently or not, is an error here.
func Build(cfg *config.Config, classes []policy.Class, destinations []policy.Destination, node *inventory.Server, facts Facts) (*Plan, error) {
	if !slices.Contains([]string{"", LayoutList, LayoutHash}, cfg.Layout) {
		return nil, fmt.Errorf("build the plan: layout %q is neither list nor hash", cfg.Layout)
	}
	if facts.Link.MTU <= 0 {
		return nil, fmt.Errorf("build the plan: the MTU of interface %q is not known", cfg.Interface)
	}
	p := &Plan{Interface: cfg.Interface, Layout: cmp.Or(cfg.Layout, LayoutList), AckClass: cfg.AckClass, Tags: facts.Link.Tags}
	if node != nil {
		p.Node, p.Cabinet = node.Name, node.Cabinet
	}
	b := builder{config: cfg, facts: facts, plan: p}
	if err := b.buildClasses(classes); err != nil {
		return nil, fmt.Errorf("build the classes: %w", err)
	}
	if err := b.buildFilters(destinations); err != nil {
		return nil, err
	}
	return p, nil
}

type builder struct {
	config *config.Config
	facts  Facts
	plan   *Plan
}

// frame is the largest frame without its check sum: the MTU and the Ethernet header.
func (b *builder) frame() uint64 { return uint64(b.facts.Link.MTU) + 14 }

func (b *builder) buildClasses(classes []policy.Class) error {
	byName, inner := map[string]policy.Class{}, map[string]bool{}
	ids := map[uint16]string{}
	var errs []error
	for _, c := range classes {
		switch other, taken := ids[c.ID]; {
		case tc.ReservedMinor(c.ID):
			errs = append(errs, fmt.Errorf("class %q: id %x is reserved", c.Name, c.ID))
		case taken:
			errs = append(errs, fmt.Errorf("classes %q and %q have one id %x", other, c.Name, c.ID))
		}
		if _, ok := byName[c.Name]; ok || c.Name == tc.ControlName {
			errs = append(errs, fmt.Errorf("class %q: the name is taken", c.Name))
		}
		if c.Rate.BytesPerSecond() == 0 || c.Ceil < c.Rate || c.Prio > 7 {
			errs = append(errs, fmt.Errorf("class %q: rate %s, ceil %s, prio %d are not possible", c.Name, c.Rate, c.Ceil, c.Prio))
		}
		byName[c.Name], ids[c.ID] = c, c.Name
		if c.Parent != "" {
			inner[c.Parent] = true
		}
	}
	for parent := range inner {
		if _, ok := byName[parent]; !ok {
			errs = append(errs, fmt.Errorf("class %q is a parent and does not exist", parent))
		}
	}
	standard, ok := byName[b.config.DefaultClass]
	if !ok || inner[standard.Name] {
		errs = append(errs, fmt.Errorf("default class %q does not exist or has classes below it", b.config.DefaultClass))
	}
	if len(errs) > 0 {
		slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
		return errors.Join(errs...)
	}

	b.plan.Root = tc.Qdisc{Handle: tc.MakeHandle(tc.Major, 0), Parent: tc.Root, Kind: tc.KindHTB,
		HTB: tc.HTB{Default: uint32(standard.ID), R2Q: R2Q}}
	// The control class is like the default class, so that no number is invented, but at the root and served first: it must
	// not wait behind bulk or for a parent's tokens.
	control := standard
	control.Name, control.ID, control.Parent, control.Prio = tc.ControlName, tc.ControlMinor, "", 0
	// Who turns the default class down for a while does not mean to cut the node off.
	control.Rate, control.Ceil = cmp.Or(standard.ConfiguredRate, standard.Rate), cmp.Or(standard.ConfiguredCeil, standard.Ceil)
	byName[control.Name] = control

	order, err := orderClasses(byName, standard.Name)
	if err != nil {
		return err
	}
	for _, c := range order {
		class, err := b.buildClass(c, byName, inner[c.Name])
		if err != nil {
			return fmt.Errorf("class %q: %w", c.Name, err)
		}
		b.plan.Classes = append(b.plan.Classes, class)
	}
	return nil
}

// orderClasses has parents before children, otherwise ascending ids, and the class last at the end.
func orderClasses(byName map[string]policy.Class, last string) ([]policy.Class, error) {
	rest := make([]policy.Class, 0, len(byName))
	for _, c := range byName {
		rest = append(rest, c)
	}
	slices.SortFunc(rest, func(a, b policy.Class) int {
		if (a.Name == last) != (b.Name == last) {
			return map[bool]int{true: 1, false: -1}[a.Name == last]
		}
		return cmp.Compare(a.ID, b.ID)
	})
	depth := map[string]int{"": 0}
	var order []policy.Class
	for len(rest) > 0 {
		i := slices.IndexFunc(rest, func(c policy.Class) bool { _, ok := depth[c.Parent]; return ok })
		if i < 0 {
			return nil, fmt.Errorf("class %q: its parents form a circle", rest[0].Name)
		}
		c := rest[i]
		if depth[c.Name] = depth[c.Parent] + 1; depth[c.Name] > maxDepth {
			return nil, fmt.Errorf("class %q: more than %d classes below each other", c.Name, maxDepth)
		}
		order, rest = append(order, c), slices.Delete(rest, i, i+1)
	}
	return order, nil
}

// maxDepth is TC_HTB_MAXDEPTH.
const maxDepth = 8

func (b *builder) buildClass(c policy.Class, byName map[string]policy.Class, inner bool) (Class, error) {
	class := tc.Class{ID: tc.MakeHandle(tc.Major, c.ID), Parent: tc.Root, Prio: c.Prio, Rate: c.Rate.WholeBytes(), Ceil: c.Ceil.WholeBytes()}
	if c.Parent != "" {
		class.Parent = tc.MakeHandle(tc.Major, byName[c.Parent].ID)
	}
	class.Buffer = tc.BurstTicks(cmp.Or(c.Burst, DefaultBurst(class.Rate)), class.Rate)
	class.Cbuffer = tc.BurstTicks(cmp.Or(c.Cburst, DefaultBurst(class.Ceil)), class.Ceil)
	if class.Quantum = c.Quantum; class.Quantum == 0 {
		class.Quantum = uint32(max(b.frame(), min(class.Rate.BytesPerSecond()/10, maxQuantum)))
	}
	result := Class{Name: c.Name, Class: class}
	if inner {
		return result, nil
	}
	leaf, err := b.buildLeaf(class, c.Leaf)
	if err != nil {
		return Class{}, err
	}
	result.Leaf = &leaf
	return result, nil
}

const (
	// minBurst holds one GSO packet: with less, a class stays below its rate (1433 bytes gave 93 % of 819200kbit).
	minBurst tc.Bytes = 64 << 10
	// maxQuantum is where the kernel begins to warn.
	maxQuantum = 200_000
)

// DefaultBurst is the burst where none is given: 1 ms of rate, at least 64 KiB. From 100 Mbit/s up that is at most 5.3 ms.
func DefaultBurst(rate tc.BitRate) tc.Bytes {
	return max(minBurst, tc.Bytes(rate.BytesPerSecond()/1000))
}

const (
	minQueue = 64     // packets
	maxQueue = 10_000 // packets
)

func (b *builder) buildLeaf(class tc.Class, written config.Leaf) (tc.Qdisc, error) {
	leaf := tc.Qdisc{Handle: tc.LeafHandle(class.ID.Minor()), Parent: class.ID, Kind: written.Kind, Limit: written.Limit}
	if leaf.Kind == "" || leaf.Kind == "auto" {
		leaf.Kind = cmp.Or(b.facts.AutoLeaf, tc.KindPFIFO)
	}
	if !slices.Contains([]string{tc.KindPFIFO, tc.KindBFIFO, tc.KindFQCodel, "fq", "sfq", "cake"}, leaf.Kind) {
		return tc.Qdisc{}, fmt.Errorf("leaf kind %q is none of auto, pfifo, bfifo, fq_codel, fq, sfq, cake", leaf.Kind)
	}
	// A queue of 50 ms of the rate: a thousand packets, as is usual, are 600 ms at 20 Mbit/s. The limit is always explicit,
	// since the kernel takes the interface's txqueuelen, which may be 0.
	if leaf.Limit == 0 {
		packets := min(max(class.Rate.BytesPerSecond()/20/b.frame(), minQueue), maxQueue)
		switch leaf.Kind {
		case tc.KindPFIFO:
			leaf.Limit = uint32(packets)
		case tc.KindBFIFO:
			leaf.Limit = uint32(packets * b.frame())
		}
	}
	return leaf, nil
}
