// Command bulkshaper shapes what a bulk node sends, by an inventory of servers, roles and cabinets.
//
// This package has flags, wiring and output; decisions are made in shaper and inventory.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"bulkshaper/inventory"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Exit codes, part of the contract.
const (
	exitDone    = 0
	exitFailed  = 1
	exitWrong   = 2 // usage, config or inventory
	exitDiffers = 3 // plan --exit-code, explain

	// exitNoPermission (EX_NOPERM of sysexits.h) tells a service manager that to start again is no use; the unit has it in
	// RestartPreventExitStatus=. Elsewhere that is a failure like others.
	exitNoPermission = 77
)

// codedError is an error that knows its exit code; with a nil err only the code is meant.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *codedError) Unwrap() error { return e.err }

// wrong marks an error of usage, config or inventory.
func wrong(err error) error {
	if err == nil {
		return nil
	}
	return &codedError{exitWrong, err}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot(stdout, stderr)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintln(stderr, "bulkshaper: interrupted")
		return exitFailed
	}
	if text := err.Error(); text != "" {
		fmt.Fprintln(stderr, "bulkshaper: "+text)
	}
	var coded *codedError
	var problems inventory.Problems
	switch {
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &problems):
		return exitWrong
	}
	return exitFailed
}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "bulkshaper",
		Short: "Shapes what a bulk node sends, by an inventory of servers, roles and cabinets",
		Long: `bulkshaper gives the packets that this node sends their share of the link: servers in the same cabinet most of it, bulk
servers in other cabinets little, priority roles and everybody else a class of their own. It reads who is who from the
inventory, and puts HTB classes and u32 filters on the bulk interface.`,
		Example: `  bulkshaper check     # what is wrong with config and inventory
  bulkshaper plan      # what would change on this node
  bulkshaper status    # how it is now`,
		Version:       versionLine(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if strings.Contains(err.Error(), "time: missing unit") {
			err = fmt.Errorf("%w; write a length of time with its unit, like 500ms, 10s or 5m", err)
		}
		return wrong(fmt.Errorf("%w; see `%s --help`", err, c.CommandPath()))
	})
	root.AddCommand(runCommand(), checkCommand(), planCommand(), applyCommand(), explainCommand(), statusCommand(),
		clearCommand(), confirmCommand(), guardCommand(), overrideCommand(), historyCommand(), demoCommand(), versionCommand(), manCommand())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	helpTopics(root)
	completionExamples(root)
	hideUnused(root)
	noFileNames(root)
	usageErrors(root)
	return root
}

// helpTopics makes help of what is no command an error: cobra's own shows the help of what is above, as if nothing were wrong.
func helpTopics(root *cobra.Command) {
	for _, help := range root.Commands() {
		if help.Name() != "help" {
			continue
		}
		help.Example = "  bulkshaper help plan"
		help.Run = nil
		help.RunE = func(_ *cobra.Command, args []string) error {
			topic, rest, err := root.Find(args)
			if err == nil && len(rest) > 0 {
				err = argumentsError(topic, rest, fmt.Errorf("unknown command %q for %q", rest[0], topic.CommandPath()))
			}
			if err != nil {
				return wrong(fmt.Errorf("%w; see `%s --help`", err, topic.CommandPath()))
			}
			topic.InitDefaultHelpFlag()
			topic.InitDefaultVersionFlag()
			return topic.Help()
		}
	}
}

// completionExamples gives the commands that cobra makes an example as all others have one.
func completionExamples(root *cobra.Command) {
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		for _, shell := range c.Commands() {
			shell.Example = "  " + shell.CommandPath()
		}
	}
}

// usageErrors gives wrong arguments of c and its commands, and none where one is needed, their exit code.
func usageErrors(c *cobra.Command) {
	for _, below := range c.Commands() {
		usageErrors(below)
	}
	if !c.Runnable() { // completion, and the program itself
		c.RunE = func(c *cobra.Command, _ []string) error {
			c.SetOut(c.ErrOrStderr())
			_ = c.Help()
			return wrong(errors.New("no command given"))
		}
	}
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				err = argumentsError(c, args, err)
				return wrong(fmt.Errorf("%w; see `%s --help`", err, c.CommandPath()))
			}
			return nil
		}
	}
}

// argumentsError says what is wrong with the arguments of c, which cobra has found.
func argumentsError(c *cobra.Command, args []string, found error) error {
	switch {
	case len(args) == 0:
		return fmt.Errorf("%s needs an argument: %s", c.CommandPath(), c.Use)
	case c.HasParent() && !c.HasSubCommands() && strings.HasPrefix(found.Error(), "unknown command "):
		return fmt.Errorf("%s takes no arguments, and %q is one", c.CommandPath(), args[0])
	case c.HasParent():
		return found
	}
	c.SuggestionsMinimumDistance = 2 // letters that may be wrong
	if like := c.SuggestionsFor(args[0]); len(like) > 0 {
		return fmt.Errorf("%w; did you mean %s?", found, strings.Join(like, " or "))
	}
	return found
}
