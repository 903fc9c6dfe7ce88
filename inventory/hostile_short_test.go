//go:build !system

package inventory

// hostileSize is large enough that what grows with the square takes minutes; memory is what each byte may take from the heap.
const (
	hostileSize    = 128 << 10
	hostilePerByte = 260
)
