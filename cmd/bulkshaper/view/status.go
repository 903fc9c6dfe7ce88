package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"bulkshaper/cmd/bulkshaper/screen"
	"bulkshaper/shaper"
	"bulkshaper/shaper/tc"
)

// Status is what `status` shows.
type Status struct {
	shaper.Status
	// Source says who answered.
	Source string
	Now    time.Time
}

// StatusOptions is how a status is shown.
type StatusOptions struct {
	// Sort is the order of the classes; "" is that of the tree.
	Sort string
	// Recent has the last rates of each class by classid; with it there is a column of sparklines of SparkCells.
	Recent map[string][]float64
	// Span is the time that the sparklines cover.
	Span time.Duration
	// Dropping says which classes, by classid, drop packets now.
	Dropping map[string]uint64
}

// StatusLines is the whole of it: the head, the table, what is said below.
func StatusLines(st screen.Style, s Status, o StatusOptions) []string {
	lines := StatusHead(st, s)
	table, notes := StatusTable(st, s, o)
	lines = append(append(lines, ""), table...)
	for _, part := range [][]string{notes, TopLines(st, s), costLines(st, s)} {
		if len(part) > 0 {
			lines = append(append(lines, ""), part...)
		}
	}
	return lines
}

// mostProblems is how many problems of a refused reload, and changes of a good one, are shown; `check` and `history` tell all.
const mostProblems = 5

// StatusHead is who and where this is, and what is not as it should be.
func StatusHead(st screen.Style, s Status) []string {
	var lines []string
	add := func(text string) { lines = append(lines, st.Wrap(text, 2)...) }
	where := "cabinet " + screen.OrUnknown(s.Cabinet)
	if s.Datacenter != "" {
		where += " of " + s.Datacenter
	}
	add(fmt.Sprintf("%s  %s  %s", st.Strong(screen.OrUnknown(s.Node)), s.Interface, where))
	switch refused := s.LastReload != nil && s.LastReload.Result == shaper.ReloadFailure; {
	case s.InSync && refused:
		add(st.Good("in sync") + " with the last good files: the kernel holds what they said; those of now are refused")
	case s.InSync:
		add(st.Good("in sync") + ": the kernel holds what config and inventory say")
	default:
		add(st.Bad("NOT IN SYNC") + ": " + s.Reason)
		for _, c := range s.Classes {
			if c.StandingRate != 0 && c.StandingRate != c.Rate {
				add(fmt.Sprintf("%s: %s stands at %s in the kernel, wanted is %s", st.Bad("WRONG RATE"), c.Name, tc.BitRate(c.StandingRate), tc.BitRate(c.Rate)))
			}
		}
	}
	switch {
	case s.InterfaceMissing:
		add(st.Bad("NO INTERFACE") + ": there is no " + s.Interface + "; it is shaped when it comes")
	case !s.InterfaceUp:
		add(st.Bad("DOWN") + ": the interface " + s.Interface + " is down (`ip link set " + s.Interface + " up`)")
	}
	if s.Unconfirmed != "" && !strings.Contains(s.Reason, s.Unconfirmed) {
		add(st.Warn("NOT CONFIRMED") + ": " + s.Unconfirmed)
	}
	if s.LastConfirm != "" {
		add(st.Warn("NOT CONFIRMED") + ": " + s.LastConfirm)
	}
	if s.Contended {
		lines = append(lines, contended(st, s)...)
	}
	if s.OverridesError != "" {
		add(st.Bad("OVERRIDES NOT READ") + ": " + s.OverridesError)
	}
	if s.HistoryError != "" {
		add(st.Warn("HISTORY NOT KEPT") + ": a restart of the daemon loses it: " + s.HistoryError)
	}
	if s.HTTPError != "" {
		add(st.Bad("HTTP NOT SERVED") + ", so no metrics either: " + s.HTTPError)
	}
	for _, o := range s.Overrides {
		add(st.Warn("OVERRIDE") + " " + overrideText(o, s.Now))
	}
	for _, h := range s.Lately {
		if h.Kind != shaper.EventRepaired || !s.Contended { // which says it
			add(lately(st, h, s.Now))
		}
	}
	for _, foreign := range s.Foreign {
		add(st.Warn("not ours") + ", stays: " + foreign)
	}
	for _, h := range s.Hints {
		add(st.Warn("IS THAT MEANT?") + " " + h)
	}
	lines = append(lines, reload(st, s)...)
	if n := len(s.Warnings); n > 0 {
		add(st.Warn(screen.Count(n, "warning")) + ", for example: " + s.Warnings[0] + " (`bulkshaper check` tells all)")
	}
	if s.Direct > 0 {
		add(st.Warn(screen.Number(s.Direct)+" packets") + " went past all classes since the shaping was set up")
	}
	add(st.Faint("as told by " + s.Source))
	return lines
}

