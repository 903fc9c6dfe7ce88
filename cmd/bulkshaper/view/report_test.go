package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"bulkshaper/cmd/bulkshaper/screen"
	"bulkshaper/inventory"
)

// TestReportFits holds the screen of problems of all kinds, sorted by file, each with its line, caret and remedy.
func TestReportFits(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"b.json":    "\ufeff{\r\n\t\"cabinet\": true,\r\n}",
		"long.json": "{" + strings.Repeat(`"filler": "日本",`, 60) + `"cabinet": true` + strings.Repeat(`, "x": 1`, 60) + "}",
		"c.yaml":    "interface: eth1\nclases: {}\n",
	}
	errors := []inventory.Problem{
		{File: "long.json", Line: 1, Column: 2 + 60*15, Message: "cabinet is true", Remedy: "write a string or a whole number, or null where it is unknown"},
		{File: "c.yaml", Line: 2, Column: 1, Message: `unknown key "clases"`, Remedy: "did you mean classes?"},
		{File: "b.json", Line: 2, Column: 13, Message: "cabinet is true", Remedy: "write a string"},
		{File: "gone.json", Line: 7, Column: 2, Message: "the file is not there any more"},
		{File: "b.json", Line: 99, Message: "a line that the file does not have"},
		{Message: "no interface given"},
	}
	for i := range 30 {
		errors = append(errors, inventory.Problem{File: fmt.Sprintf("d/s%02d.json", 29-i), Message: fmt.Sprintf(`address "10.0.0.%d" is malformed`, i)})
	}
	warnings := []inventory.Problem{{File: "b.json", Message: "server b has no address", Remedy: "add one"}}
	r := NewReport(errors, warnings, func(file string) []byte { return []byte(files[file]) })
	for _, width := range []int{80, 200} {
		lines := ReportLines(screen.Style{Width: width, Unicode: true}, r)
		for _, line := range lines {
			if got := screen.Cells(line); got > width {
				t.Errorf("at %d a line of %d: %s", width, got, line)
			}
		}
		golden(t, fmt.Sprintf("report-%d.txt", width), strings.Join(lines, "\n")+"\n")
	}
	if want := (ProblemKind{LevelError, "address ... is malformed", 30}); r.Kinds[0] != want || r.OK || r.Errors != 36 || r.Warnings != 1 {
		t.Errorf("%+v", r)
	}
}

// TestCaretStandsBelowTheColumn whatever the characters before it, and in a line of megabytes at once.
func TestCaretStandsBelowTheColumn(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"", "abc", "\t\t", "日本語", strings.Repeat("x", 79), strings.Repeat("日", 500), strings.Repeat("y", 5_000_000)} {
		p := Problem{line: before + "HERE" + strings.Repeat(" z", 300), Column: len([]rune(before)) + 1}
		start := time.Now()
		lines := excerpt(screen.Style{Width: 80}, p)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%d characters took %s", len(before), took)
		}
		caret := screen.Cells(lines[1]) - 1
		text := lines[0]
		for screen.Cells(text) > 0 && !strings.HasPrefix(text, "HERE") {
			caret -= screen.Cells(text[:len(string([]rune(text)[:1]))])
			text = string([]rune(text)[1:])
		}
		if caret != 0 || !strings.HasPrefix(text, "HERE") || screen.Cells(lines[0]) > 80 {
			t.Errorf("%.10q: the caret is %d off\n%s\n%s", before, caret, lines[0], lines[1])
		}
	}
}

// TestDifferenceInWords puts together what changes alike.
func TestDifferenceInWords(t *testing.T) {
	t.Parallel()
	d := &Difference{Node: "hadoop27", Classes: []ClassChange{{Name: "a", Key: "rate", From: "1gbit", To: "2gbit"}, {Name: "a", Key: "parent", To: "b"}, {Name: "b", To: "rate 3gbit"}, {Name: "c", From: "rate 1mbit"}}}
	for i := range 1000 {
		c := DestinationChange{Prefix: fmt.Sprintf("10.0.%d.%d/32", i>>8, i&255), Server: fmt.Sprintf("s%d", i), From: "cross-cabinet", To: "same-cabinet", Rule: "near"}
		d.Moved = append(d.Moved, c)
	}
	d.Added = []DestinationChange{{Prefix: "10.9.0.0/16", To: "default"}}
	d.Removed = []DestinationChange{{Prefix: "10.8.0.0/16", Server: "x", From: "default"}}
	d.Ruled = []DestinationChange{{Prefix: "10.7.0.0/16", From: "default", To: "default", Rule: "far"}}
	golden(t, "difference-80.txt", strings.Join(differenceLines(screen.Style{Width: 80}, d, []string{"/etc/roles.json lies outside"}), "\n")+"\n")
	if got := strings.Join(differenceLines(screen.Style{}, &Difference{Node: "n"}, nil), "\n"); got != "on n the edit changes nothing" {
		t.Error(got)
	}
}
