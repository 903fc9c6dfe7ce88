package words

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
)

// Line is one or more operations of a kind in words.
type Line struct {
	Kind Kind
	// Verb is add, change, move, remove, rebuild and the like.
	Verb string
	// Count is how many objects it is about.
	Count int
	// What is the object, or of several the number and some examples.
	What string
	// Why is the reason.
	Why     string
	Hitless bool
}

// String is the line as a sentence.
func (l Line) String() string {
	return l.Verb + " " + Because(l.What, l.Why)
}

// Because is an object with the reason behind it; a handle ends with a colon of its own.
func Because(what, why string) string {
	if why == "" {
		return what
	}
	return strings.TrimSuffix(what, ":") + ": " + why
}

// Summary is ops in words, by kind, then in their order. Of a kind with more than most objects those that share verb, classes and
// reason are one line.
func (n *Names) Summary(ops []tc.Op, most int) []Line {
	var lines []Line
	for kind := Root; kind <= Wait; kind++ {
		var items []item
		switch kind {
		case Destination:
			items = n.destinations(ops)
		default:
			for _, op := range ops {
				if KindOf(op) == kind {
					items = append(items, n.item(op))
				}
			}
		}
		if kind == Protocol || kind == Pref {
			lines = append(lines, merge(kind, items, 1)...) // always the same few, and always the same reason
			continue
		}
		lines = append(lines, merge(kind, items, most)...)
	}
	return lines
}

// item is one object's change.
type item struct {
	verb, what string
	// many is what a number of such objects is called, with what is common to them: "destinations to cross-cabinet 1:20".
	one, many, tail string
	why             string
	hitless         bool
}

func (n *Names) item(op tc.Op) item {
	i := item{verb: verbs[op.Verb], what: n.Object(op), why: op.Why, hitless: op.Hitless}
	switch f, _ := op.Object.(tc.Filter); KindOf(op) {
	case Root:
		i.one, i.many = "root qdisc", "root qdiscs"
	case Class:
		i.one, i.many = "class", "classes"
	case Queue:
		i.one, i.many = "queue", "queues"
	case Table:
		i.one, i.many = "hash table", "hash tables"
		switch i.why = "not there"; {
		case op.Verb == tc.Delete:
			i.why = "not needed any more"
		case op.Verb != tc.Add || n.stands(f.Pref):
			i.why = "another shape of the tables finds the destinations faster"
		}
		if f.Link != 0 {
			i.one, i.many = "link between hash tables", "links between hash tables"
		}
	case Protocol:
		i.one, i.many = "filter", "filters"
		i.tail = " to " + n.Class(f.ClassID)
		i.what += i.tail
		if op.Verb == tc.Add {
			i.why = "not there: without it they would wait behind bulk"
		}
		if isAck(f) {
			i.one, i.many = "filter for TCP acknowledgements", "filters for TCP acknowledgements"
		}
	case Pref:
		i.one, i.many = "pref", "prefs"
	case Wait:
		i.verb, i.what, i.why = "wait", "for packets under way", op.Why
		i.one, i.many = "time for packets under way", "times for packets under way"
	}
	return i
}

var verbs = map[tc.Verb]string{tc.Add: "add", tc.Change: "change", tc.Replace: "replace", tc.Delete: "remove"}

