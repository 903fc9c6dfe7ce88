package config

import (
	_ "embed"
	"slices"
)

//go:embed reference.yaml
var reference []byte // a constant but for the language

// Reference is the manual: a config file with every key, its default and what it does.
func Reference() []byte { return slices.Clone(reference) }
