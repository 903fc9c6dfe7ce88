package screen

import "strings"

// Column is a column of a Table.
type Column struct {
	Head string
	// Right lines up at the right, as numbers do.
	Right bool
	// Drop is how early the column is left out where not all fit: the highest first, those of 0 never.
	Drop int
	// Least, if not 0, is down to how many cells the content may be cut.
	Least int
}

// Table is rows of cells, which may have colours.
type Table struct {
	Columns []Column
	rows    [][]string
}

// Row adds a row; missing cells are empty.
func (t *Table) Row(cells ...string) { t.rows = append(t.rows, cells) }

// gap is the blanks between two columns.
const gap = 2

// Lines lays the table out in the width of the style, the heads first. left are the heads of the columns that found no room.
func (t *Table) Lines(s Style) (lines, left []string) {
	natural := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		natural[i] = Cells(c.Head)
		for _, row := range t.rows {
			if i < len(row) {
				natural[i] = max(natural[i], Cells(row[i]))
			}
		}
	}
	widths, left := t.fit(natural, s.Width)
	line := func(cells []string, paint func(string) string) string {
		var parts []string
		for i, c := range t.Columns {
			if widths[i] < 0 {
				continue
			}
			cell := ""
			if i < len(cells) {
				cell = s.Cut(cells[i], widths[i])
			}
			space := strings.Repeat(" ", max(0, widths[i]-Cells(cell)))
			if c.Right {
				parts = append(parts, space+paint(cell))
			} else {
				parts = append(parts, paint(cell)+space)
			}
		}
		return strings.TrimRight(strings.Join(parts, strings.Repeat(" ", gap)), " ")
	}
	heads := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		heads[i] = c.Head
	}
	lines = append(lines, line(heads, s.Strong))
	for _, row := range t.rows {
		lines = append(lines, line(row, func(cell string) string { return cell }))
	}
	return lines, left
}

// fit gives each column its width, -1 to those left out: first what may be cut is cut to its least, then columns go, then what may be cut
// gets the room that is left.
func (t *Table) fit(natural []int, limit int) (widths []int, left []string) {
	widths = make([]int, len(natural))
	total := -gap
	for i, w := range natural {
		widths[i] = w
		if least := t.Columns[i].Least; limit > 0 && least > 0 {
			widths[i] = min(w, max(least, Cells(t.Columns[i].Head)))
		}
		total += widths[i] + gap
	}
	if limit <= 0 {
		return widths, nil
	}
	for total > limit {
		last := -1
		for i, c := range t.Columns {
			if widths[i] >= 0 && c.Drop > 0 && (last < 0 || c.Drop >= t.Columns[last].Drop) {
				last = i
			}
		}
		if last < 0 {
			break
		}
		total -= widths[last] + gap
		widths[last] = -1
	}
	for i, c := range t.Columns {
		switch {
		case widths[i] < 0:
			left = append(left, c.Head)
		case total < limit && widths[i] < natural[i]:
			more := min(limit-total, natural[i]-widths[i])
			widths[i], total = widths[i]+more, total+more
		}
	}
	return widths, left
}
