package diff

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
)

// mustRebuild is why the wanted tree cannot be reached in place, "" if it can. It also finds the classes that can be moved.
func (c *comparison) mustRebuild() string {
	root := c.want.Root.HTB
	switch {
	case c.root.HTB.Default != root.Default:
		return fmt.Sprintf("the default class is %s and shall be %s, which the kernel cannot change",
			c.name(tc.MakeHandle(tc.Major, uint16(c.root.HTB.Default))), c.name(tc.MakeHandle(tc.Major, uint16(root.Default))))
	case c.root.HTB.R2Q != root.R2Q:
		return fmt.Sprintf("r2q is %d and shall be %d, which the kernel cannot change", c.root.HTB.R2Q, root.R2Q)
	}
	for _, w := range c.want.Classes {
		id := w.Class.ID
		h, ok := c.classes[id]
		if !ok {
			continue
		}
		isInner, wantInner := len(c.children[id]) > 0, w.Leaf == nil
		switch {
		case isInner && !wantInner:
			return fmt.Sprintf("class %s has classes below it and shall be a leaf", c.name(id))
		case !isInner && wantInner && c.used(id):
			return fmt.Sprintf("class %s is in use as a leaf and shall have classes below it", c.name(id))
		case h.Parent == w.Class.Parent:
			continue
		case c.takeover || isInner || wantInner || c.isDefault(id) || c.outside[id] || !c.defaultStands():
			return fmt.Sprintf("class %s is below %s and shall be below %s, which the kernel cannot change", c.name(id), c.name(h.Parent), c.name(w.Class.Parent))
		}
		c.moved[id] = true
	}
	return ""
}

func (c *comparison) isDefault(id tc.Handle) bool { return id == c.want.Default().Class.ID }

func (c *comparison) defaultStands() bool {
	_, ok := c.classes[c.want.Default().Class.ID]
	return ok
}

// used tells whether packets are sent to the class now, to wait in its leaf. A class without one is in the making: an inner class
// is added as all are, and lacks its children if that was cut off.
func (c *comparison) used(id tc.Handle) bool {
	if _, ok := c.leaves[id]; !ok && !c.takeover {
		return false
	}
	return c.isDefault(id) || c.outside[id] || slices.ContainsFunc(c.have.Filters, func(f tc.Filter) bool { return f.ClassID == id })
}

// sortClasses finds the classes that are not wanted: those of ours are to go, the others are foreign.
func (c *comparison) sortClasses() {
	var ours func(tc.Handle) bool
	ours = func(id tc.Handle) bool {
		if _, ok := c.wanted[id]; ok {
			return true
		}
		below := c.children[id]
		if len(below) == 0 {
			return c.takeover || marked(c.classes[id], c.leaves)
		}
		return !slices.ContainsFunc(below, func(child tc.Handle) bool { return !ours(child) })
	}
	// A class stays where a foreign filter leads to it or to one below it.
	var held func(tc.Handle) bool
	held = func(id tc.Handle) bool {
		_, isWanted := c.wanted[id]
		return c.outside[id] && !isWanted || slices.ContainsFunc(c.children[id], held)
	}
	for _, id := range slices.Sorted(maps.Keys(c.classes)) {
		if _, ok := c.wanted[id]; ok {
			continue
		}
		switch {
		case !ours(id):
			c.foreign = append(c.foreign, fmt.Sprintf("class %s, which is not ours", id))
		case held(id):
			c.foreign = append(c.foreign, fmt.Sprintf("class %s, which a foreign filter leads to", id))
		default:
			c.doomed[id] = true
		}
	}
}

// compareClasses adds and changes classes and their leaves, parents before children.
func (c *comparison) compareClasses() {
	c.deleteMisplaced()
	for _, w := range c.want.Classes {
		id := w.Class.ID
		h, ok := c.classes[id]
		switch {
		case !ok && c.isDefault(id):
			c.made[id] = true // added by addDefault
		case !ok:
			c.made[id] = true
			c.build = append(c.build, c.addClass(w, "class "+w.Name+" is not there")...)
		case c.moved[id]:
			c.moveClass(w, h)
		default:
			if differences := compareClass(h, w); len(differences) > 0 {
				c.build = append(c.build, tc.Op{Verb: tc.Change, Object: w.Class, Why: join(differences), Hitless: true})
			}
			c.compareLeaf(w)
		}
	}
}

