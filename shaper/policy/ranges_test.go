package policy

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestRangesAreWhatLookupSays: they cover the prefix without gap or overlap, neighbours differ, and each address in them gets their class.
func TestRangesAreWhatLookupSays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		inv := drawCluster(t)
		cfg := drawRules(t)
		p, err := New(cfg, inv, inv.Servers[0])
		if err != nil {
			t.Fatal(err)
		}
		within := drawPrefix(t, "within")
		ranges := p.Ranges(within)
		if ranges[0].First != within.Addr() || ranges[len(ranges)-1].Last != LastAddr(within) {
			t.Fatalf("%s is not covered: %v", within, ranges)
		}
		for i, r := range ranges {
			if r.Last.Less(r.First) || i > 0 && (ranges[i-1].Last.Next() != r.First || ranges[i-1].Class == r.Class && ranges[i-1].Own == r.Own) {
				t.Fatalf("range %d: %v", i, ranges)
			}
		}
		for _, a := range allAddresses() {
			if !within.Contains(a) {
				continue
			}
			v := p.Lookup(a)
			for _, r := range ranges {
				if inside := r.First.Compare(a) <= 0 && a.Compare(r.Last) <= 0; inside && (r.Class != v.Class || r.Own != v.Own) {
					t.Fatalf("%s gets %q, the range from %s says %q", a, v.Class, r.First, r.Class)
				}
			}
		}
	})
}

func TestRangesNameTheirOwners(t *testing.T) {
	t.Parallel()
	inv := cluster(`
me a - 10.0.0.1
n1 a - 10.0.0.2,10.0.0.3
n2 a - 10.0.0.4,10.0.1.0/24
b1 b r 10.0.2.1`)
	p := makePolicy(t, parse(t, ""), inv, "me")
	var got []string
	for _, r := range p.Ranges(netip.MustParsePrefix("10.0.0.0/22")) {
		var owners []string
		for _, o := range r.Owners {
			owners = append(owners, o.Name)
		}
		got = append(got, fmt.Sprintf("%s-%s %s %v %s", r.First, r.Last, r.Class, r.Own, strings.Join(owners, ",")))
	}
	want := `10.0.0.0-10.0.0.0 default false 
10.0.0.1-10.0.0.1  true me
10.0.0.2-10.0.0.4 same-cabinet false n1,n2
10.0.0.5-10.0.0.255 default false 
10.0.1.0-10.0.1.255 same-cabinet false n2
10.0.2.0-10.0.3.255 default false b1`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	for prefix, want := range map[string]string{"10.0.0.0/8": "10.255.255.255", "10.0.0.4/30": "10.0.0.7", "10.0.0.1/32": "10.0.0.1", "0.0.0.0/0": "255.255.255.255", "2001:db8::/33": "2001:db8:7fff:ffff:ffff:ffff:ffff:ffff"} {
		if got := LastAddr(netip.MustParsePrefix(prefix)).String(); got != want {
			t.Errorf("last of %s: %s, want %s", prefix, got, want)
		}
	}
}
