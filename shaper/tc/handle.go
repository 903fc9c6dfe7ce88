package tc

import (
	"fmt"
	"strconv"
	"strings"
)

// Handle is a qdisc handle or a classid: 16 bits of major number, 16 of minor.
type Handle uint32

const (
	// Unspec is no handle. A qdisc with it was put there by the kernel itself.
	Unspec Handle = 0
	// Root is TC_H_ROOT, the parent of a root qdisc and, as read back, of a class without a parent class.
	Root Handle = 0xffffffff
)

// MakeHandle is major:minor.
func MakeHandle(major, minor uint16) Handle { return Handle(major)<<16 | Handle(minor) }

// Major is the number before the colon.
func (h Handle) Major() uint16 { return uint16(h >> 16) }

// Minor is the number behind the colon.
func (h Handle) Minor() uint16 { return uint16(h) }

// String is tc's way to write it: root, 1:, 1:10, in hexadecimal.
func (h Handle) String() string {
	switch {
	case h == Root:
		return "root"
	case h.Minor() == 0:
		return fmt.Sprintf("%x:", h.Major())
	}
	return fmt.Sprintf("%x:%x", h.Major(), h.Minor())
}

// ParseHandle reads root, 1: and 1:10.
func ParseHandle(s string) (Handle, error) {
	if s == "root" {
		return Root, nil
	}
	major, minor, ok := strings.Cut(s, ":")
	if !ok {
		return 0, fmt.Errorf("handle %q has no colon", s)
	}
	if major == "" && minor == "" {
		return 0, fmt.Errorf("handle %q has no number", s)
	}
	var parts [2]uint64
	for i, text := range []string{major, minor} {
		if text == "" {
			continue
		}
		v, err := strconv.ParseUint(text, 16, 16)
		if err != nil {
			return 0, fmt.Errorf("handle %q: %q is not a hexadecimal number of at most four digits", s, text)
		}
		parts[i] = v
	}
	return MakeHandle(uint16(parts[0]), uint16(parts[1])), nil
}

// U32Handle names a u32 object: 12 bits of hash table id, 8 of bucket, 12 of node.
type U32Handle uint32

// MakeU32Handle is table:bucket:node.
func MakeU32Handle(table, bucket, node uint32) U32Handle {
	return U32Handle(table<<20 | bucket<<12 | node)
}

// Table is the hash table's id; 0 stands for the root table of the filter's pref.
func (h U32Handle) Table() uint32 { return uint32(h) >> 20 }

// Bucket is the bucket in the table.
func (h U32Handle) Bucket() uint32 { return uint32(h) >> 12 & 0xff }

// Node is the place in the bucket: nodes are tried in ascending order.
func (h U32Handle) Node() uint32 { return uint32(h) & 0xfff }

// String is tc's way to write it: 800:, 800::1, 2:1f:3, ::1 for a node of the root table.
func (h U32Handle) String() string {
	part := func(v uint32) string {
		if v == 0 {
			return ""
		}
		return strconv.FormatUint(uint64(v), 16)
	}
	if h.Bucket() == 0 && h.Node() == 0 {
		return part(h.Table()) + ":"
	}
	return part(h.Table()) + ":" + part(h.Bucket()) + ":" + part(h.Node())
}
