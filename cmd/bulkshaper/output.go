package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"bulkshaper/cmd/bulkshaper/screen"
)

// formatFlag is --format, with the values a command knows.
type formatFlag struct {
	value string
	known []string
}

func addFormat(c *cobra.Command, known ...string) *formatFlag {
	f := &formatFlag{known: known}
	c.Flags().StringVar(&f.value, "format", known[0], "one of "+strings.Join(known, ", "))
	completeWith(c, "format", known...)
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

// count is n of what, in words: 1 server, 3 servers, 2 classes.
func count(n int, what string) string { return screen.Count(n, what) }

// styleOf is how w can be written to.
func styleOf(w io.Writer) screen.Style { return screen.Of(w, os.Getenv) }

func humanRate(bits float64) string { return screen.Rate(bits) }

func humanBytes(n uint64) string { return screen.Bytes(n) }
