package shaper

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/words"
)

// contention spaces out repairs when somebody keeps undoing them, so that two programs do not fight at full speed. It keeps what was
// repaired and who did it, for the person who has to end the fight.
type contention struct {
	repairs     int
	first, last time.Time
	until       time.Time
	// meddled are what was repaired, by object in words; by are who changed things, by name.
	meddled map[string]Meddled
	by      map[string]time.Time
}

const (
	// maxMeddled bounds how many objects, and how many changers, are kept of one contention, mostMeddled how many are told.
	maxMeddled  = 50
	mostMeddled = 5
	// mostChangers is less: of a script that runs tc again and again each run is another one.
	mostChangers = 3
)

// Contention is who fights over the shaping: what was put right again and again, since when, and who changed it. The names of its fields
// are part of the contract.
type Contention struct {
	// Since is when the first of so many Repairs was done, which followed each other too closely.
	Since   time.Time `json:"since"`
	Repairs int       `json:"repairs"`
	// Next is when the next repair may be done, if one is needed.
	Next time.Time `json:"next_repair"`
	// Ends is when it is over by itself, if nothing has to be repaired until then.
	Ends time.Time `json:"ends"`
	// Objects are what was repaired, the most often first, and of as many times what others hang on first; there may have been more.
	Objects []Meddled `json:"objects"`
	// By are who changed something, the latest first, as the kernel tells it: see tc.Event. Empty where it did not.
	By []string `json:"by"`
}

// Meddled is an object of ours that somebody changed.
type Meddled struct {
	Object string `json:"object"`
	// Why is what was found wrong with it the last time.
	Why   string    `json:"why"`
	Times int       `json:"times"`
	Last  time.Time `json:"last"`
	// Varied says that something else was wrong with it before.
	Varied bool `json:"why_varied,omitempty"`
	// Remedy is how to end what changes it, where that can be told from what it left.
	Remedy string `json:"remedy,omitempty"`

	kind words.Kind
}

// rootObject is how the root qdisc is called: of which kind and handle is said with what is wrong with it.
const rootObject = "the root qdisc"

// wait is how long the next repair has to wait; 0 when it may be done now.
func (c *contention) wait(now time.Time) time.Duration { return max(0, c.until.Sub(now)) }

// repaired notes a repair.
func (c *contention) repaired(now time.Time) {
	if now.Sub(c.last) > quiet && !now.Before(c.until) {
		*c = contention{first: now, by: c.by}
	}
	c.repairs++
	c.last = now
	if extra := c.repairs - freeRepairs; extra > 0 {
		c.until = now.Add(min(contendMin<<min(extra-1, 10), contendMost))
	}
}

// changed notes what a repair put right. With the root all goes that hangs on it: then that it was the root is all there is to note.
func (c *contention) changed(now time.Time, p *plan.Plan, out Outcome) {
	var ops []tc.Op
	root := false
	for _, r := range out.Results {
		if r.Err == nil && !r.Op.Barrier {
			ops = append(ops, r.Op)
			root = root || words.KindOf(r.Op) == words.Root
		}
	}
	switch {
	case root:
		owner := diff.Ownership(out.Before)
		c.note(now, Meddled{Object: rootObject, Why: lossOf(owner, out.Changes.Rebuild), Remedy: owner.Stop(), kind: words.Root})
	case len(ops) > maxTold:
		c.note(now, Meddled{Object: fmt.Sprintf("%d objects", len(ops)), Why: ops[0].Why, kind: words.KindOf(ops[0])})
	default:
		for _, l := range words.NamesOf(p, out.Before).Summary(ops, maxNamed) {
			c.note(now, Meddled{Object: strings.TrimSuffix(l.What, ":"), Why: l.Why, kind: l.Kind})
		}
	}
}

// lossOf is what became of our root, by who has it; rebuild is why it was set up again where it is still ours.
func lossOf(owner diff.Owner, rebuild string) string {
	switch owner.Kind {
	case diff.Foreign:
		return fmt.Sprintf("replaced by %s %s (probably %s)", owner.Root.Kind, owner.Root.Handle, owner.Maker)
	case diff.Ours:
		return rebuild
	}
	return "removed, and with it all that hangs on it"
}

// note counts m, which was found now.
func (c *contention) note(now time.Time, m Meddled) {
	if c.meddled == nil {
		c.meddled = map[string]Meddled{}
	}
	before, known := c.meddled[m.Object]
	if known || len(c.meddled) < maxMeddled {
		m.Times, m.Last = before.Times+1, now
		m.Varied = before.Varied || known && before.Why != m.Why
		c.meddled[m.Object] = m
	}
}

