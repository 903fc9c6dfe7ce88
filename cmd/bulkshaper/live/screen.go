package live

import (
	"fmt"
	"strings"

	"bulkshaper/cmd/bulkshaper/screen"
	"bulkshaper/cmd/bulkshaper/view"
)

// leastRows is how many classes are to be seen whatever the head has to say.
const leastRows = 5

// lines is the screen, at most as high and as wide as the terminal.
func (m *model) lines() []string {
	st := m.Style
	st.Width = max(m.width, 20)
	var lines []string
	switch {
	case m.help:
		lines = helpLines(st)
	case !m.asked && m.failed == nil:
		lines = []string{"asking " + m.Source + " ..."}
	case !m.asked:
		lines = m.silent(st)
	default:
		lines = m.table(st)
	}
	height := max(m.height, 2)
	if len(lines) > height-1 {
		lines = lines[:height-1]
	}
	for len(lines) < height-1 {
		lines = append(lines, "")
	}
	lines = append(lines, m.bottom(st))
	for i, line := range lines {
		lines[i] = st.Fit(line)
	}
	return lines
}

func (m *model) silent(st screen.Style) []string {
	text := st.Bad("NO ANSWER") + " for " + screen.Age(m.now.Sub(m.since)) + ": " + m.failed.Error()
	if m.asked {
		text += "; this is what was last known"
	}
	return st.Wrap(text, 2)
}

// table is the head, the classes that fit, and what is said below.
func (m *model) table(st screen.Style) []string {
	s := view.Status{Status: m.status, Source: m.Source, Now: m.now}
	head := view.StatusHead(st, s)
	if m.failed != nil {
		head = append(m.silent(st), head...)
	}
	if most := max(3, m.height-4-leastRows); len(head) > most {
		head = append(head[:most-1], st.Faint("  ... `bulkshaper status` tells all"))
	}
	table, notes := view.StatusTable(st, s, view.StatusOptions{Sort: m.order(), Recent: m.recent(st), Span: m.span(), Dropping: m.dropped})
	room := max(1, m.height-len(head)-3) // a blank line, the heads, the bottom
	rows := table[1:]
	if len(rows)+len(notes)+1 <= room {
		table = append(append(table, ""), notes...)
		table = append(table, m.below(st, s, room-len(rows)-len(notes)-1)...)
		m.offset = 0
	} else if len(rows) > room {
		room = max(1, room-1)
		m.offset = max(0, min(m.offset, len(rows)-room))
		first, last := m.offset+1, min(m.offset+room, len(rows))
		table = append([]string{table[0]}, rows[m.offset:last]...)
		table = append(table, st.Faint(fmt.Sprintf("classes %d to %d of %d", first, last, len(rows))))
	} else {
		m.offset = 0
	}
	return append(append(head, ""), table...)
}

// below is what else there is to say, where there is room for it.
func (m *model) below(st screen.Style, s view.Status, room int) []string {
	top := view.TopLines(st, s)
	if len(top) == 0 || room < 3 {
		return nil
	}
	return append([]string{""}, top[:min(len(top), room-1)]...)
}

// bottom is the state of the view and its keys.
func (m *model) bottom(st screen.Style) string {
	state := "every " + m.Interval.String()
	if m.paused {
		state = "PAUSED at " + m.now.Format("15:04:05")
	}
	left := fmt.Sprintf("%s  by %s", state, m.order())
	names := keys()
	for len(names) > 1 && screen.Cells(left)+4+screen.Cells(strings.Join(names, "  ")) > st.Width {
		names = names[:len(names)-1]
	}
	right := strings.Join(names, "  ")
	space := max(2, st.Width-screen.Cells(left)-screen.Cells(right))
	if m.paused {
		left = st.Warn(left)
	}
	return left + strings.Repeat(" ", space) + st.Faint(right)
}

func helpLines(st screen.Style) []string {
	const keys = 15 // cells of the longest of them
	var lines []string
	for _, k := range [][2]string{ // a line each on a screen of 40 columns and 8 rows, where nothing could be scrolled
		{"q, Esc, Ctrl-C", "quit"},
		{"s, S", "next and previous order"},
		{"p, Space", "pause, and go on"},
		{"t", "minutes drawn: 5, 10, 1"},
		{"arrows, j k", "scroll the classes"},
		{"PgUp, PgDn, g G", "by a page, first, last"},
		{"?, h", "help; any key goes back"},
	} {
		lines = append(lines, st.Wrap(fmt.Sprintf("%-*s  %s", keys, k[0], k[1]), keys+2)...)
	}
	lines = append(lines, "")
	for _, text := range []string{
		"The orders are " + strings.Join(view.Sorts(), ", ") + ".",
		"SENDING is what the class has sent since the last reading; the bar is its share of the class's rate. A class whose ceil is higher may send more than its rate.",
		"DROPPED is yellow while it grows. BACKLOG is what waits in the queue of the class.",
		"The line of the last minutes is as high as the rate of the class.",
	} {
		lines = append(lines, st.Wrap(text, 0)...)
	}
	return lines
}
