package main

import (
	"strings"

	"github.com/spf13/pflag"

	"bulkshaper/shaper/config"
)

// keyFlags are the flags that stand for keys of the config; those given win over the file.
type keyFlags struct {
	set    *pflag.FlagSet
	single map[string]*string
	lists  map[string]*[]string
	bools  map[string]*bool
}

// addKeyFlags adds a flag for each key that a person would type. They may be written with - or with _ as in the file.
func addKeyFlags(set *pflag.FlagSet) *keyFlags {
	f := &keyFlags{set: set, single: map[string]*string{}, lists: map[string]*[]string{}, bools: map[string]*bool{}}
	set.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	for _, k := range config.Keys() {
		usage := k.Usage
		if k.Default != "" && k.Default != "false" {
			usage += " (default " + k.Default + ")"
		}
		switch k.Kind {
		case config.Paths:
			f.lists[k.Flag] = set.StringSlice(k.Flag, nil, usage)
		case config.Bool:
			f.bools[k.Flag] = set.Bool(k.Flag, false, usage)
		default:
			f.single[k.Flag] = set.String(k.Flag, "", usage)
		}
	}
	return f
}

// overrides are the flags that were given.
func (f *keyFlags) overrides() (config.Overrides, error) {
	var o config.Overrides
	for _, k := range config.Keys() {
		if !f.set.Changed(k.Flag) {
			continue
		}
		var values []string
		switch k.Kind {
		case config.Paths:
			values = *f.lists[k.Flag]
		case config.Bool:
			values = []string{"false"}
			if *f.bools[k.Flag] {
				values = []string{"true"}
			}
		default:
			values = []string{*f.single[k.Flag]}
		}
		if err := o.Set(k.Flag, values...); err != nil {
			return o, err
		}
	}
	return o, nil
}