func (c *comparison) addClass(w plan.Class, why string) []tc.Op {
	ops := []tc.Op{{Verb: tc.Add, Object: w.Class, Why: why, Hitless: true}}
	if w.Leaf != nil {
		leaf := tc.Op{Verb: tc.Add, Object: *w.Leaf, Why: "class " + w.Name + " has no queue yet", Hitless: true}
		if c.takeover {
			c.attach(w, leaf)
		} else {
			ops = append(ops, leaf)
		}
	}
	return ops
}

// moveClass deletes a leaf class and adds it below its new parent. Its filters lead to the default class in the meantime.
func (c *comparison) moveClass(w plan.Class, h tc.Class) {
	why := fmt.Sprintf("class %s is below %s, wanted below %s: packets in its queue are dropped", w.Name, c.name(h.Parent), c.name(w.Class.Parent))
	c.move = append(c.move, tc.Op{Verb: tc.Delete, Object: h, Why: why})
	added := c.addClass(w, "class "+w.Name+" under its new parent")
	added[0].Hitless, added[1].Hitless = false, false
	c.move = append(c.move, added...)
}

// compareClass is what differs and can be changed. An inner class has no use for prio and quantum, and the kernel keeps those that
// it had as a leaf.
func compareClass(h tc.Class, w plan.Class) []string {
	var differences []string
	number := func(name string, is, wanted uint32) {
		if is != wanted {
			differences = append(differences, fmt.Sprintf("%s is %d, wanted %d", name, is, wanted))
		}
	}
	rate := func(name string, is, wanted tc.BitRate) {
		if is != wanted {
			differences = append(differences, fmt.Sprintf("%s is %s, wanted %s", name, is, wanted))
		}
	}
	burst := func(name string, is, wanted tc.Ticks, isRate, wantedRate tc.BitRate) {
		if is == wanted {
			return
		}
		a, b := is.BytesAt(isRate), wanted.BytesAt(wantedRate)
		if isRate != wantedRate && max(a, b)-min(a, b) <= max(a, b)/100 {
			return // one size at two rates: tc.BurstTicks adds up to a hundredth
		}
		if a != b {
			differences = append(differences, fmt.Sprintf("%s is %d bytes, wanted %d", name, a, b))
		} else {
			differences = append(differences, fmt.Sprintf("%s is %d ticks, wanted %d", name, is, wanted))
		}
	}
	if w.Leaf != nil {
		number("prio", h.Prio, w.Class.Prio)
	}
	rate("rate", h.Rate, w.Class.Rate)
	rate("ceil", h.Ceil, w.Class.Ceil)
	burst("burst", h.Buffer, w.Class.Buffer, h.Rate, w.Class.Rate)
	burst("cburst", h.Cbuffer, w.Class.Cbuffer, h.Ceil, w.Class.Ceil)
	if w.Leaf != nil {
		number("quantum", h.Quantum, w.Class.Quantum)
	}
	return differences
}

// addDefault adds the default class where it is missing, after the filters: until it stands, unmatched packets go out directly, as
// they do now. Filters that already led to it are not bound to a class made later (then the class could be deleted under them), so
// they are sent again.
func (c *comparison) addDefault() {
	if !c.defaultStands() {
		w := c.want.Default()
		c.last = slices.Concat(c.addClass(w, "class "+w.Name+", the default, is not there"), c.last)
	}
}

// deleteClasses deletes what is not wanted, children first.
func (c *comparison) deleteClasses() {
	ids := slices.Collect(maps.Keys(c.doomed))
	slices.SortFunc(ids, func(a, b tc.Handle) int { return cmp.Or(cmp.Compare(c.depth(b), c.depth(a)), cmp.Compare(a, b)) })
	for _, id := range ids {
		c.classDeletes = append(c.classDeletes, tc.Op{Verb: tc.Delete, Object: c.classes[id],
			Why: fmt.Sprintf("class %s is not wanted: packets in its queue are dropped", id)})
	}
}

// depth is how many classes are above; the number of classes bounds it, whatever was read.
func (c *comparison) depth(id tc.Handle) int {
	n := 0
	for h, ok := c.classes[id]; ok && n < len(c.classes); h, ok = c.classes[h.Parent] {
		n++
	}
	return n
}
