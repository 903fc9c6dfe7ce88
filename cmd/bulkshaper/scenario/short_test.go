//go:build !system

package scenario

import "time"

const (
	system = false
	// patience is how long a condition is waited for. Nothing takes so long but on a machine that has much else to do.
	patience = 30 * time.Second
)
