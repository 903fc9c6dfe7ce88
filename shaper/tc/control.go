package tc

// ControlName is the name of the class for ARP and neighbour discovery, which the program adds to those of the config.
const ControlName = "control"

const (
	// Major is the major number of our tree: the root is 1:, the classes 1:N.
	Major = 1
	// ControlMinor is the minor number of the control class.
	ControlMinor = 0xffff
	// ControlClass is the control class, 1:ffff.
	ControlClass Handle = Major<<16 | ControlMinor

	leafMark = 0xb000
)

// LeafHandle is the handle of the qdisc below class 1:minor. It is how a tree is recognised as ours, across restarts and
// without a state file: 1:10 has b010:, 1:100 has b100:.
func LeafHandle(minor uint16) Handle { return MakeHandle(leafMark^minor, 0) }

// ReservedMinor tells which minor numbers a class of the config cannot have: 0 is the qdisc, ffff the control class, and the
// others would have a leaf with a handle of special meaning (0:, 1: and ffff:).
func ReservedMinor(minor uint16) bool {
	major := LeafHandle(minor).Major()
	return minor == 0 || minor == ControlMinor || major == 0 || major == Major || major == 0xffff
}
