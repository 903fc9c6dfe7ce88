//go:build system

package scenario

import "time"

const (
	system = true
	// patience is longer here than in the short form, since a fight that goes on for longer has repairs wait for longer: up to a minute.
	patience = 2 * time.Minute
)
