package view

import (
	"fmt"
	"slices"
	"strings"

	"bulkshaper/cmd/bulkshaper/screen"
	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/words"
)

// mostEach is how many objects of a kind have a line each; more are put together.
const mostEach = 20

// PlanLines is what would change, by kind, with the reasons.
func PlanLines(st screen.Style, p *plan.Plan, have tc.State, changes *diff.Changes) []string {
	var lines []string
	add := func(text string, indent int) { lines = append(lines, st.Wrap(text, indent)...) }
	add(fmt.Sprintf("%s on %s, cabinet %s: %s, %s", p.Interface, st.Strong(screen.OrUnknown(p.Node)), screen.OrUnknown(p.Cabinet),
		screen.Count(len(p.Classes), "class"), screen.Count(len(p.Destinations), "destination")), 2)
	if changes.Rebuild != "" {
		add(st.Bad("REBUILD")+": "+changes.Rebuild+"; for a moment nothing is shaped, and what waits in the queues is dropped", 2)
	}
	if changes.Takeover != "" {
		add(st.Warn("TAKEOVER in place")+": "+changes.Takeover, 2)
	}
	if changes.Advice != "" {
		add(st.Warn("first")+": "+changes.Advice, 2)
	}
	for _, foreign := range changes.Foreign {
		add(st.Warn("not ours")+", stays: "+foreign, 2)
	}
	if have.Link.TxQueues > 1 && setsUpRoot(changes.Ops) {
		add(fmt.Sprintf("note: the %d transmit queues of %s are served by one root from now on, under its one lock", have.Link.TxQueues, p.Interface), 2)
	}
	if len(changes.Ops) == 0 {
		add(st.Good("nothing to change")+": the kernel holds what config and inventory say", 2)
		return lines
	}
	felt, queues := 0, 0
	for _, op := range changes.Ops {
		if !op.Hitless {
			felt++
		}
		_, isClass := op.Object.(tc.Class)
		if op.Drains != tc.Unspec || isClass && op.Verb == tc.Delete && changes.Takeover != "" {
			queues++
		}
	}
	total := screen.Count(len(changes.Ops), "operation") + " to do"
	switch {
	case felt == queues && felt > 0:
		add(fmt.Sprintf("%s, %s: what then still waits in the queues that go is dropped; no packet is sent by another class than the old or the new one",
			total, st.Bad(fmt.Sprintf("%d of them NOT HITLESS", felt))), 2)
	case felt == 0:
		add(total+", "+st.Good("all hitless")+": no packet is dropped, reordered or sent by another class than the old or the new one", 2)
	default:
		add(fmt.Sprintf("%s, %s: packets may be dropped, or sent by a wrong class for a moment", total, st.Bad(fmt.Sprintf("%d of them NOT HITLESS", felt))), 2)
	}
	kind := words.Kind(-1)
	for _, l := range words.NamesOf(p, have).Summary(changes.Ops, mostEach) {
		if l.Kind != kind {
			kind = l.Kind
			lines = append(lines, "", st.Strong(kindHeads()[kind]))
		}
		mark := ""
		if !l.Hitless {
			mark = st.Bad("NOT HITLESS") + " "
		}
		add(fmt.Sprintf("  %-7s %s%s", l.Verb, mark, words.Because(l.What, l.Why)), 10)
	}
	lines = append(lines, "")
	add(st.Faint("`plan --all` tells each operation in its order, `plan --format tc` as lines for tc; `apply` does it"), 2)
	return lines
}

func setsUpRoot(ops []tc.Op) bool {
	return slices.ContainsFunc(ops, func(op tc.Op) bool {
		q, ok := op.Object.(tc.Qdisc)
		return ok && q.Parent == tc.Root && op.Verb == tc.Add
	})
}

func kindHeads() map[words.Kind]string {
	return map[words.Kind]string{words.Root: "root", words.Class: "classes", words.Queue: "queues", words.Protocol: "control packets",
		words.Destination: "destinations", words.Table: "hash tables, by which destinations are found",
		words.Pref: "places of the filters that were there before", words.Wait: "waits, which change nothing"}
}

// OperationLines is each operation in its order: what, whether packets feel it, why, and how tc would be told.
func OperationLines(st screen.Style, p *plan.Plan, have tc.State, ops []tc.Op) []string {
	names := words.NamesOf(p, have)
	var lines []string
	for i, op := range ops {
		felt := st.Good("hitless")
		if !op.Hitless {
			felt = st.Bad("NOT HITLESS")
		}
		what := string(op.Verb) + " " + names.Comment(op)
		if words.KindOf(op) == words.Wait {
			lines = append(lines, fmt.Sprintf("%d. wait for packets under way: %s", i+1, op.Why))
			continue
		}
		lines = append(lines, fmt.Sprintf("%d. %s (%s): %s", i+1, what, felt, op.Why), st.Faint("     "+op.TC(p.Interface)))
	}
	return lines
}

// BatchLines is ops for tc -batch, which takes what is behind a # for a comment.
func BatchLines(p *plan.Plan, have tc.State, ops []tc.Op) []string {
	if len(ops) == 0 {
		return nil
	}
	names := words.NamesOf(p, have)
	lines := []string{fmt.Sprintf("# %s on %s: %s for tc -batch", p.Interface, screen.OrUnknown(p.Node), screen.Count(len(ops), "operation"))}
	kind := words.Kind(-1)
	for _, op := range ops {
		if k := words.KindOf(op); k != kind {
			kind = k
			lines = append(lines, "# "+kindHeads()[kind])
		}
		// A name cannot end its line: it is one of JSON, and may have anything in it.
		comment := strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return ' '
			}
			return r
		}, names.Comment(op))
		lines = append(lines, op.TC(p.Interface)+"  # "+comment)
	}
	return slices.Clip(lines)
}
