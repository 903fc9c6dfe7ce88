package screen

import (
	"fmt"
	"strconv"
	"time"
)

// Until is a time to come, with how far off it is.
func Until(until, now time.Time) string {
	return fmt.Sprintf("%s (%s from now)", until.Local().Format(time.DateTime), until.Sub(now).Round(time.Second))
}

// Rate is bits per second in tc's units with one decimal.
func Rate(bits float64) string { return scaled(bits, 1000, "bit", "kbit", "mbit", "gbit", "tbit") }

// Bytes is a size with one decimal.
func Bytes(n uint64) string {
	return scaled(float64(n), 1024, "B", "KiB", "MiB", "GiB", "TiB", "PiB")
}

// Number is exact up to six digits, and has three of them beyond.
func Number(n uint64) string {
	if n < 1_000_000 {
		return strconv.FormatUint(n, 10)
	}
	v, unit := float64(n)/1e6, "M"
	for _, larger := range []string{"G", "T", "P"} {
		if v < 999.5 {
			break
		}
		v, unit = v/1000, larger
	}
	return fmt.Sprintf("%.*f%s", decimals(v), v, unit)
}

func decimals(v float64) int {
	switch {
	case v < 9.995:
		return 2
	case v < 99.95:
		return 1
	}
	return 0
}

// scaled is v with one decimal in the largest unit that keeps it over 1.
func scaled(v, step float64, units ...string) string {
	i := 0
	for v >= step && i < len(units)-1 {
		v, i = v/step, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%.0f%s", v, units[0])
	}
	return fmt.Sprintf("%.1f%s", v, units[i])
}

// Age is a time span as a person says it: 5 s, 3 min, 2 h 5 min, 4 d 3 h.
func Age(d time.Duration) string {
	switch {
	case d < time.Second:
		return "less than 1 s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 24*time.Hour:
		return two(int(d.Hours()), "h", int(d.Minutes())%60, "min")
	}
	return two(int(d.Hours())/24, "d", int(d.Hours())%24, "h")
}

func two(a int, unit string, b int, below string) string {
	if b == 0 {
		return fmt.Sprintf("%d %s", a, unit)
	}
	return fmt.Sprintf("%d %s %d %s", a, unit, b, below)
}

// Count is n of what, in words: 1 server, 3 servers, 2 classes.
func Count(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case len(what) > 1 && what[len(what)-2:] == "ss":
		return fmt.Sprintf("%d %ses", n, what)
	case len(what) > 1 && what[len(what)-2:] == "ch":
		return fmt.Sprintf("%d %ses", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// OrDash is s, or a dash for nothing.
func OrDash(s string) string { return or(s, "-") }

// OrUnknown is s, or the word unknown for nothing.
func OrUnknown(s string) string { return or(s, "unknown") }

func or(s, nothing string) string {
	if s == "" {
		return nothing
	}
	return s
}
