package tc

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bulkshaper/inventory/bound"
)

func TestParseBitRate(t *testing.T) {
	for _, test := range []struct {
		text string
		want BitRate
	}{
		{"8bit", 8}, {"9bit", 9}, {"1kbit", 1e3}, {"1mbit", 1e6}, {"1gbit", 1e9}, {"1tbit", 1e12},
		{"1kibit", 1 << 10}, {"1mibit", 1 << 20}, {"1gibit", 1 << 30}, {"1tibit", 1 << 40},
		{"1bps", 8}, {"1kbps", 8e3}, {"1mbps", 8e6}, {"1gbps", 8e9}, {"1tbps", 8e12},
		{"1kibps", 8 << 10}, {"1mibps", 8 << 20}, {"1gibps", 8 << 30}, {"1tibps", 8 << 40},
		{"819200kbit", 819_200_000}, {"819200Kbit", 819_200_000}, {" 10 Gbit ", 1e10}, {"1.5gbit", 1_500_000_000},
		{"0.1kbit", 100}, {"100Mbps", 800_000_000}, {"100tbit", MaxBitRate}, {"1.mbit", 1e6},
	} {
		if got, err := ParseBitRate(test.text); err != nil || got != test.want {
			t.Errorf("ParseBitRate(%q) = %d, %v, want %d", test.text, got, err, test.want)
		}
	}
}

func TestParseBitRateRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"100":                            "has no unit; write 100mbit or 100kbit",
		"1.5":                            "has no unit",
		"":                               "is not a number with one of tc's units",
		"mbit":                           "is not a decimal number",
		"fast":                           "is not a number with one of tc's units",
		"inf":                            "is not a number with one of tc's units",
		"nanmbit":                        "is not a decimal number",
		"-1mbit":                         "is not a decimal number",
		"+1mbit":                         "is not a decimal number",
		"1e3kbit":                        "is not a decimal number",
		"0x10kbit":                       "is not a decimal number",
		"1_000kbit":                      "is not a decimal number",
		"1,5mbit":                        "is not a decimal number",
		"1.2.3mbit":                      "is not a decimal number",
		"0mbit":                          "is not between 8bit and 100tbit",
		"7bit":                           "is not between 8bit and 100tbit",
		"101tbit":                        "is not between 8bit and 100tbit",
		"100mb":                          "is not a number with one of tc's units",
		"100mbit/s":                      "is not a number with one of tc's units",
		"20%":                            "is not a number with one of tc's units",
		"1 0mbit":                        "is not a decimal number",
		"99999999999999999999999999tbit": "is too large",
		"0.00000000000000000000000000000000000000000001tbit": "is not a decimal number",
	} {
		if got, err := ParseBitRate(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseBitRate(%q) = %d, %v, want an error with %q", text, got, err, want)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]Bytes{
		"0": 0, "1600": 1600, "1600b": 1600, "64k": 65536, "64kb": 65536, "64KB": 65536, "64 kb": 65536, "1.5kb": 1536,
		"1m": 1 << 20, "1mb": 1 << 20, "1g": 1 << 30, "1gb": 1 << 30, "8kbit": 1024, "8mbit": 1 << 20, "8gbit": 1 << 30,
		"4294967295": math.MaxUint32,
	} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("ParseBytes(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "is not a number of bytes", "b": "is not a number of bytes", "many": "is not a number of bytes",
		"-1": "is not a decimal number", "1e3": "is not a decimal number", "1tb": "is not a number of bytes",
		"4294967296": "is over 4 GiB", "4gb": "is over 4 GiB", "0x10": "is not a decimal number",
	} {
		if got, err := ParseBytes(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseBytes(%q) = %d, %v, want an error with %q", text, got, err, want)
		}
	}
}

func TestBitRateString(t *testing.T) {
	for rate, want := range map[BitRate]string{
		0: "0bit", 9: "9bit", 1000: "1kbit", 819_200_000: "819200kbit", 1e10: "10gbit", 1e12: "1tbit", 1e15: "1000tbit", 1_234_567: "1234567bit",
	} {
		if got := rate.String(); got != want {
			t.Errorf("BitRate(%d).String() = %q, want %q", uint64(rate), got, want)
		}
	}
}

