package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bulkshaper/shaper/config"
)

// hideUnused takes those flags out of a command's help that make no difference to it, such as the daemon's times to a command that does one
// thing. They are taken all the same: a script may give all commands the same ones.
func hideUnused(root *cobra.Command) {
	place := []string{"interface", "run-dir", "allow-writable-by-others"}
	planning := append([]string{"node", "link-rate", "roles", "servers", "default-class", "ack-class", "layout"}, place...)
	changing := append([]string{"takeover"}, planning...)
	used := map[string][]string{ // of the keys of the config; who is not here, as run and check, uses all
		"plan": changing, "apply": changing,
		"explain": planning, "status": planning, "override": planning, "override list": planning, "override clear": planning,
		"clear": place, "confirm": place, "history": place,
	}
	var hide func(*cobra.Command)
	hide = func(c *cobra.Command) {
		if use, limited := used[strings.TrimPrefix(c.CommandPath(), root.Name()+" ")]; limited {
			for _, key := range config.Keys() {
				if f := c.Flags().Lookup(key.Flag); f != nil && !slices.Contains(use, key.Flag) {
					f.Hidden = true
				}
			}
		}
		for _, below := range c.Commands() {
			hide(below)
		}
	}
	hide(root)
}
