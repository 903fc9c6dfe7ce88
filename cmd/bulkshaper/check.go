package main

import (
	"errors"

	"github.com/spf13/cobra"

	"bulkshaper/cmd/bulkshaper/check"
	"bulkshaper/cmd/bulkshaper/view"
)

func checkCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "check",
		Short: "Read config and inventory and print every problem; needs no privilege",
		Long: `Reads config and inventory as the daemon would and prints every problem, by file, with the line, a remedy, and in the end
how many there are of each kind. Warnings do not make the exit code 2; errors do. Where the interface exists the whole plan is
made, and on any other machine that of --node.

Beside a running daemon it also tells whether that one has refused its files, for a reason that the files alone do not show.

--diff tells what an edit changes on the node --node, without privilege and without asking a kernel: rates, destinations that
move to another class, come or go. OLD-FOLDER has the files as they were: either a checkout of the whole repository, in which the
config is at the same relative path, or a copy of the folder of the config. Paths that lie outside of what it is a copy of are
taken as unchanged. It tells as well what a running daemon would refuse, or use only from its next start on.`,
		Example: `  bulkshaper check --config testdata/incident/config.yaml
  bulkshaper check --format json
  bulkshaper check --diff OLD-FOLDER --node hadoop27`,
		Args: cobra.NoArgs,
	}
	flags := addInputFlags(c)
	format := addFormat(c, "text", "json")
	old := c.Flags().String("diff", "", "tell what changed since the `folder` with the files as they were")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := format.check(); err != nil {
			return err
		}
		path, overrides, err := flags.where()
		if err != nil {
			return err
		}
		collectSeldom()
		r, err := check.Run(c.Context(), check.Options{Config: path, Overrides: overrides, Old: *old, Hostname: hostname()})
		var usage *check.UsageError
		switch {
		case errors.As(err, &usage):
			return wrong(err)
		case err != nil:
			return err
		}
		if format.value == "json" {
			err = printJSON(c.OutOrStdout(), r)
		} else {
			err = printLines(c.OutOrStdout(), view.ReportLines(styleOf(c.OutOrStdout()), r))
		}
		if err == nil && !r.OK {
			err = &codedError{exitWrong, errors.New(count(r.Errors, "error") + " found")}
		}
		return err
	}
	return c
}
