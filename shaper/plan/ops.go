package plan

import (
	"slices"

	"bulkshaper/shaper/tc"
)

// Default is the class for packets that no filter matches.
func (p *Plan) Default() Class { return p.Classes[len(p.Classes)-1] }

// Ops is the first installation, on an interface where nothing of ours stands. Its order matters:
//
//   - The root is followed at once by a leaf class and its leaf, the mark by which a tree is known as ours (the kernel package
//     sends the three together). The control class serves, since it is always there and at the root.
//   - The default class comes last. While it does not exist, a packet that no filter matches, or whose filter's class does not
//     exist, goes out directly, as it did before; with the default class standing it would be held to the default's rate before
//     its own filter is there. The price: the kernel does not bind a filter to a class that is made after it, so the default
//     class can be deleted by others while filters lead to it.
func (p *Plan) Ops() []tc.Op {
	ops := []tc.Op{{Verb: tc.Add, Object: p.Root, Why: "no shaping of ours stands"}}
	add := func(c Class) {
		ops = append(ops, tc.Op{Verb: tc.Add, Object: c.Class, Why: "class " + c.Name + " is not there", Hitless: true})
		if c.Leaf != nil {
			ops = append(ops, tc.Op{Verb: tc.Add, Object: *c.Leaf, Why: "class " + c.Name + " has no queue yet", Hitless: true})
		}
	}
	control := slices.IndexFunc(p.Classes, func(c Class) bool { return c.Name == tc.ControlName })
	add(p.Classes[control])
	for i, c := range p.Classes[:len(p.Classes)-1] {
		if i != control {
			add(c)
		}
	}
	node := map[uint16]uint32{}
	for _, f := range p.Filters {
		node[f.Pref]++
		f.Handle = tc.MakeU32Handle(0, 0, node[f.Pref])
		ops = append(ops, tc.Op{Verb: tc.Add, Object: f.Filter, Why: "filter for " + f.Name + " is not there", Hitless: true})
	}
	add(p.Default())
	return ops
}
