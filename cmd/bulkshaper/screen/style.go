package screen

import (
	"io"
	"os"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"golang.org/x/sys/unix"
)

// Style says what the place that is written to can show. The zero Style is ASCII without colour or limit.
type Style struct {
	// Width is how many columns there are, 0 for no limit.
	Width   int
	Colour  bool
	Unicode bool
}

// Of is the style of w, with what the environment says: COLUMNS, NO_COLOR (https://no-color.org), TERM and the locale. What is no
// terminal has no colour, and no limit but that of COLUMNS.
func Of(w io.Writer, env func(string) string) Style {
	var s Style
	f, ok := w.(*os.File)
	if ok && IsTerminal(f) {
		s.Width = 80
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
			s.Width = int(size.Col)
		}
		s.Colour = env("NO_COLOR") == "" && env("TERM") != "dumb" && env("TERM") != ""
	} else if n, err := strconv.Atoi(env("COLUMNS")); err == nil && n > 0 {
		s.Width = n
	}
	s.Unicode = UTF8(env)
	return s
}

// UTF8 tells whether the locale's characters are UTF-8, by the variables that setlocale(3) looks at, in its order.
func UTF8(env func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := strings.ToLower(env(name)); value != "" {
			return strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
		}
	}
	return false
}

// IsTerminal tells whether f is one.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Good, Warn, Bad, Faint, Strong and Accent are s in a colour of the terminal's own sixteen, which its owner has chosen to be legible on
// a light or on a dark ground.
func (s Style) Good(text string) string {
	return s.paint(text, lipgloss.NewStyle().Foreground(lipgloss.Green))
}

// Warn is for what deserves a look.
func (s Style) Warn(text string) string {
	return s.paint(text, lipgloss.NewStyle().Foreground(lipgloss.Yellow))
}

// Bad is for what is not as it should be.
func (s Style) Bad(text string) string {
	return s.paint(text, lipgloss.NewStyle().Foreground(lipgloss.Red).Bold(true))
}

// Faint is for what matters less.
func (s Style) Faint(text string) string { return s.paint(text, lipgloss.NewStyle().Faint(true)) }

// Strong is for heads.
func (s Style) Strong(text string) string { return s.paint(text, lipgloss.NewStyle().Bold(true)) }

// Accent is for bars and lines of a graph.
func (s Style) Accent(text string) string {
	return s.paint(text, lipgloss.NewStyle().Foreground(lipgloss.Cyan))
}

func (s Style) paint(text string, with lipgloss.Style) string {
	if !s.Colour || text == "" {
		return text
	}
	return with.Render(text)
}

// Cells is how many columns text takes on a terminal.
func Cells(text string) int { return ansi.StringWidth(text) }

// Cut shortens text to so many columns, in the middle: names that begin alike often differ at their end.
func (s Style) Cut(text string, cells int) string {
	if Cells(text) <= cells {
		return text
	}
	mark := "~"
	if s.Unicode {
		mark = "…"
	}
	if cells <= 1 {
		return mark[:len(mark)*max(cells, 0)]
	}
	tail := (cells - 1) / 2
	for from := Cells(text) - tail; ; from++ { // a wide character across the cut would be left whole
		if end := ansi.TruncateLeft(text, from, ""); Cells(end) <= tail {
			return ansi.Truncate(text, cells-1-tail, "") + mark + end
		}
	}
}

// Fit shortens a line to the width at its end.
func (s Style) Fit(line string) string {
	if s.Width <= 0 || Cells(line) <= s.Width {
		return line
	}
	mark := "~"
	if s.Unicode {
		mark = "…"
	}
	return ansi.Truncate(line, s.Width, mark)
}

// Wrap breaks text at blanks into lines of the width, those behind the first indented. Words that are longer stand alone.
func (s Style) Wrap(text string, indent int) []string {
	if s.Width <= 0 || Cells(text) <= s.Width {
		return []string{text}
	}
	body := strings.TrimLeft(text, " ")
	var lines []string
	line, empty := text[:len(text)-len(body)], true
	for _, word := range strings.Split(body, " ") {
		switch {
		case empty:
			line += word
		case Cells(line)+1+Cells(word) > s.Width:
			lines = append(lines, line)
			line = strings.Repeat(" ", indent) + word
		default:
			line += " " + word
		}
		empty = false
	}
	return append(lines, line)
}
