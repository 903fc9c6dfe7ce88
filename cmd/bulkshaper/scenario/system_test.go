//go:build system

package scenario

const system = true
