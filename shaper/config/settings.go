package config

import (
	"errors"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"bulkshaper/shaper/tc"
)

// KeyKind says how the value of a key is written.
type KeyKind uint8

const (
	// Text is a single value.
	Text KeyKind = iota
	// Path is a file or folder: in the file relative to the file's own folder, in a flag to the working directory.
	Path
	// Paths is a list of glob patterns, each a Path.
	Paths
	// Bool is true or false.
	Bool
)

// Key is a setting that has both a key in the file and a flag.
type Key struct {
	Flag    string // without the dashes: link-rate
	YAML    string // with dots: inventory.max_shrink
	Usage   string // a line for --help
	Default string // as it would be written; lists with commas
	Kind    KeyKind
}

// Keys are all settings with a flag, in the order of the reference config.
func Keys() []Key {
	defaults := Default()
	var keys []Key
	for _, s := range settings() {
		s.Default = s.get(defaults)
		keys = append(keys, s.Key)
	}
	return keys
}

// Overrides are the settings given as flags, as they were typed. The zero value gives none.
type Overrides struct {
	given map[string][]string
}

// Set gives the setting whose flag has that name, a list in several values. The values are checked by Parse.
func (o *Overrides) Set(flag string, values ...string) error {
	for _, s := range settings() {
		if s.Flag == flag {
			if s.Kind != Paths && len(values) != 1 {
				return fmt.Errorf("set --%s: %d values, not one", flag, len(values))
			}
			if o.given == nil {
				o.given = map[string][]string{}
			}
			o.given[flag] = values
			return nil
		}
	}
	return fmt.Errorf("set --%s: the config has no such key", flag)
}

// Given tells whether the flag was set.
func (o Overrides) Given(flag string) bool {
	_, ok := o.given[flag]
	return ok
}

// on tells whether the flag, one of kind Bool, was set to true.
func (o Overrides) on(flag string) bool {
	values := o.given[flag]
	return len(values) == 1 && strings.EqualFold(values[0], "true")
}

// setting is a key with the way to its field. set gets one value, those of kind Paths any number.
type setting struct {
	Key
	set func(c *Config, values []string) error
	get func(c *Config) string
}

func settings() []setting {
	return []setting{
		text("interface", "interface", "the `interface` to shape", func(c *Config) *string { return &c.Interface }, checkInterface),
		text(nodeKey, "node", "this node's `name` in the inventory (default: the server with an address of the interface, then the host name)",
			func(c *Config) *string { return &c.Node }, nil),
		linkRate(),
		file("roles", "inventory.roles", "`file` with servers, roles and their mapping", func(c *Config) *string { return &c.Source.Roles }, checkGiven),
		servers(),
		maxShrink(),
		duration("debounce", "inventory.debounce", "how `long` the files must be quiet before they are read again",
			func(c *Config) *time.Duration { return &c.Debounce }, 0),
		duration("rescan", "inventory.rescan", "how `often` the files are read without a notification",
			func(c *Config) *time.Duration { return &c.Rescan }, shortestPeriod),
		text("default-class", "default_class", "the `class` of what no rule matches", func(c *Config) *string { return &c.DefaultClass }, checkGiven),
		text("ack-class", "ack_class", "the `class` of pure TCP acknowledgements, ahead of all rules (default: that of their destination)",
			func(c *Config) *string { return &c.AckClass }, nil),
		text("layout", "layout", "how the `filters` stand in the kernel: hash or list", func(c *Config) *string { return &c.Layout }, oneOf("hash", "list")),
		boolean("takeover", "takeover", "take over a root qdisc that somebody else made, in place where it can be ours, else by replacing it", func(c *Config) *bool { return &c.Takeover }),
		boolean(allowFlag, "allow_writable_by_others", "use config and inventory though others than root and this user may write them",
			func(c *Config) *bool { return &c.AllowWritableByOthers }),
		file("run-dir", "run_dir", "`folder` for what the program keeps while it runs", func(c *Config) *string { return &c.RunDir }, checkGiven),
		duration("resync", "resync", "how `often` the kernel is read back and repaired without a notification",
			func(c *Config) *time.Duration { return &c.Resync }, shortestPeriod),
		text("listen", "metrics.listen", "`address` of the HTTP server, empty for none", func(c *Config) *string { return &c.Listen }, checkListen),
		file("web-config", "metrics.web_config", "`file` with TLS and basic authentication for the HTTP server",
			func(c *Config) *string { return &c.WebConfig }, nil),
		text("log-level", "log.level", "least `level` that is logged: debug, info, warn or error", func(c *Config) *string { return &c.Log.Level },
			oneOf("debug", "info", "warn", "error")),
		text("log-format", "log.format", "log `format`: json, console, or auto for console on a terminal and json elsewhere",
			func(c *Config) *string { return &c.Log.Format }, oneOf("auto", "console", "json")),
	}
}

