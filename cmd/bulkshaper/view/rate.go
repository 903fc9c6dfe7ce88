package view

import (
	"bulkshaper/cmd/bulkshaper/screen"
	"bulkshaper/shaper/tc"
)

// Held is a configured rate, bits per second, to be read: exact where that is whole kilobits, 204800kbit as it may have been typed, else with
// one decimal: of a share of a link 347.8mbit says more than 347826086bit.
func Held(bits uint64) string {
	if bits%1000 == 0 {
		return tc.BitRate(bits).String()
	}
	return screen.Rate(float64(bits))
}
