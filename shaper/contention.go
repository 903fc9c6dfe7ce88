package shaper

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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
	// Objects are what was repaired, the most often first; there may have been more.
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
}

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

// changed notes what a repair put right.
func (c *contention) changed(now time.Time, p *plan.Plan, out Outcome) {
	var ops []tc.Op
	for _, r := range out.Results {
		if r.Err == nil && !r.Op.Barrier {
			ops = append(ops, r.Op)
		}
	}
	if len(ops) > maxTold {
		c.note(now, fmt.Sprintf("%d objects", len(ops)), ops[0].Why)
		return
	}
	for _, l := range words.NamesOf(p, out.Before).Summary(ops, maxNamed) {
		c.note(now, strings.TrimSuffix(l.What, ":"), l.Why)
	}
}

func (c *contention) note(now time.Time, object, why string) {
	if c.meddled == nil {
		c.meddled = map[string]Meddled{}
	}
	if _, known := c.meddled[object]; known || len(c.meddled) < maxMeddled {
		c.meddled[object] = Meddled{object, why, c.meddled[object].Times + 1, now}
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
	return c.repairs > freeRepairs && (now.Before(c.until) || now.Sub(c.last) <= quiet)
}

// told is what there is to say of it, nil where nobody fights.
func (c *contention) told(now time.Time) *Contention {
	if !c.active(now) {
		return nil
	}
	t := &Contention{Since: c.first.Round(0), Repairs: c.repairs, Next: c.until.Round(0), By: []string{}, Objects: slices.SortedFunc(maps.Values(c.meddled), func(a, b Meddled) int {
		return cmp.Or(cmp.Compare(b.Times, a.Times), b.Last.Compare(a.Last), strings.Compare(a.Object, b.Object))
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
	var what []string
	for _, m := range c.Objects {
		text := words.Because(m.Object, shorter(m.Why))
		if m.Times > 1 {
			text += fmt.Sprintf(" (%d times)", m.Times)
		}
		what = append(what, text)
	}
	text := fmt.Sprintf("%d repairs since %s", c.Repairs, c.Since.In(location).Format(time.TimeOnly))
	if len(what) > 0 {
		text += ", of " + strings.Join(what, "; ")
	}
	if len(c.By) > 0 {
		text += "; changed by " + strings.Join(c.By, ", ")
	}
	return text
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
	return fmt.Sprintf("stop what changes it (`bulkshaper history` tells when, `tc -timestamp monitor` shows it at work), or give it %s: stop this daemon, then `bulkshaper clear`", iface)
}

func (c Contention) names() (names []string) {
	for _, m := range c.Objects {
		names = append(names, m.Object)
	}
	return names
}