// shortestPeriod keeps a mistyped unit from making a busy loop.
const shortestPeriod = 100 * time.Millisecond

func text(flag, yaml, usage string, field func(*Config) *string, check func(string) error) setting {
	return setting{
		Key: Key{Flag: flag, YAML: yaml, Usage: usage},
		set: func(c *Config, values []string) error {
			v := strings.TrimSpace(values[0])
			if check != nil {
				if err := check(v); err != nil {
					return err
				}
			}
			*field(c) = v
			return nil
		},
		get: func(c *Config) string { return *field(c) },
	}
}

func file(flag, yaml, usage string, field func(*Config) *string, check func(string) error) setting {
	s := text(flag, yaml, usage, field, check)
	s.Kind = Path
	return s
}

func servers() setting {
	return setting{
		Key: Key{Flag: "servers", YAML: "inventory.servers", Kind: Paths, Usage: "`folders` or files with the servers' JSON, glob patterns"},
		set: func(c *Config, values []string) error {
			if len(values) == 0 {
				return fmt.Errorf("no folder is given; name the folders of the servers' JSON")
			}
			for _, v := range values {
				if strings.TrimSpace(v) == "" {
					return fmt.Errorf("a path is empty; name a folder of the servers' JSON")
				}
				if _, err := filepath.Match(v, ""); err != nil {
					return fmt.Errorf("%q is no glob pattern; close the bracket, or write a backslash before it", v)
				}
			}
			c.Source.Servers = slices.Clone(values)
			return nil
		},
		get: func(c *Config) string { return strings.Join(c.Source.Servers, ",") },
	}
}

func boolean(flag, yaml, usage string, field func(*Config) *bool) setting {
	return setting{
		Key: Key{Flag: flag, YAML: yaml, Kind: Bool, Usage: usage},
		set: func(c *Config, values []string) error {
			v := strings.ToLower(values[0])
			if v != "true" && v != "false" {
				return fmt.Errorf("%q is neither true nor false; write one of them", values[0])
			}
			*field(c) = v == "true"
			return nil
		},
		get: func(c *Config) string { return strconv.FormatBool(*field(c)) },
	}
}

func linkRate() setting {
	return setting{
		Key: Key{Flag: "link-rate", YAML: "link_rate", Usage: "`rate` that percentages are of (default: the interface's own speed)"},
		set: func(c *Config, values []string) (err error) {
			c.LinkRate = 0
			if v := strings.TrimSpace(values[0]); v != "" {
				c.LinkRate, err = tc.ParseBitRate(v)
			}
			return err
		},
		get: func(c *Config) string {
			if c.LinkRate == 0 {
				return ""
			}
			return c.LinkRate.String()
		},
	}
}

func maxShrink() setting {
	return setting{
		Key: Key{Flag: "max-shrink", YAML: "inventory.max_shrink", Usage: "largest `share` of the servers that a reload may lose"},
		set: func(c *Config, values []string) error {
			if v := strings.TrimSpace(values[0]); v == "0%" || v == "0" {
				c.MaxShrink = 0
				return nil
			}
			percent, err := parsePercent(values[0])
			if errors.Is(err, errNoShare) {
				return fmt.Errorf("%q is not from 0%% to 100%%; choose another", values[0])
			}
			if err != nil {
				return err
			}
			c.MaxShrink = percentToFraction(percent)
			return nil
		},
		get: func(c *Config) string { return fractionPercent(c.MaxShrink) },
	}
}

