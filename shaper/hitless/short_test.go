//go:build !system

package hitless

// How much is run: enough to meet each kind of change in a few seconds.
const (
	changes     = 60   // of the inventory, under traffic
	cutStride   = 41   // between the operations after which a run is cut
	kills       = 4    // of a process at work, for each pair of plans
	inventories = 6    // of the differential test
	prefixes    = 90   // of each of them
	most        = 0.25 // share of the random neighbours that a network gets at once
)