// noticed notes who changed something.
func (c *contention) noticed(now time.Time, by string) {
	if by == "" {
		return
	}
	if c.by == nil {
		c.by = map[string]time.Time{}
	}
	c.by[by] = now
	for len(c.by) > maxMeddled {
		oldest := ""
		for name, at := range c.by {
			if oldest == "" || at.Before(c.by[oldest]) {
				oldest = name
			}
		}
		delete(c.by, oldest)
	}
}

// active says that repairs are being spaced out; it ends when nothing had to be repaired for a while.
func (c *contention) active(now time.Time) bool {
	return c.repairs > freeRepairs && now.Before(c.ends())
}

// ends is when the contention is over if nothing has to be repaired until then.
func (c *contention) ends() time.Time {
	calm := c.last.Add(quiet)
	if c.until.After(calm) {
		return c.until
	}
	return calm
}

// told is what there is to say of it, nil where nobody fights.
func (c *contention) told(now time.Time) *Contention {
	if !c.active(now) {
		return nil
	}
	t := &Contention{Since: c.first.Round(0), Repairs: c.repairs, Next: c.until.Round(0), Ends: c.ends().Round(0), By: []string{}, Objects: slices.SortedFunc(maps.Values(c.meddled), func(a, b Meddled) int {
		return cmp.Or(cmp.Compare(b.Times, a.Times), cmp.Compare(a.kind, b.kind), b.Last.Compare(a.Last), strings.Compare(a.Object, b.Object))
	})}
	t.Objects = t.Objects[:min(len(t.Objects), mostMeddled)]
	recent := slices.SortedFunc(maps.Keys(c.by), func(a, b string) int { return cmp.Or(c.by[b].Compare(c.by[a]), strings.Compare(a, b)) })
	for _, name := range recent {
		if len(t.By) < mostChangers && !c.by[name].Before(c.first.Add(-quiet)) {
			t.By = append(t.By, name)
		}
	}
	return t
}

// Words is the contention in a sentence without an end: what, how often, since when, by whom.
func (c Contention) Words(location *time.Location) string {
	text := c.count(location)
	if what := c.what(); len(what) > 0 {
		text += ", of " + strings.Join(what, "; ")
	}
	if len(c.By) > 0 {
		text += "; changed by " + strings.Join(c.By, ", ")
	}
	return text
}

// Lines is the contention in lines: how often and since when, what, by whom, when the next repair may be done and what ends it.
func (c Contention) Lines(now time.Time) []string {
	at := func(t time.Time) string { return t.In(now.Location()).Format(time.TimeOnly) }
	lines := []string{c.count(now.Location())}
	for _, what := range c.what() {
		lines = append(lines, "of "+what)
	}
	if len(c.By) > 0 {
		lines = append(lines, "changed by "+strings.Join(c.By, ", "))
	}
	ends := "ends by itself when nothing had to be repaired for a while"
	if !c.Ends.IsZero() { // a daemon of before does not say
		ends = "ends by itself at " + at(c.Ends) + " if nothing has to be repaired until then"
	}
	if c.Next.After(now) {
		ends = "the next repair not before " + at(c.Next) + "; " + ends
	}
	return append(lines, ends)
}

// count is how many repairs there were, and since when.
func (c Contention) count(location *time.Location) string {
	return fmt.Sprintf("%d repairs since %s", c.Repairs, c.Since.In(location).Format(time.TimeOnly))
}

// what is each object, with what was wrong with it and how often.
func (c Contention) what() (what []string) {
	for _, m := range c.Objects {
		why := m.Why
		if m.Object != rootObject {
			why = shorter(why)
		}
		text := words.Because(m.Object, why)
		switch {
		case m.Varied:
			text += fmt.Sprintf(" (that is the last of %d times)", m.Times)
		case m.Times > 1:
			text += fmt.Sprintf(" (%d times)", m.Times)
		}
		what = append(what, text)
	}
	return what
}

// shorter is a reason that lists many parameters with the first few of them.
func shorter(why string) string {
	const enough = 50
	if len(why) <= 2*enough {
		return why
	}
	if i := strings.Index(why[enough:], ", "); i >= 0 {
		return why[:enough+i] + " and more"
	}
	return why
}

// Remedy is what a person can do about it.
func (c Contention) Remedy(iface string) string {
	stop := "stop what changes it (`bulkshaper history` tells when, `tc -timestamp monitor` shows it at work),"
	if i := slices.IndexFunc(c.Objects, func(m Meddled) bool { return m.Remedy != "" }); i >= 0 {
		stop = c.Objects[i].Remedy + ";"
	}
	return fmt.Sprintf("%s or give it %s: stop this daemon, then `bulkshaper clear`", stop, iface)
}

func (c Contention) names() (names []string) {
	for _, m := range c.Objects {
		names = append(names, m.Object)
	}
	return names
}
