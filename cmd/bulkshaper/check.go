package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"bulkshaper/inventory"
)

func checkCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "check",
		Short: "Read config and inventory and print every problem; needs no privilege",
		Long: `Reads config and inventory as the daemon would and prints every problem with its place and a remedy. Warnings do not make
the exit code 2; errors do. The interface is not looked at.`,
		Example: "  bulkshaper check --roles roles.json --servers jsons/",
		Args:    cobra.NoArgs,
	}
	flags := addInputFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		input, _, err := flags.load(c.Context())
		var problems inventory.Problems
		if errors.As(err, &problems) {
			for _, p := range problems {
				fmt.Fprintf(c.OutOrStdout(), "error: %s\n", p)
			}
			return &codedError{exitWrong, fmt.Errorf("%s", count(len(problems), "error"))}
		}
		if err != nil {
			return err
		}
		for _, w := range input.Inventory.Warnings {
			fmt.Fprintf(c.OutOrStdout(), "warning: %s\n", w)
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "ok: %s, %s, %s\n", count(len(input.Inventory.Servers), "server"),
			count(len(input.Inventory.Roles), "role"), count(len(input.Inventory.Warnings), "warning"))
		return err
	}
	return c
}

// count is n of what, in words: 1 server, 3 servers.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if what == "class" {
		what += "e"
	}
	return fmt.Sprintf("%d %ss", n, what)
}
