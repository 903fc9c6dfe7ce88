package plan

import (
	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/u32/layout"
)

// Default is the class for packets that no filter matches.
func (p *Plan) Default() Class { return p.Classes[len(p.Classes)-1] }

// Install is the first installation, on an interface where nothing of ours stands. Its order matters:
//
//   - The root is followed at once by a leaf class and its leaf, the mark by which a tree is known as ours (the kernel package
//     sends the three together). The control class serves, since it is always there and at the root.
//   - The default class comes last. While it does not exist, a packet that no filter matches, or whose filter's class does not
//     exist, goes out directly, as it did before; with the default class standing it would be held to the default's rate before
//     its own filter is there. The price: the kernel does not bind a filter to a class that is made after it, so the default
//     class can be deleted by others while filters lead to it.
//
// Hash tables are filled before anything links to them, and the links come last.
func (p *Plan) Install() ([]tc.Op, error) {
	hashed := p.Hashed()
	trees, err := trees(hashed)
	if err != nil {
		return nil, err
	}
	var filters []tc.Op
	add := func(f tc.Filter, name string) {
		filters = append(filters, tc.Op{Verb: tc.Add, Object: f, Why: "filter for " + name + " is not there", Hitless: true})
	}
	node := map[uint16]uint32{}
	for _, f := range p.Filters {
		if f.Pref == PrefHashIPv4 || f.Pref == PrefHashIPv6 {
			continue
		}
		node[f.Pref]++
		f.Handle = tc.MakeU32Handle(0, 0, node[f.Pref])
		add(f.Filter, f.Name)
	}
	var live []layout.Step
	names := map[uint16]*Hashed{}
	for i := range hashed {
		names[hashed[i].Place.Pref] = &hashed[i]
	}
	for _, tree := range trees {
		steps := tree.Steps(nil, nil)
		for _, f := range steps.Tables {
			filters = append(filters, tc.Op{Verb: tc.Add, Object: f, Why: "hash table " + f.Handle.String() + " is not there", Hitless: true})
		}
		for _, f := range steps.Aside {
			add(f, names[f.Pref].Name(f))
		}
		live = append(live, steps.Live...)
	}
	for _, step := range live {
		name := names[step.Filter.Pref].Name(step.Filter)
		add(step.Filter, name)
		for _, tag := range p.Tags {
			add(BehindTag(step.Filter, tag), name)
		}
	}
	return p.install(filters), nil
}

// install puts filters behind the classes that they lead to.
func (p *Plan) install(filters []tc.Op) []tc.Op {
	ops := []tc.Op{{Verb: tc.Add, Object: p.Root, Why: "no shaping of ours stands"}}
	add := func(c Class) {
		ops = append(ops, tc.Op{Verb: tc.Add, Object: c.Class, Why: "class " + c.Name + " is not there", Hitless: true})
		if c.Leaf != nil {
			ops = append(ops, tc.Op{Verb: tc.Add, Object: *c.Leaf, Why: "class " + c.Name + " has no queue yet", Hitless: true})
		}
	}
	// The control class is first, by its id: a plan that is made of what stands knows no names.
	isControl := func(c Class) bool { return c.Class.ID == tc.ControlClass }
	others := p.Classes[:len(p.Classes)-1]
	for _, first := range []bool{true, false} {
		for _, c := range others {
			if isControl(c) == first {
				add(c)
			}
		}
	}
	ops = append(ops, filters...)
	add(p.Default())
	return ops
}
