package main

import (
	"fmt"
	"io"

	"bulkshaper/cmd/bulkshaper/screen"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/u32/layout"
)

// printFull is the whole wanted state: classes, destinations, and in layout hash the tables, in the order in which a packet
// meets them.
func printFull(w io.Writer, n *node) error {
	p := n.desired.Plan
	out := &errWriter{w: w}
	out.printf("%s on %s, cabinet %s\n\n", p.Interface, p.Node, screen.OrUnknown(p.Cabinet))
	t := newTable("CLASS", "CLASSID", "PARENT", "RATE", "CEIL", "BURST", "LEAF", "DESTINATIONS")
	for _, c := range p.Classes {
		leaf := "inner"
		if c.Leaf != nil {
			leaf = c.Leaf.Kind + " " + c.Leaf.Handle.String()
		}
		t.row(c.Name, c.Class.ID, c.Class.Parent, c.Class.Rate, c.Class.Ceil, fmt.Sprintf("%db", c.Class.Burst()), leaf, c.Destinations)
	}
	out.printf("%s\n", t)
	t = newTable("DESTINATION", "SERVER", "RULE", "CLASS", "CLASSID")
	ids := classIDs(p)
	if p.AckClass != "" {
		t.row(plan.AckName, "-", "ack_class", p.AckClass, ids[p.AckClass])
	}
	for _, d := range p.Destinations {
		t.row(d.Prefix, screen.OrDash(d.Server), screen.OrDash(d.Rule), d.Class, ids[d.Class])
	}
	out.printf("%s", t)
	if p.Layout != plan.LayoutHash {
		return out.err
	}
	for _, h := range p.Hashed() {
		tree, err := wantedTree(h, n.state.Filters)
		if err != nil {
			return err
		}
		if !tree.Empty() {
			printTree(out, h, tree, p)
		}
	}
	return out.err
}

// wantedTree is what the destinations' tables will be, over what stands now.
func wantedTree(h plan.Hashed, standing []tc.Filter) (*layout.Tree, error) {
	taken := map[uint32]bool{}
	for _, f := range standing {
		taken[f.Handle.Table()] = true
	}
	return layout.Read(standing, h.Place).Adapt(h.Items, layout.Options{Budget: h.Budget, Taken: func(id uint32) bool { return taken[id] }})
}

// printTree prints nodes with tc's handles and our names.
func printTree(out *errWriter, h plan.Hashed, tree *layout.Tree, p *plan.Plan) {
	out.printf("\nprotocol %s, pref %d: %s\n", h.Place.Protocol, h.Place.Pref, tree.Cost())
	t := newTable("HANDLE", "MATCHES", "LEADS TO", "FOR")
	tree.Visit(layout.Visitor{
		Table: func(f tc.Filter) bool {
			t.row(f.Handle, "", "", fmt.Sprintf("a hash table of %d buckets", f.Divisor))
			return true
		},
		Node: func(f tc.Filter, key int) {
			if f.Link != 0 {
				t.row(f.Handle, fmt.Sprintf("prefixes of /%d and longer", key), "table "+f.Link.String(),
					fmt.Sprintf("bucket by the bits %08x at byte %d", f.Sel.HMask, f.Sel.HOff))
				return
			}
			d, _ := f.Destination()
			t.row(f.Handle, d, nameOf(p, f.ClassID)+" "+f.ClassID.String(), h.Name(f))
		},
	})
	out.printf("%s", t)
}

func nameOf(p *plan.Plan, id tc.Handle) string {
	for _, c := range p.Classes {
		if c.Class.ID == id {
			return c.Name
		}
	}
	return ""
}