// TestTicksAgainstBig holds TicksOf and BytesAt against the same arithmetic without limits.
func TestTicksAgainstBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Bytes(rapid.Uint64Range(0, math.MaxUint32).Draw(t, "bytes"))
		r := BitRate(rapid.Uint64Range(8, uint64(MaxBitRate)).Draw(t, "rate")).WholeBytes()
		rate := new(big.Int).SetUint64(r.BytesPerSecond())
		want := new(big.Int).Mul(new(big.Int).SetUint64(uint64(b)), big.NewInt(15_625_000))
		want.Add(want, new(big.Int).Sub(rate, big.NewInt(1))).Div(want, rate)
		if !want.IsUint64() || want.Uint64() > math.MaxUint32 {
			want.SetUint64(math.MaxUint32)
		}
		ticks := TicksOf(b, r)
		if uint64(ticks) != want.Uint64() {
			t.Fatalf("TicksOf(%d, %s) = %d, want %s", b, r, ticks, want)
		}
		back := ticks.BytesAt(r)
		if ticks < math.MaxUint32 && back < b {
			t.Fatalf("%d bytes at %s are %d ticks, which hold only %d bytes", b, r, ticks, back)
		}
		if again := TicksOf(back, r); again != ticks && ticks < math.MaxUint32 {
			t.Fatalf("%d ticks at %s print as %d bytes, which are %d ticks", ticks, r, back, again)
		}
	})
}

func TestTicksLimits(t *testing.T) {
	if got := TicksOf(1, 0); got != math.MaxUint32 {
		t.Errorf("TicksOf at no rate = %d", got)
	}
	if got := TicksOf(1600, 400e9); got != 1 {
		t.Errorf("TicksOf(1600, 400gbit) = %d, want 1: a burst is never cut to nothing", got)
	}
	if got := TicksOf(math.MaxUint64, 8); got != math.MaxUint32 {
		t.Errorf("TicksOf of the largest size = %d", got)
	}
	if got := Ticks(math.MaxUint32).BytesAt(math.MaxUint64); got != math.MaxUint64 {
		t.Errorf("BytesAt of the largest rate = %d, want the largest size", got)
	}
	if got := TicksOf(65536, 819_200_000); got != 10000 || got.BytesAt(819_200_000) != 65536 {
		t.Errorf("64 KiB at 819200kbit are %d ticks, %d bytes", got, got.BytesAt(819_200_000))
	}
}

// FuzzParseBitRate: what is accepted is the number times the unit, exactly, and is read again from how it is printed.
//
// PROMISES.md: Any bytes are in the files, in flags or in what the kernel answers
func FuzzParseBitRate(f *testing.F) {
	for _, u := range rateUnits {
		f.Add("1.5" + u.suffix)
	}
	for _, text := range []string{"100", "mbit", "1e3bit", "-1bit", "0.0000001tbit", "١kbit", "1_000bit", "1..5kbit", strings.Repeat("9", 5000) + "bit"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var r BitRate
		var err error
		bound.Check(t, len(text), memoryPerByte, func() { r, err = ParseBitRate(text) })
		if err != nil {
			refused(t, err)
			return
		}
		if r < 8 || r > MaxBitRate {
			t.Fatalf("ParseBitRate(%q) = %d is out of bounds", text, uint64(r))
		}
		for _, u := range rateUnits {
			if number, ok := strings.CutSuffix(strings.ToLower(strings.TrimSpace(text)), u.suffix); ok {
				if want := product(t, number, u.bits); want != uint64(r) {
					t.Fatalf("ParseBitRate(%q) = %d, want %d", text, uint64(r), want)
				}
				break
			}
		}
		if again, err := ParseBitRate(r.String()); err != nil || again != r {
			t.Fatalf("%q is %s, which reads as %s, %v", text, r, again, err)
		}
	})
}

// memoryPerByte is what a number may take from the heap for each byte of it.
const memoryPerByte = 1000

// product is number x unit without the fraction, by other means than the parser's.
func product(t *testing.T, number string, unit uint64) uint64 {
	t.Helper()
	v, ok := new(big.Rat).SetString(strings.TrimSpace(number))
	if !ok {
		t.Fatalf("%q was accepted and is no number", number)
	}
	v.Mul(v, new(big.Rat).SetInt(new(big.Int).SetUint64(unit)))
	return new(big.Int).Quo(v.Num(), v.Denom()).Uint64()
}

// refused wants an error that says what to do.
func refused(t *testing.T, err error) {
	t.Helper()
	if _, remedy, _ := strings.Cut(err.Error(), "; "); remedy == "" {
		t.Fatalf("%q has no remedy", err)
	}
}

// FuzzParseBytes: likewise.
//
// PROMISES.md: Any bytes are in the files, in flags or in what the kernel answers
func FuzzParseBytes(f *testing.F) {
	for _, u := range sizeUnits {
		f.Add("1.5" + u.suffix)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var b Bytes
		var err error
		bound.Check(t, len(text), memoryPerByte, func() { b, err = ParseBytes(text) })
		switch {
		case err != nil:
			refused(t, err)
		case b > math.MaxUint32:
			t.Fatalf("ParseBytes(%q) = %d is over 32 bits", text, b)
		default:
			if again, err := ParseBytes(strconv.FormatUint(uint64(b), 10)); err != nil || again != b {
				t.Fatalf("%q is %d, which reads as %d, %v", text, b, again, err)
			}
		}
	})
}
