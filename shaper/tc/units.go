package tc

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"strings"
)

// BitRate is a rate in bits per second. The kernel counts in whole bytes per second, so a rate on its way to the kernel
// is cut to a multiple of eight by WholeBytes.
type BitRate uint64

// Bytes is a size in bytes: of a burst, a quantum, a queue.
type Bytes uint64

// Ticks is a time in the kernel's packet scheduler ticks of 64 ns (PSCHED_SHIFT 6, see /proc/net/psched). HTB keeps burst
// and cburst as the time they take at the class's rate, so these are what is sent, read back and compared.
type Ticks uint32

// ticksPerSecond is 1e9 ns / 64 ns.
const ticksPerSecond = 15_625_000

// MaxBitRate is the largest rate that is accepted: 100 Tbit/s, far above any link and far below overflow.
const MaxBitRate BitRate = 100_000_000_000_000

// BytesPerSecond is the rate as the kernel takes it.
func (r BitRate) BytesPerSecond() uint64 { return uint64(r) / 8 }

// WholeBytes is r cut to whole bytes per second: the rate that comes back from the kernel.
func (r BitRate) WholeBytes() BitRate { return r &^ 7 }

// String prints r in tc's units without losing a bit: 819200kbit, 10gbit.
func (r BitRate) String() string {
	units := []string{"bit", "kbit", "mbit", "gbit", "tbit"}
	v, i := uint64(r), 0
	for i < len(units)-1 && v != 0 && v%1000 == 0 {
		v, i = v/1000, i+1
	}
	return strconv.FormatUint(v, 10) + units[i]
}

// rateUnits are the suffixes of tc's get_rate64 (man tc, PARAMETERS), each in bits per second. bps and its relatives are
// bytes per second, as in tc.
var rateUnits = []struct {
	suffix string
	bits   uint64
}{
	{"kibit", 1 << 10}, {"mibit", 1 << 20}, {"gibit", 1 << 30}, {"tibit", 1 << 40},
	{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {"tbit", 1e12}, {"bit", 1},
	{"kibps", 8 << 10}, {"mibps", 8 << 20}, {"gibps", 8 << 30}, {"tibps", 8 << 40},
	{"kbps", 8e3}, {"mbps", 8e6}, {"gbps", 8e9}, {"tbps", 8e12}, {"bps", 8},
}

// ParseBitRate reads a rate in tc's units: 819200kbit, 1.5gbit, 100mbps (bytes). A number without a unit is an error,
// and so is a rate of less than 8 bit/s (nothing would ever be sent) or more than MaxBitRate.
func ParseBitRate(s string) (BitRate, error) {
	text := strings.ToLower(strings.TrimSpace(s))
	for _, u := range rateUnits {
		number, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		v, err := parseDecimal(strings.TrimSpace(number), u.bits)
		if err != nil {
			return 0, fmt.Errorf("rate %q: %w", s, err)
		}
		if v < 8 || v > uint64(MaxBitRate) {
			return 0, fmt.Errorf("rate %q is not between 8bit and %s; choose another", s, MaxBitRate)
		}
		return BitRate(v), nil
	}
	if _, err := parseDecimal(text, 1); err == nil {
		return 0, fmt.Errorf("rate %q has no unit; write %smbit or %skbit (units are tc's: bit kbit mbit gbit tbit, kibit ..., bps kbps ... are bytes)", s, text, text)
	}
	return 0, fmt.Errorf("rate %q is not a number with one of tc's units; those are bit kbit mbit gbit tbit, kibit mibit gibit tibit, and bps kbps mbps gbps tbps, which are bytes", s)
}

// sizeUnits are the suffixes of tc's get_size, in bytes. kb, mb and gb are binary there, and so they are here.
var sizeUnits = []struct {
	suffix string
	bytes  uint64
}{
	{"kbit", 1 << 10 / 8}, {"mbit", 1 << 20 / 8}, {"gbit", 1 << 30 / 8},
	{"kb", 1 << 10}, {"mb", 1 << 20}, {"gb", 1 << 30}, {"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"b", 1}, {"", 1},
}

// ParseBytes reads a size in tc's units: 64kb, 1600b, 1600.
func ParseBytes(s string) (Bytes, error) {
	text := strings.ToLower(strings.TrimSpace(s))
	for _, u := range sizeUnits {
		number, ok := strings.CutSuffix(text, u.suffix)
		number = strings.TrimSpace(number)
		if !ok || number == "" || number[len(number)-1] > '9' {
			continue
		}
		v, err := parseDecimal(number, u.bytes)
		if err != nil {
			return 0, fmt.Errorf("size %q: %w", s, err)
		}
		if v > math.MaxUint32 {
			return 0, fmt.Errorf("size %q is over 4 GiB; choose a smaller one", s)
		}
		return Bytes(v), nil
	}
	return 0, fmt.Errorf("size %q is not a number of bytes; write 65536, 64kb or 1mb", s)
}

// parseDecimal is number x unit, exactly, cut to a whole number. Signs, exponents and hexadecimal are refused.
func parseDecimal(number string, unit uint64) (uint64, error) {
	whole, fraction, _ := strings.Cut(number, ".")
	if whole == "" || strings.Trim(whole+fraction, "0123456789") != "" || len(number) > 40 {
		return 0, fmt.Errorf("%q is not a decimal number; write one like 1.5", number)
	}
	scaled, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok {
		return 0, fmt.Errorf("%q is not a decimal number; write one like 1.5", number)
	}
	scaled.Mul(scaled, new(big.Int).SetUint64(unit))
	scaled.Div(scaled, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(len(fraction))), nil))
	if !scaled.IsUint64() {
		return 0, fmt.Errorf("%q is too large; choose a smaller one", number)
	}
	return scaled.Uint64(), nil
}

// TicksOf is how long b takes at r, rounded up so that the bucket never holds less than b: tc and the libraries cut to whole
// microseconds, which makes the burst of a fast class 0. It stays within 32 bits (274 s).
func TicksOf(b Bytes, r BitRate) Ticks {
	rate := r.BytesPerSecond()
	if rate == 0 {
		return math.MaxUint32
	}
	hi, lo := bits.Mul64(uint64(b), ticksPerSecond)
	if hi >= rate {
		return math.MaxUint32
	}
	q, rem := bits.Div64(hi, lo, rate)
	if rem > 0 {
		q++
	}
	return Ticks(min(q, math.MaxUint32))
}

// BytesAt is how many bytes t is at r, cut to a whole byte. Rates that no link has (a class of somebody else's may be given any)
// end at the largest number of bytes.
func (t Ticks) BytesAt(r BitRate) Bytes {
	hi, lo := bits.Mul64(uint64(t), r.BytesPerSecond())
	if hi >= ticksPerSecond {
		return math.MaxUint64
	}
	q, _ := bits.Div64(hi, lo, ticksPerSecond)
	return Bytes(q)
}
