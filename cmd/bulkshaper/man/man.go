// Package man makes the manual pages, in roff's man macros, from what the commands say of themselves and from the reference config. It
// knows nothing of what the commands do, and imports nothing of ours.
//
// Our help is plain text: a "*" or "<" in it is meant as it stands. So it is not read as Markdown on its way to a page, as
// other makers of pages do, and every flag has the name of its value as --help shows it.
package man

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Options is what stands on every page.
type Options struct {
	// Date is the day that the pages are of; of a given source it should be a given one.
	Date time.Time
	// Version is that of the program.
	Version string
	// Status is what each exit status of a command means, by its path; a command that is not here has that of the one above it.
	Status map[string][]Entry
	// Files are those that the program reads and keeps.
	Files []Entry
	// See are pages of others, such as tc(8).
	See []string
}

// Entry is a word and what it means.
type Entry struct{ Word, Means string }

// Page is a page: the name of its file and its text.
type Page struct {
	Name string
	Text []byte
}

// Commands has a page for root and for each command below it, but for hidden ones and cobra's own help.
func Commands(root *cobra.Command, o Options) []Page {
	pages := []Page{command(root, o)}
	for _, below := range shown(root) {
		pages = append(pages, Commands(below, o)...)
	}
	return pages
}

// shown are the commands below c that people are told of.
func shown(c *cobra.Command) []*cobra.Command {
	var list []*cobra.Command
	for _, below := range c.Commands() {
		if below.IsAvailableCommand() && !below.IsAdditionalHelpTopicCommand() {
			list = append(list, below)
		}
	}
	return list
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

func command(c *cobra.Command, o Options) Page {
	c.InitDefaultHelpFlag()
	c.InitDefaultVersionFlag()
	w := &writer{}
	w.head(pageName(c), "1", "User Commands", o)
	w.section("NAME")
	w.line(escape(pageName(c)) + ` \- ` + escape(strings.ReplaceAll(c.Short, "`", "")))
	w.section("SYNOPSIS")
	if c.Runnable() {
		words := strings.TrimPrefix(c.UseLine(), c.CommandPath())
		w.line(`.B ` + escape(c.CommandPath()))
		w.line(escape(strings.TrimSpace(words)))
	}
	below := shown(c)
	if len(below) > 0 {
		if c.Runnable() {
			w.line(".br")
		}
		w.line(`.B ` + escape(c.CommandPath()))
		w.line(`\fIcommand\fR [flags]`)
	}
	w.section("DESCRIPTION")
	w.prose(or(c.Long, c.Short+"."))
	w.list("COMMANDS", entries(below, func(b *cobra.Command) (string, string) {
		return `\fB` + escape(pageName(b)) + `\fR(1)`, b.Short
	}))
	w.list("OPTIONS", flags(c.LocalFlags()))
	w.list("OPTIONS OF ALL COMMANDS", flags(c.InheritedFlags()))
	for of := c; of != nil; of = of.Parent() {
		if status, ok := o.Status[of.CommandPath()]; ok {
			w.entries("EXIT STATUS", status)
			break
		}
	}
	if c.Example != "" {
		w.section("EXAMPLES")
		w.verbatim(unindent(c.Example))
	}
	w.entries("FILES", o.Files)
	w.section("SEE ALSO")
	see := []string{}
	if c.HasParent() {
		see = append(see, pageName(c.Parent())+"(1)")
	}
	w.references(append(append(see, configName+"(5)"), o.See...))
	return Page{pageName(c) + ".1", w.Bytes()}
}

// configName is the page of the config.
const configName = "bulkshaper-config"

// Config is the page of the config: the reference, which has every key, its default and why, as it stands.
func Config(reference []byte, o Options) Page {
	w := &writer{}
	w.head(configName, "5", "File Formats", o)
	w.section("NAME")
	w.line(escape(configName) + ` \- the config of bulkshaper`)
	w.section("DESCRIPTION")
	w.prose("The config is YAML. What follows is the reference, which is also the config that the packages install: every key with its default, " +
		"and what it is for.")
	w.line(".PP")
	w.verbatim(string(reference))
	w.entries("FILES", o.Files)
	w.section("SEE ALSO")
	w.references(append([]string{"bulkshaper(1)", "bulkshaper-check(1)"}, o.See...))
	return Page{configName + ".5", w.Bytes()}
}

// flags are those that --help shows, as it shows them.
func flags(set *pflag.FlagSet) []Entry {
	var list []Entry
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		word := `\fB` + escape("--"+f.Name) + `\fR`
		if f.Shorthand != "" {
			word = `\fB` + escape("-"+f.Shorthand) + `\fR, ` + word
		}
		if value != "" {
			word += `=\fI` + escape(value) + `\fR`
		}
		list = append(list, Entry{word, usage})
	})
	return list
}

func entries[T any](of []T, entry func(T) (word, means string)) []Entry {
	var list []Entry
	for _, v := range of {
		word, means := entry(v)
		list = append(list, Entry{word, means})
	}
	return list
}

func or(text, other string) string {
	if text != "" {
		return text
	}
	return other
}

// unindent takes the indentation of an example away.
func unindent(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "  ")
	}
	return strings.Join(lines, "\n")
}

// writer writes the macros of man(7).
type writer struct{ bytes.Buffer }

func (w *writer) head(name, section, group string, o Options) {
	fmt.Fprintf(w, ".TH %q %s %q %q %q\n", escape(strings.ToUpper(name)), section, o.Date.UTC().Format(time.DateOnly), "bulkshaper "+escape(o.Version), group)
	// Neither hyphens inside of words nor stretched lines: both are bad for what is copied from a page.
	w.line(".nh")
	w.line(".ad l")
}

func (w *writer) line(text string) { w.WriteString(text + "\n") }

func (w *writer) section(name string) { w.line(".SH " + name) }

// prose writes paragraphs; what is indented in them stays as it is.
func (w *writer) prose(text string) {
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			w.line(".PP")
		}
		if strings.HasPrefix(paragraph, "  ") {
			w.verbatim(paragraph)
			continue
		}
		for _, line := range strings.Split(paragraph, "\n") {
			line = strings.TrimLeft(strings.TrimSpace(line), "# ") // cobra's own headings
			w.line(escape(strings.ReplaceAll(line, "`", "")))
		}
	}
}

func (w *writer) verbatim(text string) {
	w.line(".nf")
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		w.line(escape(strings.TrimRight(line, " \t")))
	}
	w.line(".fi")
}

// entries writes a list of plain words.
func (w *writer) entries(section string, list []Entry) {
	w.list(section, entries(list, func(e Entry) (string, string) { return `\fB` + escape(e.Word) + `\fR`, e.Means }))
}

// list writes a list whose words are roff already.
func (w *writer) list(section string, list []Entry) {
	if len(list) == 0 {
		return
	}
	w.section(section)
	for _, e := range list {
		w.line(".TP")
		w.line(e.Word)
		w.prose(e.Means)
	}
}

// references writes names like tc(8), the names in bold.
func (w *writer) references(pages []string) {
	for i, page := range pages {
		name, section, _ := strings.Cut(page, "(")
		comma := ","
		if i == len(pages)-1 {
			comma = ""
		}
		w.line(`.BR ` + escape(name) + ` (` + section + comma)
	}
}

// escape makes roff print the line as it is: no escapes, no requests, and hyphens that are found when they are searched for.
func escape(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`, "^", `\(ha`, "~", `\(ti`, "`", `\(ga`, "'", `\(aq`).Replace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, `\(aq`) {
		line = `\&` + line
	}
	return line
}
