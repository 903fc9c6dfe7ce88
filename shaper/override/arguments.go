package override

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"bulkshaper/shaper/config"
)

// Shortest and Longest bound how long an override lasts: a shorter one would hardly be seen, and one for longer than a week is a
// change of the config.
const (
	Shortest = time.Second
	Longest  = 7 * 24 * time.Hour
)

// ParseSettings reads rate=50mbit and ceil=100mbit, in any order; the rate must be there.
func ParseSettings(args []string) (rate, ceil config.Rate, err error) {
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok {
			return rate, ceil, fmt.Errorf("%q has no =; write it like rate=50mbit", arg)
		}
		var into *config.Rate
		switch key {
		case "rate":
			into = &rate
		case "ceil":
			into = &ceil
		default:
			near := config.Nearest(key, []string{"rate", "ceil"})
			if near == "" {
				near = "rate or ceil"
			}
			return rate, ceil, fmt.Errorf("%q: an override has no %q; did you mean %s?", arg, key, near)
		}
		if !into.IsZero() {
			return rate, ceil, fmt.Errorf("%q: %s is given twice", arg, key)
		}
		if *into, err = parseRate(value); err != nil {
			return rate, ceil, fmt.Errorf("%s: %w", key, err)
		}
	}
	if rate.IsZero() {
		return rate, ceil, errors.New("no rate is given; write it like rate=50mbit")
	}
	return rate, ceil, nil
}

// parseRate reads a rate in tc's units or in percent of the link.
func parseRate(text string) (config.Rate, error) {
	if strings.TrimSpace(text) == "" {
		return config.Rate{}, errors.New("no rate is given; write it like 50mbit")
	}
	return config.ParseRate(text)
}

// ParseLength reads how long an override lasts: 30m, 2h, 1h30m.
func ParseLength(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	switch _, e := strconv.ParseFloat(text, 64); {
	case text == "":
		return 0, errors.New("no length is given; an override has an end: write --for 30m")
	case e == nil:
		return 0, fmt.Errorf("%q has no unit; write %sm for minutes or %sh for hours", text, text, text)
	case err != nil:
		return 0, fmt.Errorf("%q is no length of time; write it like 30m, 2h or 1h30m", text)
	case d < Shortest:
		return 0, fmt.Errorf("%q is shorter than %s; write it like 30m", text, Shortest)
	case d > Longest:
		return 0, fmt.Errorf("%q is longer than %d days; for that long, edit the rate in the config", text, Longest/(24*time.Hour))
	}
	return d, nil
}
