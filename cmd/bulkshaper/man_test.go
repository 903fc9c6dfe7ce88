package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bulkshaper/shaper/config"
)

// plainRoff undoes the escapes of a page.
var plainRoff = strings.NewReplacer(`\-`, "-", `\fB`, "", `\fI`, "", `\fR`, "", `\(ga`, "`", `\(aq`, "'", `\(ti`, "~", `\(ha`, "^", `\&`, "", `\e`, `\`)

// TestManualPages: each command that people are told of has a page, with each of its flags, its examples and its exit status, and nothing in
// a page is taken for a request of roff that is none.
func TestManualPages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var out bytes.Buffer
	if code := run(t.Context(), []string{"man", dir}, &out, &out); code != exitDone {
		t.Fatalf("man: exit %d, %s", code, &out)
	}
	pages, err := filepath.Glob(dir + "/*")
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	count := 0
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		if c.Hidden {
			return
		}
		count++
		page := plainRoff.Replace(read(strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"))
		want := []string{".SH EXIT STATUS\n.TP\n0\nDone.", ".SH SYNOPSIS\n.B " + c.CommandPath()}
		for _, line := range strings.Split(c.Example, "\n") {
			want = append(want, strings.TrimSpace(line))
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if shown := strings.Contains(page, "--"+f.Name+"\n") || strings.Contains(page, "--"+f.Name+"="); shown == f.Hidden {
				t.Errorf("%s: --%s is hidden: %t, and in its page: %t", c.CommandPath(), f.Name, f.Hidden, shown)
			}
		})
		for _, below := range c.Commands() {
			if !below.Hidden && below.Name() != "help" {
				want = append(want, strings.ReplaceAll(below.CommandPath(), " ", "-")+"(1)\n"+strings.ReplaceAll(below.Short, "`", ""))
				look(below)
			}
		}
		for _, text := range want {
			if !strings.Contains(page, text) {
				t.Errorf("the page of %s has no %q", c.CommandPath(), text)
			}
		}
	}
	look(newRoot(&out, &out))
	if len(pages) != count+1 {
		t.Errorf("%d pages of %d commands and the config: %q", len(pages), count, pages)
	}
	if page := plainRoff.Replace(read("bulkshaper-config.5")); !strings.Contains(page, strings.TrimSpace(string(config.Reference()))) {
		t.Error("the page of the config is not the reference")
	}
	for _, path := range pages {
		for i, line := range strings.Split(read(filepath.Base(path)), "\n") {
			request, _, _ := strings.Cut(line, " ")
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !strings.Contains(".TH .SH .TP .PP .B .BR .br .nf .fi .nh .ad ", request+" ") {
				t.Errorf("%s:%d: %s", path, i+1, line)
			}
		}
	}
}

// TestManualPagesOfADay: the same source makes the same pages, on any day.
func TestManualPagesOfADay(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ epoch, want string }{{"0", "1970-01-01"}, {"1700000000", "2023-11-14"}} {
		date, err := sourceDate(test.epoch)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		for _, page := range manPages(newRoot(&out, &out), date) {
			if head, _, _ := bytes.Cut(page.Text, []byte("\n")); !bytes.Contains(head, []byte(`"`+test.want+`"`)) {
				t.Errorf("with %s: %s begins with %s", test.epoch, page.Name, head)
			}
		}
	}
	if _, err := sourceDate("yesterday"); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH") {
		t.Errorf("yesterday: %v", err)
	}
}
