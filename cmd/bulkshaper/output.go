package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// formatFlag is --format, with the values a command knows.
type formatFlag struct {
	value string
	known []string
}

func addFormat(c *cobra.Command, known ...string) *formatFlag {
	f := &formatFlag{known: known}
	c.Flags().StringVar(&f.value, "format", known[0], "one of "+strings.Join(known, ", "))
	return f
}

func (f *formatFlag) check() error {
	if slices.Contains(f.known, f.value) {
		return nil
	}
	return wrong(fmt.Errorf("--format %q: use one of %s", f.value, strings.Join(f.known, ", ")))
}

// table lines up columns with spaces.
type table struct{ rows [][]string }

func newTable(head ...string) *table { return &table{rows: [][]string{head}} }

func (t *table) row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.rows = append(t.rows, row)
}

func (t *table) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range t.rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush()
	lines := strings.Split(b.String(), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}

// errWriter keeps the first error of a run of prints.
type errWriter struct {
	w   io.Writer
	err error
}

func (e *errWriter) printf(format string, args ...any) {
	if e.err == nil {
		_, e.err = fmt.Fprintf(e.w, format, args...)
	}
}

func warn(w io.Writer, warnings []string) {
	for _, text := range warnings {
		fmt.Fprintln(w, "warning: "+text)
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
