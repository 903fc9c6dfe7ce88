package diff

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
)

// Taking over in place: the root is htb 1:, as somebody else made it, and may become ours. To the comparison that is one more state to
// start from, in which everything is ours to keep, change or delete. It differs in three things:
//
//   - The filters at all prefs are compared, not only those at ours, from the last that a packet meets to the first. So each packet gets
//     its class by the old filters until the one that decides it goes, and then, or as soon as ours stand before it, by ours.
//   - What a class is asked to become has to fit what it is: a class that cannot be changed in place, or whose id has meant something
//     else, makes the root be set up again, as any other foreign root is.
//   - Our leaves come last of all. They are the mark by which the tree is known as ours, so a run that is cut off leaves a tree that is
//     still to be taken over, and the next one goes on from there. What waits in the queue of a class is lost with its old leaf, so
//     these operations say whose queue should be empty.

// refusal is why the observed root cannot be taken over in place, "" if it can.
func (c *comparison) refusal() string {
	if c.alien != nil {
		return fmt.Sprintf("a %s filter of protocol %s stands at pref %d, which is ours", c.alien.Kind, c.alien.Protocol, c.alien.Pref)
	}
	if why := c.mustRebuild(); why != "" {
		return why
	}
	if why := c.noRoom(); why != "" {
		return why
	}
	return c.otherMeaning()
}

// maxRoots is how many u32 prefs and tables that it numbers itself the kernel has ids for, on one qdisc. Beyond, it takes the pref and
// gives it the table of another.
const maxRoots = 0x7ff

// noRoom finds that our prefs do not fit beside those that stand, and both have to stand for a moment.
func (c *comparison) noRoom() string {
	tables, prefs := map[uint32]bool{}, map[uint16]bool{}
	for _, f := range c.have.Filters {
		if id := f.Handle.Table(); f.Kind == tc.KindU32 && id >= 0x800 {
			tables[id] = true
		}
	}
	need := func(f tc.Filter) {
		if len(c.byPref[f.Pref]) == 0 {
			prefs[f.Pref] = true
		}
	}
	for _, f := range c.want.Filters {
		need(f.Filter)
		for _, tag := range c.want.Tags {
			if f.Protocol.IsTag() {
				break
			}
			need(plan.BehindTag(f.Filter, tag))
		}
	}
	if len(tables)+len(prefs) <= maxRoots {
		return ""
	}
	return fmt.Sprintf("%d u32 prefs stand, and the kernel has no ids for %d of ours beside them: it has %d", len(tables), len(prefs), maxRoots)
}

// otherMeaning finds a class that, but for its id, has nothing in common with the wanted one: destinations are sent to it now, and none of
// those is to be in it, nor has a takeover begun that found it alike. Its counters would go on with something else, and its rate change under what it holds now. The default class is
// the same by being the default.
func (c *comparison) otherMeaning() string {
	wanted := map[netip.Prefix]string{}
	for _, d := range c.want.Destinations {
		wanted[d.Prefix] = d.Class
	}
	alike, others := map[tc.Handle]bool{}, map[tc.Handle]netip.Prefix{}
	for _, f := range c.have.Filters {
		w, ok := c.wanted[f.ClassID]
		p, plain := f.Destination()
		_, own := plan.OwnPref(f.Pref)
		if own && f.IsNode() {
			alike[f.ClassID] = true // a takeover that was cut off has led destinations there already, and maybe deleted what it judged by
		}
		if own || !ok || !plain || !f.IsNode() || f.Link != 0 || c.isDefault(f.ClassID) {
			continue
		}
		switch name, known := covering(wanted, p); {
		case known && name == w.Name:
			alike[f.ClassID] = true
		case known:
			if _, ok := others[f.ClassID]; !ok {
				others[f.ClassID] = p
			}
		}
	}
	for _, w := range c.want.Classes {
		if p, ok := others[w.Class.ID]; ok && !alike[w.Class.ID] {
			return fmt.Sprintf("class %s has been something else: %s is sent there, for one, and belongs to %s, and none that is sent there stays",
				c.name(w.Class.ID), p, c.named(wanted, p))
		}
	}
	return ""
}

// covering is the class of the longest prefix that covers p.
func covering(classes map[netip.Prefix]string, p netip.Prefix) (string, bool) {
	for bits := p.Bits(); bits >= 0; bits-- {
		shorter, err := p.Addr().Prefix(bits)
		if err != nil {
			break
		}
		if name, ok := classes[shorter]; ok {
			return name, true
		}
	}
	return "", false
}

func (c *comparison) named(classes map[netip.Prefix]string, p netip.Prefix) string {
	name, _ := covering(classes, p)
	return name
}

// dropPref deletes all that stands at a pref which is not ours, from the last that a packet meets to the first, and with it the pref. What
// is in hash tables goes with these, when nothing leads there any more.
func (c *comparison) dropPref(pref uint16) {
	stands := c.byPref[pref]
	place := tc.Op{Verb: tc.Delete, Why: "what stood there is replaced by our filters", Hitless: true,
		Object: tc.Pref{Parent: c.root.Handle, Number: pref, Protocol: stands[0].Protocol, Kind: stands[0].Kind}}
	if stands[0].Kind != tc.KindU32 { // what is in it is not known, so all goes at once
		c.deleteFilters([]tc.Op{place})
		return
	}
	nodes := slices.DeleteFunc(slices.Clone(stands), func(f tc.Filter) bool {
		return !f.IsNode() || f.Handle.Table() != c.roots[pref]
	})
	slices.SortStableFunc(nodes, func(a, b tc.Filter) int { return cmp.Compare(b.Handle, a.Handle) })
	var deletes []tc.Op
	for _, f := range nodes {
		deletes = append(deletes, tc.Op{Verb: tc.Delete, Object: f, Why: "our filters decide instead", Hitless: true})
	}
	c.deleteFilters(deletes)
	c.prefDeletes = append(c.prefDeletes, place)
}

// attach puts off what gives a class that stands its leaf; see above.
func (c *comparison) attach(w plan.Class, op tc.Op) {
	op.Drains, op.Hitless = w.Class.ID, false
	if op.Verb == tc.Add {
		op.Why += ": what waits in the one that the kernel gave it is dropped"
	}
	c.attached = append(c.attached, op)
}

// takenOver says what becomes of the tree.
func (c *comparison) takenOver(maker string) string {
	kept := ""
	for _, w := range c.want.Classes {
		if _, ok := c.classes[w.Class.ID]; ok {
			if kept != "" {
				kept += ", "
			}
			kept += c.name(w.Class.ID)
		}
	}
	filters := 0
	for _, f := range c.have.Filters {
		if _, own := plan.OwnPref(f.Pref); !own && isFilter(&f) {
			filters++
		}
	}
	sorted := fmt.Sprintf("its filters (%d) go when ours are there", filters)
	if filters == 0 {
		sorted = "no filters stand there, so if rules of iptables or nftables put packets into its classes (CLASSIFY, meta priority), take them out: " +
			"those win over filters"
	}
	if kept == "" {
		kept = "none of its classes stays; "
	} else {
		kept = fmt.Sprintf("its classes %s stay with their counters and are changed in place; ", kept)
	}
	return fmt.Sprintf("the root qdisc %s (probably %s) becomes ours and is not set up again; %s%s; "+
		"last of all the classes get queues of ours, when nothing waits in the old ones or some seconds have passed. What made it must not run again",
		rootText(c.root), maker, kept, sorted)
}
