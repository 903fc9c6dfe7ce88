package view

import (
	"cmp"
	"slices"
	"strings"

	"bulkshaper/shaper"
)

// The orders of the classes.
const (
	SortTree    = "tree"
	SortSending = "sending"
	SortShare   = "share"
	SortDropped = "dropped"
	SortBacklog = "backlog"
	SortName    = "name"
)

// Sorts are all orders, the one that is taken where none is asked for first.
func Sorts() []string {
	return []string{SortTree, SortSending, SortShare, SortDropped, SortBacklog, SortName}
}

type classRow struct {
	class  *shaper.ClassStatus
	indent string
}

// ordered is the classes in an order. In that of the tree children stand below their parent; in the others that would mislead.
func ordered(classes []shaper.ClassStatus, by string) []classRow {
	rows := make([]classRow, 0, len(classes))
	if by == "" || by == SortTree {
		return tree(classes)
	}
	for i := range classes {
		rows = append(rows, classRow{class: &classes[i]})
	}
	sending := func(c *shaper.ClassStatus) float64 {
		if c.Sending == nil {
			return -1
		}
		return float64(*c.Sending)
	}
	slices.SortStableFunc(rows, func(a, b classRow) int {
		switch x, y := a.class, b.class; by {
		case SortSending:
			return cmp.Compare(sending(y), sending(x))
		case SortShare:
			return cmp.Compare(sending(y)/float64(max(y.Rate, 1)), sending(x)/float64(max(x.Rate, 1)))
		case SortDropped:
			return cmp.Compare(y.Dropped, x.Dropped)
		case SortBacklog:
			return cmp.Compare(y.BacklogBytes, x.BacklogBytes)
		}
		return strings.Compare(a.class.Name, b.class.Name)
	})
	return rows
}

// tree has each class behind its parent, indented. What names a parent that is not there stands at the root.
func tree(classes []shaper.ClassStatus) []classRow {
	there := map[string]bool{}
	for _, c := range classes {
		there[c.ClassID] = true
	}
	children := map[string][]*shaper.ClassStatus{}
	for i := range classes {
		parent := classes[i].Parent
		if !there[parent] || parent == classes[i].ClassID {
			parent = ""
		}
		children[parent] = append(children[parent], &classes[i])
	}
	rows := make([]classRow, 0, len(classes))
	var add func(parent, indent string)
	add = func(parent, indent string) {
		for _, c := range children[parent] {
			rows = append(rows, classRow{c, indent})
			add(c.ClassID, indent+"  ")
		}
	}
	add("", "")
	return rows
}
