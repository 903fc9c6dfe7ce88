package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"bulkshaper/cmd/bulkshaper/explain"
	"bulkshaper/cmd/bulkshaper/screen"
	"bulkshaper/cmd/bulkshaper/view"
	"bulkshaper/inventory"
	"bulkshaper/shaper/config"
)

func explainCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "explain DEST...",
		Short: "Which class a server or an address is in, why, who shares it, and what the kernel would really do",
		Long: `For each server or address: who owns it, the rules that do not match and the one that does, the class, what the filters that
stand in the kernel would do with a packet to it, and who shares the class. A server's pod prefixes are asked for by their
first address. --class lists who is in a class, --between where addresses change class inside a prefix.

Exits with 3 where kernel and inventory disagree. What is unknown (2) or cannot be asked does not keep the rest from being
answered. --no-kernel answers from the files alone, on any machine. While the files are broken it answers from what the daemon
holds, or the kernel alone, and exits with 2.`,
		Example: `  bulkshaper explain hadoop14 10.1.2.3
  bulkshaper explain --class cross-cabinet
  bulkshaper explain --between 10.1.0.0/16
  bulkshaper explain hadoop14 --node hadoop27 --no-kernel`,
	}
	flags := addInputFlags(c)
	format := addFormat(c, "text", "json")
	class := c.Flags().String("class", "", "list who is in the class of this `name`")
	between := c.Flags().String("between", "", "where addresses change class inside this `prefix`")
	all := c.Flags().Bool("all", false, "of long lists all, not the first 30")
	without := c.Flags().Bool("no-kernel", false, "do not ask the kernel")
	_ = c.RegisterFlagCompletionFunc("class", flags.classNames)
	c.Args = func(c *cobra.Command, args []string) error {
		asked := 0
		for _, given := range []bool{len(args) > 0, *class != "", *between != ""} {
			if given {
				asked++
			}
		}
		if asked != 1 {
			if len(args) > 0 && *class != "" {
				return fmt.Errorf("one question at a time: which class %s is in and why, or with --class %s alone who is in that", strings.Join(args, " "), *class)
			}
			return errors.New("name servers or addresses, or give one of --class and --between")
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := format.check(); err != nil {
			return err
		}
		var prefix netip.Prefix
		if *between != "" {
			var err error
			if prefix, err = netip.ParsePrefix(*between); err != nil {
				return wrong(fmt.Errorf("--between %q is no prefix; write it like 10.1.0.0/16", *between))
			}
		}
		return flags.explain(c, explainAsked{dests: args, class: *class, prefix: prefix, all: *all, format: format.value, kernel: !*without})
	}
	return c
}

// explainAsked is what is to be explained, and how.
type explainAsked struct {
	dests  []string
	class  string
	prefix netip.Prefix
	all    bool
	format string
	kernel bool
	// before is called when there is an answer, before that is printed; nil for nothing.
	before func()
}

func (f *inputFlags) explain(c *cobra.Command, asked explainAsked) error {
	collectSeldom()
	input, _, err := f.load(c.Context())
	if err == nil {
		var x *explain.Explainer
		if x, err = explain.New(c.Context(), input, hostname(), asked.kernel); err == nil {
			return explainFromFiles(c, x, asked)
		}
		err = noInterface(wrong(err))
	}
	if c.Context().Err() != nil {
		return err
	}
	return f.explainRest(c, asked, err)
}

func explainFromFiles(c *cobra.Command, x *explain.Explainer, asked explainAsked) error {
	warn(c.ErrOrStderr(), x.Notes())
	switch {
	case asked.class != "":
		name, err := x.Class(asked.class)
		if err != nil {
			return wrong(err)
		}
		m := x.MembersOf(name)
		err = printAnswer(c, asked, m, func(st screen.Style) []string { return view.MemberLines(st, m, asked.all) })
		return errors.Join(err, explainExit(x.Unasked(), nil, len(m.Checked.Disagree) > 0))
	case asked.prefix.IsValid():
		b := x.Between(asked.prefix)
		err := printAnswer(c, asked, b, func(st screen.Style) []string { return view.BetweenLines(st, b, asked.all) })
		return errors.Join(err, explainExit(x.Unasked(), nil, len(b.Checked.Disagree) > 0))
	}
	return explainEach(c, asked, x.Unasked(), x.Explain)
}

