package main

import (
	"github.com/spf13/cobra"

	"bulkshaper/shaper/config"
)

// completeWith gives a shell the words that a flag of c may have.
func completeWith(c *cobra.Command, flag string, known ...string) {
	// The error is that of a flag that is not there, or has its words already: then there are none to complete.
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(known, cobra.ShellCompDirectiveNoFileComp))
}

// classNames are the names of the config's classes, for a shell to complete, as far as the config can be read.
func (f *inputFlags) classNames(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	path, overrides, err := f.where()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, c := range config.Salvage(path, overrides).Config.Classes {
		names = append(names, c.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// noFileNames keeps a shell from offering the files of the folder as arguments of commands: none takes any.
func noFileNames(c *cobra.Command) {
	for _, below := range c.Commands() {
		noFileNames(below)
	}
	if c.ValidArgsFunction == nil && len(c.ValidArgs) == 0 && !c.HasSubCommands() {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
}
