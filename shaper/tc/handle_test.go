package tc

import (
	"testing"

	"pgregory.net/rapid"
)

func TestHandle(t *testing.T) {
	for text, want := range map[string]Handle{
		"root": Root, "1:": 0x10000, "1:10": 0x10010, "1:0": 0x10000, "42:": 0x420000, "ffff:fff1": 0xfffffff1, "0:": 0, ":10": 0x10, "B010:": 0xb0100000,
	} {
		if got, err := ParseHandle(text); err != nil || got != want {
			t.Errorf("ParseHandle(%q) = %#x, %v, want %#x", text, uint32(got), err, uint32(want))
		}
	}
	for _, text := range []string{"", ":", "1", "10000:", "1:10000", "x:", "1:-1", "1:1:1", "0x1:", " 1:", "1_0:"} {
		if got, err := ParseHandle(text); err == nil {
			t.Errorf("ParseHandle(%q) = %s, want an error", text, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		h := Handle(rapid.Uint32().Draw(t, "handle"))
		if got, err := ParseHandle(h.String()); err != nil || got != h || MakeHandle(h.Major(), h.Minor()) != h {
			t.Fatalf("%#x prints as %s, which reads as %#x, %v", uint32(h), h, uint32(got), err)
		}
	})
}

func TestU32Handle(t *testing.T) {
	for handle, want := range map[U32Handle]string{
		MakeU32Handle(0x800, 0, 0): "800:", MakeU32Handle(0x800, 0, 1): "800::1", MakeU32Handle(2, 0x1f, 3): "2:1f:3",
		MakeU32Handle(0, 0, 0xfa0): "::fa0", MakeU32Handle(2, 0x1f, 0): "2:1f:", 0: ":", MakeU32Handle(0xfff, 0xff, 0xfff): "fff:ff:fff",
	} {
		if got := handle.String(); got != want {
			t.Errorf("U32Handle(%#x).String() = %q, want %q", uint32(handle), got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		h := U32Handle(rapid.Uint32().Draw(t, "handle"))
		if MakeU32Handle(h.Table(), h.Bucket(), h.Node()) != h {
			t.Fatalf("%#x falls apart into %x, %x, %x", uint32(h), h.Table(), h.Bucket(), h.Node())
		}
	})
}

// TestLeafHandle: every class that a config may have gets a leaf handle of its own, which is a valid handle and not the root's.
func TestLeafHandle(t *testing.T) {
	seen := map[Handle]int{}
	for minor := range 1 << 16 {
		h := LeafHandle(uint16(minor))
		if other, ok := seen[h]; ok {
			t.Fatalf("1:%x and 1:%x have one leaf handle %s", other, minor, h)
		}
		seen[h] = minor
		bad := h.Major() == 0 || h.Major() == Major || h.Major() == 0xffff || h.Minor() != 0
		if bad && !ReservedMinor(uint16(minor)) {
			t.Errorf("1:%x may be used and has leaf %s", minor, h)
		}
	}
	for _, minor := range []uint16{0, 0xb000, 0xb001, 0x4fff, ControlMinor} {
		if !ReservedMinor(minor) {
			t.Errorf("1:%x is not reserved", minor)
		}
	}
	for minor, want := range map[uint16]string{0x10: "b010:", 0x100: "b100:", ControlMinor: "4fff:"} {
		if got := LeafHandle(minor).String(); got != want {
			t.Errorf("LeafHandle(%#x) = %s, want %s", minor, got, want)
		}
	}
}