// contended says who fights over what, and what to do.
func contended(st screen.Style, s Status) []string {
	c := s.Contention
	if c == nil {
		return st.Wrap(st.Bad("CONTENDED")+": somebody keeps changing the shaping; repairs are spaced out", 2)
	}
	lines := st.Wrap(st.Bad("CONTENDED")+": somebody keeps changing the shaping, so repairs are spaced out", 2)
	for _, line := range append(c.Lines(s.Now), "remedy: "+c.Remedy(s.Interface)) {
		lines = append(lines, st.Wrap("  "+line, 4)...)
	}
	return lines
}

// lately is something that happened a while ago.
func lately(st screen.Style, h shaper.Happening, now time.Time) string {
	ago := screen.Age(now.Sub(h.Time)) + " ago"
	if h.Kind == shaper.EventOverride {
		return st.Warn("OVERRIDE") + " " + ago + " " + h.Text
	}
	text := st.Warn("REPAIRED") + " " + ago + " what somebody else changed"
	if h.Times > 1 {
		text += fmt.Sprintf(", the last of %d times within the hour", h.Times)
	}
	return text + " (`bulkshaper history` tells all): " + h.Text
}

// overrideText is an override in force, and its end.
func overrideText(o shaper.OverrideStatus, now time.Time) string {
	held := func(rate, ceil uint64) string {
		if ceil == rate {
			return Held(rate)
		}
		return Held(rate) + ", ceil " + Held(ceil)
	}
	left := "another " + screen.Age(o.Until.Sub(now))
	if o.Until.Sub(now) < time.Second {
		left = "less than a second more"
	}
	text := fmt.Sprintf("%s is held to %s for %s (until %s), then %s again", o.Class, held(o.Rate, o.Ceil), left,
		o.Until.In(now.Location()).Format(time.TimeOnly), held(o.ConfiguredRate, o.ConfiguredCeil))
	if o.By != "" {
		text += ", by " + o.By
	}
	if o.Why != "" {
		text += ": " + o.Why
	}
	return text
}

// reload is the age of the inventory, and what the last edit did.
func reload(st screen.Style, s Status) []string {
	var lines []string
	if !s.Daemon && s.LastSuccess == nil && s.Servers == 0 {
		return nil // none was read
	}
	add := func(text string) { lines = append(lines, st.Wrap(text, 2)...) }
	text := fmt.Sprintf("inventory: %s", screen.Count(s.Servers, "server"))
	if s.LastSuccess != nil {
		text += fmt.Sprintf(", read %s ago", screen.Age(s.Now.Sub(*s.LastSuccess)))
	}
	add(text)
	r := s.LastReload
	if r == nil || !s.Daemon {
		return lines
	}
	ago := screen.Age(s.Now.Sub(r.Time)) + " ago"
	since := "last change of the files " + ago
	if r.Start {
		since = "daemon started " + ago
	}
	switch {
	case r.Result == shaper.ReloadFailure:
		add(st.Bad("FILES REFUSED") + " " + ago + ", the last good shaping stands: " + screen.Count(len(r.Problems), "problem"))
		for _, p := range r.Problems[:min(len(r.Problems), mostProblems)] {
			lines = append(lines, st.Wrap("  "+p, 4)...)
		}
		if more := len(r.Problems) - mostProblems; more > 0 {
			add(fmt.Sprintf("  and %d more: bulkshaper check", more))
		}
	case r.Operations > 0 && len(r.Changed) > 0:
		add(fmt.Sprintf("%s: %s", since, screen.Count(r.Operations, "operation")))
		for _, c := range r.Changed[:min(len(r.Changed), mostProblems)] {
			lines = append(lines, st.Wrap("  "+c, 4)...)
		}
		if more := len(r.Changed) - mostProblems; more > 0 {
			add(fmt.Sprintf("  and %d more", more))
		}
	case r.Operations > 0:
		add(fmt.Sprintf("%s: %s", since, screen.Count(r.Operations, "operation")))
	case r.Start && !s.InSync:
		add(since)
	case r.Start:
		add(since + ": all stood already, nothing had to change in the kernel")
	default:
		add(since + ": nothing had to change in the kernel")
	}
	return lines
}

// The columns, by their heads.
const (
	colClass, colID, colRate, colCeil, colNow, colShare = "CLASS", "CLASSID", "RATE", "CEIL", "SENDING", "OF ITS RATE"
	colSent, colPackets, colDropped, colBacklog         = "SENT", "PACKETS", "DROPPED", "BACKLOG"
	colBorrowed, colDestinations                        = "BORROWED", "DESTINATIONS"
)

// leastName is how much of a class's name is always to be seen.
const leastName = 18

// SparkCells is how wide the column of the last minutes is.
func SparkCells(st screen.Style) int {
	if wide(st) {
		return 30
	}
	return 12
}

func wide(st screen.Style) bool { return st.Width <= 0 || st.Width >= 132 }

