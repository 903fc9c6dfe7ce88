//go:build system

package inventory

// hostileSize is just what is still read.
const (
	hostileSize    = MaxFileSize - 200
	hostilePerByte = 260
)