// destinations puts together what is done to each prefix.
func (n *Names) destinations(ops []tc.Op) []item {
	type change struct {
		added, removed, changed int
		foreign                 bool // what is removed stood at a pref that is not ours
		from, to                tc.Handle
		hitless                 bool
		why                     string
		odd                     string // what is no prefix
		behind                  string // which tag
	}
	standing := n.leadsTo(ops)
	changes := map[string]*change{}
	prefixes := map[string]netip.Prefix{}
	var order []string
	for _, op := range ops {
		if KindOf(op) != Destination {
			continue
		}
		f := op.Object.(tc.Filter)
		prefix, ok := f.Destination()
		key := prefix.String()
		if !ok {
			key = f.Ident()
		}
		if f.Protocol.IsTag() {
			key += " " + f.Protocol.String()
		}
		c := changes[key]
		if c == nil {
			c = &change{hitless: true}
			if !ok {
				c.odd = n.filter(f)
			}
			if f.Protocol.IsTag() {
				c.behind = behind(f)
			}
			changes[key], prefixes[key] = c, prefix
			order = append(order, key)
		}
		c.hitless = c.hitless && op.Hitless
		c.why = op.Why
		switch op.Verb {
		case tc.Add:
			c.added++
			c.to = f.ClassID
		case tc.Delete:
			c.removed++
			_, own := plan.OwnPref(f.Pref)
			c.foreign = c.foreign || !own
			c.from = f.ClassID
		default:
			if c.changed == 0 {
				c.from = standing[nodeKey{f.Pref, f.Handle}]
			}
			c.changed++
			c.to = f.ClassID
		}
	}
	items := make([]item, 0, len(order))
	for _, key := range order {
		c := changes[key]
		i := item{what: n.Prefix(prefixes[key]), one: "destination", many: "destinations", hitless: c.hitless}
		if i.what += c.behind; c.odd != "" {
			i.what = c.odd
		}
		rule := "no rule matches"
		if d, ok := n.destination(prefixes[key]); ok && d.Rule != "" {
			rule = "by rule " + d.Rule
		}
		switch {
		case c.changed > 1:
			i.verb, i.why, i.tail = "detour", "its class is made again below another parent; until then the default class", " of "+n.Class(c.to)
		case c.added+c.changed > 0 && c.from != 0 && c.from != c.to:
			i.verb, i.tail, i.why = "move", " from "+n.Class(c.from)+" to "+n.Class(c.to), rule
		case c.changed > 0:
			i.verb, i.tail, i.why = "bind", " to "+n.Class(c.to), "that class is made again, and the filter does not follow by itself"
		case c.added > 0 && c.removed > 0:
			i.verb, i.tail, i.why = "refile", " of "+n.Class(c.to), "another place in the tables, the class stays"
			if c.foreign {
				i.why = "our filter for the one that stood there, the class stays"
			}
		case c.added > 0:
			i.verb, i.tail, i.why = "add", " to "+n.Class(c.to), rule+"; the kernel has no filter for it"
		default:
			i.verb, i.tail, i.why = "remove", " from "+n.Class(c.from), "nothing asks for it"
			if _, ok := n.destination(prefixes[key]); ok {
				i.why = "a second filter for it"
			}
		}
		i.what += i.tail
		items = append(items, i)
	}
	return items
}

// examples is how many of many are named.
const examples = 3

// merge makes lines of items.
func merge(kind Kind, items []item, most int) []Line {
	line := func(i item) Line {
		return Line{Kind: kind, Verb: i.verb, Count: 1, What: i.what, Why: i.why, Hitless: i.hitless}
	}
	if len(items) <= most {
		lines := make([]Line, len(items))
		for j, i := range items {
			lines[j] = line(i)
		}
		return lines
	}
	type group struct {
		first item
		count int
		names []string
		whys  map[string]bool
	}
	groups := map[string]*group{}
	var order []*group
	for _, i := range items {
		key := i.verb + "\x00" + i.many + "\x00" + i.tail + "\x00" + fmt.Sprint(i.hitless)
		if kind == Destination || kind == Wait {
			key += "\x00" + i.why
		}
		g := groups[key]
		if g == nil {
			g = &group{first: i, whys: map[string]bool{}}
			groups[key] = g
			order = append(order, g)
		}
		g.count++
		g.whys[i.why] = true
		if len(g.names) < examples {
			g.names = append(g.names, strings.TrimSuffix(i.what, i.tail))
		}
	}
	slices.SortStableFunc(order, func(a, b *group) int {
		if kind != Destination {
			return 0
		}
		return cmp.Compare(b.count, a.count)
	})
	var lines []Line
	for _, g := range order {
		if g.count == 1 {
			lines = append(lines, line(g.first))
			continue
		}
		l := line(g.first)
		l.Count = g.count
		l.What = fmt.Sprintf("%d %s%s", g.count, g.first.many, g.first.tail)
		if kind != Wait && kind != Table {
			l.What += " (" + strings.Join(g.names, ", ")
			if g.count > len(g.names) {
				l.What += " ..."
			}
			l.What += ")"
		}
		if len(g.whys) > 1 {
			l.Why = g.first.why + ", and the like"
		}
		lines = append(lines, l)
	}
	return lines
}
