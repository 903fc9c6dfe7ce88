package view

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"bulkshaper/cmd/bulkshaper/screen"
	"bulkshaper/inventory"
)

// Report is what `check` found.
type Report struct {
	OK       bool      `json:"ok"`
	Problems []Problem `json:"problems"`
	// Kinds are the problems by kind, most first.
	Kinds    []ProblemKind `json:"kinds"`
	Errors   int           `json:"errors"`
	Warnings int           `json:"warnings"`
	Servers  int           `json:"servers"`
	Roles    int           `json:"roles"`
	// About says how far it was looked.
	About string `json:"about"`
	// Notes are what else there is to say, such as what was not looked at.
	Notes []string    `json:"notes,omitempty"`
	Diff  *Difference `json:"diff,omitempty"`
	// DiffNote says why, or in what, there is no comparison.
	DiffNote []string `json:"diff_notes,omitempty"`
}

// Problem is one, with the line that it is in.
type Problem struct {
	Level   string `json:"level"` // error or warning
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
	// Source is the line, unless it is very long.
	Source string `json:"source,omitempty"`
	line   string
}

// longestSource is the longest line that a Problem repeats, in bytes: a file without line breaks is one of megabytes.
const longestSource = 2000

// ProblemKind is problems that differ in names and numbers only.
type ProblemKind struct {
	Level string `json:"level"`
	Kind  string `json:"kind"`
	Count int    `json:"count"`
}

// The levels.
const (
	LevelError   = "error"
	LevelWarning = "warning"
)

// NewReport puts problems in the order of their files. source gives a file's content, nil where it cannot be read.
func NewReport(errors, warnings []inventory.Problem, source func(file string) []byte) *Report {
	r := &Report{OK: len(errors) == 0, Errors: len(errors), Warnings: len(warnings), Problems: []Problem{}, Kinds: []ProblemKind{}}
	add := func(level string, problems []inventory.Problem) {
		for _, p := range problems {
			r.Problems = append(r.Problems, Problem{Level: level, File: p.File, Line: p.Line, Column: p.Column, Message: p.Message, Remedy: p.Remedy})
		}
	}
	add(LevelError, errors)
	add(LevelWarning, warnings)
	slices.SortStableFunc(r.Problems, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), strings.Compare(a.Level, b.Level))
	})
	var file string
	var lines []string
	kinds := map[ProblemKind]int{}
	for i := range r.Problems {
		p := &r.Problems[i]
		if p.Line > 0 {
			if p.File != file || lines == nil {
				file, lines = p.File, strings.Split(strings.TrimPrefix(string(source(p.File)), "\ufeff"), "\n")
			}
			if p.Line <= len(lines) {
				p.line = strings.TrimRight(lines[p.Line-1], "\r")
				if len(p.line) <= longestSource {
					p.Source = p.line
				}
			}
		}
		kinds[ProblemKind{Level: p.Level, Kind: kindOf(p.Message)}]++
	}
	for k, n := range kinds {
		k.Count = n
		r.Kinds = append(r.Kinds, k)
	}
	slices.SortFunc(r.Kinds, func(a, b ProblemKind) int {
		return cmp.Or(strings.Compare(a.Level, b.Level), cmp.Compare(b.Count, a.Count), strings.Compare(a.Kind, b.Kind))
	})
	return r
}

// varying is what tells two messages of a kind apart: what is quoted, and words with a digit, a slash, or a dot or colon inside.
var varying = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[^\s,;()"]*(?:[0-9/]|[.:][^\s,;()"])[^\s,;()"]*`)

// kindOf is a message without what varies.
func kindOf(message string) string {
	line, _, _ := strings.Cut(message, "\n")
	return varying.ReplaceAllString(line, "...")
}

// ReportLines is each problem with its line and its remedy, the kinds, and the sum.
func ReportLines(st screen.Style, r *Report) []string {
	var lines []string
	for _, p := range r.Problems {
		lines = append(lines, problemLines(st, p)...)
	}
	if len(r.Problems) > 1 && len(r.Kinds) > 0 {
		lines = append(lines, "", st.Strong("by kind"))
		for _, k := range r.Kinds[:min(len(r.Kinds), mostKinds)] {
			lines = append(lines, st.Fit(fmt.Sprintf("  %6d  %-7s  %s", k.Count, k.Level, k.Kind)))
		}
		if n := len(r.Kinds) - mostKinds; n > 0 {
			lines = append(lines, fmt.Sprintf("          and %d more kinds", n))
		}
		lines = append(lines, "")
	}
	for _, note := range r.Notes {
		lines = append(lines, st.Wrap(st.Warn("note")+": "+note, 4)...)
	}
	if r.Diff != nil || len(r.DiffNote) > 0 {
		lines = append(lines, differenceLines(st, r.Diff, r.DiffNote)...)
	}
	if r.OK {
		lines = append(lines, st.Wrap(fmt.Sprintf("%s: %s, %s, %s; %s", st.Good("ok"), screen.Count(r.Servers, "server"), screen.Count(r.Roles, "role"),
			screen.Count(r.Warnings, "warning"), r.About), 4)...)
	}
	return lines
}

// mostKinds is how many kinds are listed.
const mostKinds = 12

func problemLines(st screen.Style, p Problem) []string {
	level := st.Bad(p.Level)
	if p.Level == LevelWarning {
		level = st.Warn(p.Level)
	}
	place := inventory.Problem{File: p.File, Line: p.Line, Column: p.Column, Message: p.Message}
	lines := st.Wrap(level+": "+place.String(), 4)
	lines = append(lines, excerpt(st, p)...)
	if p.Remedy != "" {
		lines = append(lines, st.Wrap("    remedy: "+p.Remedy, 12)...)
	}
	return lines
}

// excerpt is the line of a problem with a caret below the column. Of a long line it is the part around it.
func excerpt(st screen.Style, p Problem) []string {
	if strings.TrimSpace(p.line) == "" {
		return nil
	}
	const margin, context = "    | ", 100
	width := context
	if st.Width > 0 {
		width = max(20, st.Width-len(margin)-1)
	}
	runes := []rune(p.line)
	at := min(max(p.Column-1, 0), len(runes))
	from, to := max(0, at-width*2/3), min(len(runes), at+width)
	runes = slices.Clone(runes[from:to]) // what is near: all that follows is short
	cut := from > 0
	at, from, to = at-from, 0, len(runes)
	for i, r := range runes {
		if r < ' ' || r == 0x7f {
			runes[i] = ' '
		}
	}
	for screen.Cells(string(runes[from:at])) > width*2/3 {
		from, cut = from+1, true
	}
	for to > at && screen.Cells(string(runes[from:to])) > width {
		to--
	}
	if cut && from < at {
		runes[from] = '~'
	}
	lines := []string{margin + strings.TrimRight(string(runes[from:to]), " ")}
	if p.Column > 0 {
		lines = append(lines, st.Faint(margin)+strings.Repeat(" ", screen.Cells(string(runes[from:at])))+st.Bad("^"))
	}
	return lines
}
