// Package config reads config.yaml and the flags into a checked Config: flags over the file over the packaged defaults.
//
// The file is read as a tree with places (yaml.go), not into structs: so all problems are told at once with line and column, an
// id keeps the digits as they were written, and an unknown key can be answered with the nearest known one. Settings that have
// a flag stand in one table (settings.go), from which the file, the flags and the reference config are fed and held together.
// What needs the link's speed or the inventory is checked in package policy.
//
// It imports inventory and tc.
package config
