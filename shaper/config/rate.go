package config

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"bulkshaper/inventory"
	"bulkshaper/shaper/tc"
)

// ParseRate reads a rate in tc's units (819200kbit) or as a percentage of the link (80%).
func ParseRate(s string) (Rate, error) {
	if strings.HasSuffix(strings.TrimSpace(s), "%") {
		percent, err := parsePercent(s)
		if err != nil {
			return Rate{}, fmt.Errorf("rate %w", err)
		}
		return Rate{Percent: percent}, nil
	}
	fixed, err := tc.ParseBitRate(s)
	return Rate{Fixed: fixed}, err
}

// String prints r as it would be written.
func (r Rate) String() string {
	switch {
	case r.Share != nil:
		return r.Share.String()
	case r.Percent != 0:
		return strconv.FormatFloat(r.Percent, 'f', -1, 64) + "%"
	case r.Fixed != 0:
		return r.Fixed.String()
	}
	return ""
}

// Of is r where the link's rate is link, in whole bytes per second and never rounded up. It is false for a share and where the
// link's rate is needed and 0.
func (r Rate) Of(link tc.BitRate) (tc.BitRate, bool) {
	switch {
	case r.Fixed != 0:
		return r.Fixed.WholeBytes(), true
	case r.Percent != 0 && link != 0:
		return fraction(link, new(big.Rat).Quo(Exact(r.Percent), big.NewRat(100, 1))), true
	}
	return 0, false
}

// Each is the rate of each of count servers, before Min and Max, in whole bytes per second and never rounded up.
func (s *Share) Each(count int) tc.BitRate {
	return fraction(s.Of, new(big.Rat).Quo(Exact(s.Use), big.NewRat(int64(count), 1)))
}

// fraction is r x part, cut to whole bytes per second.
func fraction(r tc.BitRate, part *big.Rat) tc.BitRate {
	v := new(big.Rat).Mul(new(big.Rat).SetInt(new(big.Int).SetUint64(uint64(r))), part)
	return tc.BitRate(new(big.Int).Quo(v.Num(), v.Denom()).Uint64()).WholeBytes()
}

// String prints s as it would be written.
func (s *Share) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "{of: %s, use: %s, among: %s", s.Of, fractionPercent(s.Use), s.Among)
	if s.Min != 0 {
		fmt.Fprintf(&b, ", min: %s", s.Min)
	}
	if s.Max != 0 {
		fmt.Fprintf(&b, ", max: %s", s.Max)
	}
	return b.String() + "}"
}

// linkRateKey is the key of the one setting that is a rate.
const linkRateKey = "link_rate"

// InBytes tells of a rate whether it is written in bytes a second, as tc takes bps, kbps, mbps and so on, while most people who write them
// mean bits. Then it says what the rate was taken for, and what to write.
func InBytes(text string) (taken, remedy string, ok bool) {
	plain := strings.ToLower(strings.TrimSpace(text))
	unit, found := strings.CutSuffix(plain, "bps")
	rate, err := tc.ParseBitRate(text)
	if !found || err != nil {
		return "", "", false
	}
	return fmt.Sprintf("%s is in bytes, as for tc, and so taken for %s", strings.TrimSpace(text), rate),
		fmt.Sprintf("write %sbit if bits were meant, or %s if not", unit, rate), true
}

// bytesMeant warns of a rate in bytes.
func (d *decoder) bytesMeant(place inventory.Problem, what, text string) {
	if taken, remedy, ok := InBytes(text); ok {
		place.Message, place.Remedy = readable(what+": "+taken), readable(remedy)
		d.warnings = append(d.warnings, place)
	}
}

// rate reads a rate in any of its forms.
func (d *decoder) rate(n *node, what string, into *Rate) {
	if n.kind == mappingNode {
		into.Share = d.share(n, what)
		return
	}
	text, ok := d.scalar(n, what)
	if !ok {
		return
	}
	rate, err := ParseRate(text)
	if err != nil {
		d.wrong(n, strings.TrimSuffix(what, ": rate"), err)
		return
	}
	d.bytesMeant(d.place(n), what, text)
	*into = rate
}

// share reads a share, nil where it is not whole.
func (d *decoder) share(n *node, what string) *Share {
	s := &Share{}
	before := len(d.problems)
	fixed := func(name string, into *tc.BitRate) field {
		return field{name, func(v *node) {
			text, ok := d.scalar(v, what+"."+name)
			if !ok {
				return
			}
			rate, err := tc.ParseBitRate(text)
			if err != nil {
				d.wrong(v, what+"."+name, err)
			} else {
				d.bytesMeant(d.place(v), what+"."+name, text)
			}
			*into = rate
		}}
	}
	seen := d.mapping(n, what+".", []field{
		fixed("of", &s.Of),
		{"use", func(v *node) {
			text, ok := d.scalar(v, what+".use")
			if !ok {
				return
			}
			percent, err := parsePercent(text)
			if err != nil {
				d.wrong(v, what+".use", err)
			}
			s.Use = percentToFraction(percent)
		}},
		{"among", func(v *node) {
			s.Among = d.match(v, what+".among", "say which servers share it")
			if s.Among.Address != nil {
				d.add(v, "name the servers by role, cabinet, datacenter or server", "%s.among counts servers and so has no address", what)
			}
		}},
		fixed("min", &s.Min),
		fixed("max", &s.Max),
	})
	var missing []string
	for _, must := range []string{"of", "use", "among"} {
		if !seen[must] {
			missing = append(missing, must)
		}
	}
	if missing != nil {
		d.add(n, "write it like {of: 10gbit, use: 80%, among: {role: hadoop_node, cabinet: same}}", "%s: the share has no %s",
			what, strings.Join(missing, " and no "))
	}
	if s.Max != 0 && s.Min > s.Max {
		d.add(n, "lower min or raise max", "%s: min %s is over max %s", what, s.Min, s.Max)
	}
	if len(d.problems) > before {
		return nil
	}
	if s.Of == 0 || s.Use == 0 || s.Among.IsZero() {
		d.add(n, "write it like {of: 10gbit, use: 80%, among: {role: hadoop_node, cabinet: same}}", "%s: of, use or among is empty", what)
		return nil
	}
	return s
}
