package view

import "testing"

// TestHeld: a rate that somebody may have typed is shown as that, one that was reckoned is not shown to the bit.
func TestHeld(t *testing.T) {
	t.Parallel()
	for bits, want := range map[uint64]string{0: "0bit", 204_800_000: "204800kbit", 50_000_000: "50mbit", 10_000_000_000: "10gbit", 347_826_086: "347.8mbit", 999: "999bit",
		1_001: "1.0kbit", 800_000_001: "800.0mbit"} {
		if got := Held(bits); got != want {
			t.Errorf("%d: %s, want %s", bits, got, want)
		}
	}
}