func duration(flag, yaml, usage string, field func(*Config) *time.Duration, least time.Duration) setting {
	return setting{
		Key: Key{Flag: flag, YAML: yaml, Usage: usage},
		set: func(c *Config, values []string) error {
			v := strings.TrimSpace(values[0])
			d, err := time.ParseDuration(v)
			if _, e := strconv.ParseFloat(v, 64); e == nil && v != "0" { // nothing is nothing in any unit
				return fmt.Errorf("%q has no unit; write %ss or %sms", v, v, v)
			}
			if err != nil {
				return fmt.Errorf("%q is no duration; write it like 30s, 200ms or 1m30s", v)
			}
			if d < least {
				return fmt.Errorf("%s is less than %s; choose a longer time", d, least)
			}
			*field(c) = d
			return nil
		},
		get: func(c *Config) string { return shortDuration(*field(c)) },
	}
}

// shortDuration is 1m30s, and 1m for what Duration prints as 1m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func checkGiven(v string) error {
	if v == "" {
		return fmt.Errorf("nothing is given; leave the key out for the default")
	}
	return nil
}

// checkInterface follows dev_valid_name (net/core/dev.c). Whether it was given at all is asked later, when flags have been seen.
func checkInterface(v string) error {
	switch {
	case v == "":
		return nil
	case v == "." || v == "..":
		return fmt.Errorf("%q is no interface name; see `ip link`", v)
	case len(v) > 15:
		return fmt.Errorf("%q is no interface name: it has more than 15 bytes; see `ip link`", v)
	case strings.ContainsAny(v, "/: \t\r\n\v\f"):
		return fmt.Errorf("%q is no interface name: it has a slash, a colon or a blank; see `ip link`", v)
	}
	return nil
}

func checkListen(v string) error {
	if v == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(v)
	if err != nil {
		if _, e := strconv.ParseUint(v, 10, 16); e == nil {
			return fmt.Errorf("%q has no colon; write \":%s\"", v, v)
		}
		return fmt.Errorf("%q is no address; write \":9825\", \"10.0.0.1:9825\" or \"[2001:db8::1]:9825\"", v)
	}
	if strings.ContainsAny(host, " /@") {
		return fmt.Errorf("%q is no address: the host %q is no name; write \":9825\" or \"10.0.0.1:9825\"", v, host)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q is no address: the port %q is no number up to 65535; write one, as in \":9825\"", v, port)
	}
	return nil
}

func oneOf(known ...string) func(string) error {
	return func(v string) error {
		if slices.Contains(known, v) {
			return nil
		}
		return fmt.Errorf("%q is unknown; %s", v, didYouMean(v, known))
	}
}

var errNoShare = errors.New("is not over 0% and up to 100%")

// parsePercent reads 80% or 12.5%, over 0 and up to 100.
func parsePercent(s string) (float64, error) {
	number, ok := strings.CutSuffix(strings.TrimSpace(s), "%")
	if !ok {
		return 0, fmt.Errorf("%q has no percent sign; write it like 50%%", s)
	}
	number = strings.TrimSpace(number)
	const longest = 12 // digits and point
	if number == "" || len(number) > longest || strings.Trim(number, "0123456789.") != "" {
		return 0, fmt.Errorf("%q is no percentage; write it like 50%% or 12.5%%", s)
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || len(strconv.FormatFloat(v, 'f', -1, 64)) > longest { // .00000000001 is longer than it is written
		return 0, fmt.Errorf("%q is no percentage; write it like 50%% or 12.5%%", s)
	}
	if v <= 0 || v > 100 {
		return 0, fmt.Errorf("%q %w; choose another", s, errNoShare)
	}
	return v, nil
}

// Exact is f as the decimal number that it was written as: the shortest that is nearest to f. With it 80 % of a rate is
// 80 hundredths to the bit.
func Exact(f float64) *big.Rat {
	r, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'f', -1, 64))
	if !ok {
		return new(big.Rat) // infinite or not a number: nothing reads those
	}
	return r
}

func percentToFraction(percent float64) float64 {
	f, _ := new(big.Rat).Quo(Exact(percent), big.NewRat(100, 1)).Float64()
	return f
}

func fractionPercent(fraction float64) string {
	f, _ := new(big.Rat).Mul(Exact(fraction), big.NewRat(100, 1)).Float64()
	return strconv.FormatFloat(f, 'f', -1, 64) + "%"
}