// explainRest answers what can be answered while the files are broken: from what the daemon holds, and from the kernel. It ends with broken,
// the error of the files, all the same.
func (f *inputFlags) explainRest(c *cobra.Command, asked explainAsked, broken error) error {
	path, overrides, err := f.where()
	if err != nil {
		return err
	}
	salvaged := config.Salvage(path, overrides).Config
	o := explain.RestOptions{Interface: salvaged.Interface, Classes: salvaged.Classes, Kernel: asked.kernel, Files: filesAre(broken)}
	place := f.place()
	from := "the kernel alone"
	// Of another node the daemon of this one says nothing.
	node := inventory.CanonicalName(*f.keys.single["node"])
	if d, status, err := place.ask(c.Context()); err == nil && (node == "" || node == status.Node) {
		o.Find, o.Status, from = d.Find, &status, "what "+d.Name+" holds"
	}
	if o.Find == nil && (!asked.kernel || o.Interface == "") {
		return broken
	}
	r := explain.NewRest(c.Context(), o)
	if o.Find == nil && r.Unasked() != nil {
		return broken
	}
	asked.before = func() {
		fmt.Fprintf(c.ErrOrStderr(), "warning: %s, so the answer is from %s\n", o.Files, from)
	}
	switch {
	case asked.class != "":
		m, err := r.MembersOf(c.Context(), asked.class)
		if err == nil {
			err = printAnswer(c, asked, m, func(st screen.Style) []string { return view.MemberLines(st, m, asked.all) })
		}
		return errors.Join(broken, err)
	case asked.prefix.IsValid():
		return fmt.Errorf("--between takes whole files, and %s; ask for single addresses meanwhile: %w", o.Files, broken)
	}
	err = explainEach(c, asked, r.Unasked(), func(dest string) ([]view.Explanation, error) { return r.Explain(c.Context(), dest) })
	var coded *codedError
	if errors.As(err, &coded) && coded.err == nil {
		err = nil // that the kernel does otherwise is said; that the files are broken is worse
	}
	return errors.Join(broken, err)
}

// explainEach answers for each destination; what is unknown does not keep the rest from being answered.
func explainEach(c *cobra.Command, asked explainAsked, unasked error, one func(string) ([]view.Explanation, error)) error {
	var answers []view.Explanation
	var unknown []error
	disagrees := false
	for _, dest := range asked.dests {
		found, err := one(dest)
		if err != nil {
			unknown = append(unknown, err)
		}
		answers = append(answers, found...)
	}
	for _, a := range answers {
		disagrees = disagrees || a.Disagrees()
	}
	var err error
	if len(answers) > 0 {
		err = printAnswer(c, asked, answers, func(st screen.Style) []string { return view.ExplainLines(st, answers) })
	}
	return errors.Join(err, explainExit(unasked, unknown, disagrees))
}

func printAnswer(c *cobra.Command, asked explainAsked, answer any, lines func(screen.Style) []string) error {
	if asked.before != nil {
		asked.before()
	}
	w := c.OutOrStdout()
	if asked.format == "json" {
		return printJSON(w, answer)
	}
	return printLines(w, lines(styleOf(w)))
}

// explainExit is the error that answers end with, nil where all is well: what is unknown or cannot be asked counts more than what disagrees.
func explainExit(unasked error, unknown []error, disagrees bool) error {
	switch {
	case len(unknown) > 0:
		return wrong(errors.Join(unknown...))
	case unasked != nil:
		return fmt.Errorf("the kernel could not be asked: %w", noInterface(unasked))
	case disagrees:
		return &codedError{code: exitDiffers}
	}
	return nil
}
