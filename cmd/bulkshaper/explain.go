package main

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"bulkshaper/cmd/bulkshaper/view"
)

func explainCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "explain DEST...",
		Short: "Which class a server or an address is in, why, who shares it, and what the kernel would really do",
		Long: `For each server or address: who owns it, the rules that do not match and the one that does, the class, what the filters that
stand in the kernel would do with a packet to it, and who shares the class. A server's pod prefixes are asked for by their
first address. --class lists who is in a class, --between where addresses change class inside a prefix.

Exits with 3 where kernel and inventory disagree. What is unknown (2) or cannot be asked does not keep the rest from being
answered. --no-kernel answers from the files alone, on any machine.`,
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
	c.Args = func(c *cobra.Command, args []string) error {
		asked := 0
		for _, given := range []bool{len(args) > 0, *class != "", *between != ""} {
			if given {
				asked++
			}
		}
		if asked != 1 {
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
		x, err := flags.explainer(c.Context(), !*without)
		if err != nil {
			return err
		}
		w := c.OutOrStdout()
		warn(c.ErrOrStderr(), x.notes)
		switch {
		case *class != "":
			name, err := x.class(*class)
			if err != nil {
				return wrong(err)
			}
			m := x.membersOf(name)
			if format.value == "json" {
				err = printJSON(w, m)
			} else {
				err = printLines(w, view.MemberLines(styleOf(w), m, *all))
			}
			return errors.Join(err, x.exit(nil, len(m.Checked.Disagree) > 0))
		case *between != "":
			b := x.between(prefix)
			if format.value == "json" {
				err = printJSON(w, b)
			} else {
				err = printLines(w, view.BetweenLines(styleOf(w), b, *all))
			}
			return errors.Join(err, x.exit(nil, len(b.Checked.Disagree) > 0))
		}
		var answers []view.Explanation
		var unknown []error
		for _, dest := range args {
			found, err := x.explain(dest)
			if err != nil {
				unknown = append(unknown, err)
			}
			answers = append(answers, found...)
		}
		disagrees := false
		for _, a := range answers {
			disagrees = disagrees || a.Disagrees()
		}
		switch {
		case len(answers) == 0:
		case format.value == "json":
			err = printJSON(w, answers)
		default:
			err = printLines(w, view.ExplainLines(styleOf(w), answers))
		}
		return errors.Join(err, x.exit(unknown, disagrees))
	}
	return c
}