// StatusTable is a line a class, below the heads, and what has to be said of it.
func StatusTable(st screen.Style, s Status, o StatusOptions) (lines, notes []string) {
	bar, spark, destinations, least := 8, SparkCells(st), "DESTS", leastName
	switch {
	case wide(st):
		bar, destinations = 20, colDestinations
	case st.Width < 40:
		least = 8
	}
	// In order of worth, the least first: what is lost last is who sends how much now, and who drops.
	t := screen.Table{Columns: []screen.Column{
		{Head: colClass, Least: least}, {Head: colID, Drop: 11}, {Head: colRate, Right: true, Drop: 3}, {Head: colCeil, Right: true, Drop: 8},
		{Head: colNow, Right: true}, {Head: colShare, Drop: 2}, {Head: "LAST " + strings.ToUpper(screen.Age(o.Span)), Drop: 4}, {Head: colSent, Right: true, Drop: 7},
		{Head: colPackets, Right: true, Drop: 12}, {Head: colDropped, Right: true, Drop: 1}, {Head: colBacklog, Right: true, Drop: 5},
		{Head: colBorrowed, Right: true, Drop: 10}, {Head: destinations, Right: true, Drop: 9},
	}}
	if o.Recent == nil {
		t.Columns = slices.Delete(t.Columns, 6, 7)
	}
	lagging := false
	for _, row := range ordered(s.Classes, o.Sort) {
		c := row.class
		now, share := "-", ""
		switch {
		case !c.Standing:
			now = st.Bad("missing")
			lagging = true
		case c.Sending != nil:
			now = screen.Rate(float64(*c.Sending))
			share = shareOf(st, c, bar)
		}
		cells := []string{row.indent + c.Name, c.ClassID, screen.Rate(float64(c.Rate)), screen.Rate(float64(c.Ceil)), now, share}
		if o.Recent != nil {
			cells = append(cells, st.Spark(o.Recent[c.ClassID], top(c, o.Recent[c.ClassID]), spark))
		}
		dropped := screen.Number(c.Dropped)
		if o.Dropping[c.ClassID] > 0 {
			dropped = st.Warn(dropped)
		}
		backlog := screen.Bytes(c.BacklogBytes)
		t.Row(append(cells, screen.Bytes(c.SentBytes), screen.Number(c.SentPackets), dropped, backlog,
			screen.Number(c.Borrowed), screen.Number(uint64(c.Destinations)))...)
	}
	lines, left := t.Lines(st)
	if lagging {
		text := "missing: the class is planned and not in the kernel"
		if !strings.Contains(s.Reason, "`bulkshaper plan`") && !strings.Contains(s.Reason, "\"bulkshaper plan --takeover\"") { // the reason says it first
			text += "; `bulkshaper plan` says what is to do"
		}
		notes = append(notes, st.Wrap(text, 2)...)
	}
	if len(left) > 0 {
		notes = append(notes, st.Wrap(st.Faint("a wider terminal also shows "+strings.ToLower(strings.Join(left, ", "))), 2)...)
	}
	return lines, notes
}

// shareOf is the bar of what a class sends of its rate. One with a higher ceil may send more than that.
func shareOf(st screen.Style, c *shaper.ClassStatus, cells int) string {
	if c.Rate == 0 {
		return ""
	}
	share := float64(*c.Sending) / float64(c.Rate)
	percent := fmt.Sprintf("%3.0f%%", share*100)
	if share > 0 && share < 0.005 {
		percent = " <1%"
	}
	if share > 9.995 {
		percent = fmt.Sprintf("%.0fx", share)
	}
	return st.Bar(share, cells) + " " + percent
}

// top is what fills a sparkline: the rate, or what was sent over it.
func top(c *shaper.ClassStatus, values []float64) float64 {
	most := float64(c.Rate)
	for _, v := range values {
		if v > most {
			most = v
		}
	}
	return most
}

// TopLines are the destinations that most was sent to.
func TopLines(st screen.Style, s Status) []string {
	if len(s.Top) == 0 {
		return nil
	}
	t := screen.Table{Columns: []screen.Column{{Head: "MOST SENT TO", Least: 16}, {Head: "SERVER", Least: 12, Drop: 1}, {Head: "CLASS", Least: 12}, {Head: "PACKETS/S", Right: true}}}
	for _, m := range s.Top {
		perSecond := "-"
		if m.Seconds > 0 {
			perSecond = scaledCount(float64(m.Packets) / m.Seconds)
		}
		t.Row(m.Prefix, screen.OrDash(m.Server), m.Class, perSecond)
	}
	lines, _ := t.Lines(st)
	return lines
}

// scaledCount is a count a second; of little it is not 0.
func scaledCount(v float64) string {
	if v < 9.95 {
		return fmt.Sprintf("%.1f", v)
	}
	return screen.Number(uint64(v + 0.5))
}

// costLines is what the filters cost a packet.
func costLines(st screen.Style, s Status) []string {
	var lines []string
	for _, f := range s.Filters {
		lines = append(lines, st.Wrap(st.Faint(fmt.Sprintf("%s: %s in %s; a packet is compared %.1f times on average, %d at most", f.Protocol,
			screen.Count(f.Destinations, "destination"), screen.Count(f.Tables, "hash table"), f.Mean, f.Worst)), 2)...)
	}
	return lines
}
