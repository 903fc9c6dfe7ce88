//go:build system

package hitless

// How much is run: 1,000 changes, a cut after each operation.
const (
	changes     = 1000
	cutStride   = 1
	kills       = 60
	inventories = 8
	prefixes    = 1000
	most        = 1
)
