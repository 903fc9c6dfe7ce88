package screen

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestUnits(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		Rate(0): "0bit", Rate(999): "999bit", Rate(819_200_000): "819.2mbit", Rate(10e9): "10.0gbit", Rate(1.04e6): "1.0mbit",
		Bytes(1023): "1023B", Bytes(1536): "1.5KiB", Bytes(1 << 40): "1.0TiB", Bytes(math.MaxUint64): "16384.0PiB",
		Number(999_999): "999999", Number(1_000_000): "1.00M", Number(12_345_678): "12.3M", Number(123_456_789): "123M", Number(4_000_000_000): "4.00G",
		Number(math.MaxUint64): "18447P",
		Age(0):                 "less than 1 s", Age(59 * time.Second): "59 s", Age(61 * time.Second): "1 min", Age(125 * time.Minute): "2 h 5 min", Age(51 * time.Hour): "2 d 3 h",
		Age(2 * time.Hour): "2 h",
		Count(1, "class"):  "1 class", Count(2, "class"): "2 classes", Count(0, "server"): "0 servers",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestTableFits: whatever the cells and the width, no line is longer than the columns that must stay, and what stays whole is there whole.
func TestTableFits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := Style{Width: rapid.IntRange(1, 120).Draw(t, "width"), Unicode: rapid.Bool().Draw(t, "unicode"), Colour: rapid.Bool().Draw(t, "colour")}
		var table Table
		must := -gap
		n := rapid.IntRange(1, 6).Draw(t, "columns")
		text := rapid.StringMatching(`[a-zäöü/日本-]{0,30}`)
		rows := rapid.IntRange(0, 5).Draw(t, "rows")
		cells := make([][]string, rows)
		for i := range n {
			c := Column{Head: rapid.StringMatching(`[A-Z]{1,8}`).Draw(t, "head"), Right: rapid.Bool().Draw(t, "right"), Drop: rapid.IntRange(0, 3).Draw(t, "drop"), Least: rapid.SampledFrom([]int{0, 5, 12}).Draw(t, "least")}
			widest := Cells(c.Head)
			for j := range cells {
				cells[j] = append(cells[j], text.Draw(t, "cell"))
				widest = max(widest, Cells(cells[j][i]))
			}
			if c.Least > 0 {
				widest = min(widest, max(c.Least, Cells(c.Head)))
			}
			if c.Drop == 0 {
				must += widest + gap
			}
			table.Columns = append(table.Columns, c)
		}
		for _, row := range cells {
			table.Row(row...)
		}
		lines, left := table.Lines(s)
		if len(lines) != rows+1 {
			t.Fatalf("%d lines of %d rows", len(lines), rows)
		}
		for _, line := range lines {
			if got := Cells(line); got > max(s.Width, must) {
				t.Fatalf("a line of %d at %d: %q", got, s.Width, line)
			}
			if !s.Colour && strings.Contains(line, "\x1b") {
				t.Fatalf("colour in %q", line)
			}
		}
		if wide, none := table.Lines(Style{}); len(none) != 0 || len(left) == 0 && len(wide) != len(lines) {
			t.Fatalf("without a limit %q are left out", none)
		}
	})
}

func TestCutKeepsBothEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		cells int
		want  string
	}{{"cross-cabinet/b12", 9, "cros…/b12"}, {"abc", 3, "abc"}, {"abcd", 3, "a…d"}, {"abcd", 1, "…"}, {"abcd", 0, ""}, {"日本日本日本", 7, "日…日本"[:len("日…日本")]}} {
		got := Style{Unicode: true}.Cut(c.text, c.cells)
		if Cells(got) > max(c.cells, 0) || c.text[0] < 128 && got != c.want {
			t.Errorf("%s in %d is %q, want %q", c.text, c.cells, got, c.want)
		}
	}
	if got := (Style{}).Cut("abcd", 3); got != "a~d" {
		t.Errorf("without Unicode: %q", got)
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	got := strings.Join(Style{Width: 12}.Wrap("  one two three four averylongwordindeed x", 4), "\n")
	if want := "  one two\n    three\n    four\n    averylongwordindeed\n    x"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestGraphs(t *testing.T) {
	t.Parallel()
	u := Style{Unicode: true}
	for got, want := range map[string]string{
		u.Bar(0.5, 4): "██··", u.Bar(0.0001, 4): "▏···", u.Bar(2, 4): "████", u.Bar(math.NaN(), 2): "··", u.Bar(1, 0): "", Style{}.Bar(0.5, 4): "##..",
		u.Spark([]float64{0, 1, 50, 100, math.NaN(), 200}, 100, 8): "  ▁▂▅█ █", Style{}.Spark([]float64{0, 100}, 100, 2): "_#", u.Spark([]float64{1, 2, 3}, 0, 2): "▁▁",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestStyleOf what is no terminal: no colour, as wide as COLUMNS says, characters by the locale.
func TestStyleOf(t *testing.T) {
	t.Parallel()
	f, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, c := range []struct {
		env  map[string]string
		want Style
	}{
		{nil, Style{}},
		{map[string]string{"COLUMNS": "100", "LANG": "en_US.UTF-8", "TERM": "xterm"}, Style{Width: 100, Unicode: true}},
		{map[string]string{"COLUMNS": "many", "LC_ALL": "C", "LANG": "en_US.utf8"}, Style{}},
		{map[string]string{"LC_CTYPE": "C.utf8"}, Style{Unicode: true}},
	} {
		if got := Of(f, func(k string) string { return c.env[k] }); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.env, got, c.want)
		}
	}
}
