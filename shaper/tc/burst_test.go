package tc

import (
	"testing"

	"pgregory.net/rapid"
)

// TestBurstTicks: sizes that tc's default burst of 1600 bytes was shown as, and made of, at the rates of the incident; what we choose
// ourselves; and the ends of the range.
func TestBurstTicks(t *testing.T) {
	for _, test := range []struct {
		size  Bytes
		rate  BitRate
		ticks Ticks
		shown Bytes
		line  Bytes
	}{
		{1433, 819_200_000, 234, 1433, 1536},
		{1533, 819_200_000, 234, 1433, 1536},
		{1561, 204_800_000, 968, 1561, 1588},
		{1585, 204_800_000, 968, 1561, 1588},
		{64 << 10, 204_800_000, 40_000, 64 << 10, 64 << 10},
		{64 << 10, 200_000_000, 41_000, 65_600, 65_600},
		{64 << 10, 500_000_000, 16_500, 66_000, 66_000},
		{102_400, 819_200_000, 15_625, 102_400, 102_400},
		{64 << 10, 1_000_000, 8_192_000, 64 << 10, 64 << 10},
		{50_000_000, 400_000_000_000, 15_625, 50_000_000, 50_000_000},
		{1600, 40_000_000_000, 15, 0, 5000}, // tc alone makes this 0
		{64 << 10, 8, 4_281_250_000, 274, 274},
	} {
		got := BurstTicks(test.size, test.rate)
		if shown := shownByTC(got, test.rate); got != test.ticks || shown != test.shown || got.forTC(test.rate) != test.line {
			t.Errorf("%d bytes at %s are %d ticks, shown as %d, made by %d; want %d, %d, %d",
				test.size, test.rate, got, shown, got.forTC(test.rate), test.ticks, test.shown, test.line)
		}
	}
}

// TestBurstTicksProperties: never less than was asked, little more, and what tc makes of our line is the same.
func TestBurstTicksProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Bytes(rapid.Uint64Range(1, 1<<30).Draw(t, "bytes"))
		r := BitRate(rapid.Uint64Range(8, uint64(MaxBitRate)).Draw(t, "rate")).WholeBytes()
		exact, got := TicksOf(b, r), BurstTicks(b, r)
		if most := mostTicks(r); got < min(exact, most) || got > most || uint64(got) > uint64(exact)+max(exactTicks, uint64(TicksOf(2, r))) {
			t.Fatalf("%d bytes at %s are %d ticks, sent as %d", b, r, exact, got)
		}
		if made, ok := ticksByTC(got.forTC(r), r); !ok || made != got {
			t.Fatalf("%d bytes at %s are %d ticks, of which tc makes %d by burst %db", b, r, got, made, got.forTC(r))
		}
		if shown := shownByTC(got, r); exact >= longBurst && got < mostTicks(r) && r >= microsecondRate && shown < b {
			t.Fatalf("%d bytes at %s are shown as %d", b, r, shown)
		}
	})
}
