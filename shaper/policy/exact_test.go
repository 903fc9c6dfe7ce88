package policy

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bulkshaper/inventory"
	"bulkshaper/shaper/config"
)

// drawPrefix draws a prefix of a space of 32 addresses, IPv4 or IPv6, or one that holds all of it.
func drawPrefix(t *rapid.T, label string) netip.Prefix {
	n := byte(rapid.IntRange(0, 31).Draw(t, label+" address"))
	short := rapid.IntRange(0, 5).Draw(t, label+" host bits")
	if rapid.IntRange(0, 19).Draw(t, label+" wide") == 0 {
		short = rapid.SampledFrom([]int{8, 16, 32}).Draw(t, label+" width")
	}
	a := netip.AddrFrom4([4]byte{10, 0, 0, n})
	if rapid.Bool().Draw(t, label+" v6") {
		a = netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 15: n})
	}
	return netip.PrefixFrom(a, a.BitLen()-short).Masked()
}

func allAddresses() []netip.Addr {
	list := []netip.Addr{netip.MustParseAddr("10.0.0.32"), netip.MustParseAddr("10.1.0.0"), netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::20"),
		netip.MustParseAddr("2001:db9::"), netip.MustParseAddr("::1")}
	for n := range byte(32) {
		list = append(list, netip.AddrFrom4([4]byte{10, 0, 0, n}), netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 15: n}))
	}
	return list
}

func drawCluster(t *rapid.T) *inventory.Inventory {
	var servers []*inventory.Server
	taken := map[netip.Prefix]bool{}
	for i := range rapid.IntRange(1, 8).Draw(t, "servers") {
		s := &inventory.Server{Name: fmt.Sprintf("s%d.example.net", i), Cabinet: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "cabinet"),
			Datacenter: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "datacenter"),
			Roles:      rapid.SliceOfN(rapid.SampledFrom([]string{"r", "s"}), 0, 2).Draw(t, "roles")}
		for range rapid.IntRange(0, 4).Draw(t, "prefixes") {
			p := drawPrefix(t, "server")
			if taken[p] {
				continue
			}
			taken[p] = true
			if p.IsSingleIP() {
				s.Addresses = append(s.Addresses, p.Addr())
			} else {
				s.Prefixes = append(s.Prefixes, p)
			}
		}
		servers = append(servers, s)
	}
	return inventory.New(servers, []string{"r", "s"})
}

func drawRules(t *rapid.T) *config.Config {
	cfg := &config.Config{DefaultClass: "default"}
	values := func(key string, from ...string) []string {
		if rapid.IntRange(0, 2).Draw(t, "has "+key) > 0 {
			return nil
		}
		return rapid.SliceOfN(rapid.SampledFrom(from), 1, 2).Draw(t, key)
	}
	for i := range rapid.IntRange(0, 6).Draw(t, "rules") {
		m := config.Match{Role: values("role", "r", "s"), Cabinet: values("cabinet", config.Same, config.Other, "a", "b"),
			Datacenter: values("datacenter", config.Same, config.Other, "x"), Server: values("server", "s1", "s[2-5]*", "s0.example.net", "none")}
		if m.IsZero() || rapid.Bool().Draw(t, "has address") {
			for range rapid.IntRange(1, 3).Draw(t, "addresses") {
				m.Address = append(m.Address, drawPrefix(t, "rule"))
			}
		}
		cfg.Rules = append(cfg.Rules, config.Rule{Name: fmt.Sprintf("r%d", i), Match: m, Class: fmt.Sprintf("c%d", i%3)})
	}
	return cfg
}

// plainLookup is the contract, word for word and without any index: owner, then the first rule that matches owner and address.
func plainLookup(cfg *config.Config, inv *inventory.Inventory, node *inventory.Server, a netip.Addr) (owner *inventory.Server, rule, class string) {
	longest := -1
	for _, s := range inv.Servers {
		prefixes := slices.Clone(s.Prefixes)
		for _, own := range s.Addresses {
			prefixes = append(prefixes, netip.PrefixFrom(own, own.BitLen()))
		}
		for _, p := range prefixes {
			if p.Contains(a) && p.Bits() > longest {
				owner, longest = s, p.Bits()
			}
		}
	}
	for _, r := range cfg.Rules {
		if plainMatch(r.Match, owner, node, a) {
			return owner, r.Name, r.Class
		}
	}
	return owner, "", cfg.DefaultClass
}

func plainMatch(m config.Match, s, node *inventory.Server, a netip.Addr) bool {
	any := func(list []string, ok func(string) bool) bool {
		return list == nil || s != nil && slices.ContainsFunc(list, ok)
	}
	seen := func(same bool, name string) func(string) bool {
		return func(v string) bool { return v == "same" && same || v == "other" && !same || v == name }
	}
	if m.Address != nil && !slices.ContainsFunc(m.Address, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return false
	}
	if s == nil {
		return m.Role == nil && m.Cabinet == nil && m.Datacenter == nil && m.Server == nil
	}
	return any(m.Role, func(r string) bool { return slices.Contains(s.Roles, r) }) &&
		any(m.Cabinet, seen(s.Cabinet != "" && s.Cabinet == node.Cabinet && s.Datacenter == node.Datacenter, s.Cabinet)) &&
		any(m.Datacenter, seen(s.Datacenter != "" && s.Datacenter == node.Datacenter, s.Datacenter)) &&
		any(m.Server, func(g string) bool {
			full, _ := path.Match(g, s.Name)
			return full || g+".example.net" == s.Name
		})
}

// TestExact is the promise of the whole package: for every address the longest destination gives the class of Lookup, Lookup is
// the contract's, and no destination is this node's own.
func TestExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv, cfg := drawCluster(t), drawRules(t)
		node := rapid.SampledFrom(inv.Servers).Draw(t, "node")
		p, err := New(cfg, inv, node)
		if err != nil {
			t.Fatal(err)
		}
		destinations := p.Destinations()
		if !slices.IsSortedFunc(destinations, func(a, b Destination) int { return a.Prefix.Compare(b.Prefix) }) {
			t.Fatal("destinations are not sorted")
		}
		for i, d := range destinations {
			if i > 0 && destinations[i-1].Prefix == d.Prefix {
				t.Fatalf("%s is there twice", d.Prefix)
			}
			if d.Prefix != d.Prefix.Masked() || d.Server == node.Name {
				t.Fatalf("%+v", d)
			}
		}
		for _, a := range allAddresses() {
			owner, rule, class := plainLookup(cfg, inv, node, a)
			v := p.Lookup(a)
			if v.Owner != owner || v.Own != (owner == node && owner != nil) {
				t.Fatalf("%s: %+v, want owner %v", a, v, owner)
			}
			e := p.Explain(a)
			if v.Own {
				if v.Rule != "" || v.Class != "" || e.Tried != nil {
					t.Fatalf("%s is our own and has a class: %+v", a, e)
				}
				continue
			}
			if v.Rule != rule || v.Class != class {
				t.Fatalf("%s: got %s %s, want %s %s", a, v.Rule, v.Class, rule, class)
			}
			if owner != nil && !v.Prefix.Contains(a) {
				t.Fatalf("%s is of %s by %s", a, owner.Name, v.Prefix)
			}
			best := Destination{Prefix: netip.PrefixFrom(a, -1), Class: cfg.DefaultClass}
			for _, d := range destinations {
				if d.Prefix.Contains(a) && (!best.Prefix.IsValid() || d.Prefix.Bits() > best.Prefix.Bits()) {
					best = d
				}
			}
			if best.Class != class || best.Rule != rule {
				t.Fatalf("%s: destination %+v, Lookup %+v", a, best, v)
			}
			if name := best.Server; best.Prefix.IsValid() && (owner == nil) != (name == "") && owner != nil {
				t.Fatalf("%s is of %s, and %+v does not say so", a, owner.Name, best)
			}
			tried := slices.IndexFunc(cfg.Rules, func(r config.Rule) bool { return r.Name == rule })
			if tried < 0 {
				tried = len(cfg.Rules)
			}
			if len(e.Tried) != tried || e.Verdict != v || slices.ContainsFunc(e.Tried, func(t Tried) bool { return t.Reason == "" }) {
				t.Fatalf("%s: %+v", a, e)
			}
		}
	})
}

// TestOrderDoesNotMatter shuffles servers, and the prefixes and roles in them.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv, cfg := drawCluster(t), drawRules(t)
		node := rapid.SampledFrom(inv.Servers).Draw(t, "node")
		one, err := New(cfg, inv, node)
		if err != nil {
			t.Fatal(err)
		}
		var servers []*inventory.Server
		for _, s := range rapid.Permutation(inv.Servers).Draw(t, "order") {
			c := *s
			c.Addresses, c.Prefixes, c.Roles = slices.Clone(s.Addresses), slices.Clone(s.Prefixes), slices.Clone(s.Roles)
			slices.Reverse(c.Addresses)
			slices.Reverse(c.Prefixes)
			slices.Reverse(c.Roles)
			servers = append(servers, &c)
		}
		shuffled := inventory.New(servers, inv.Roles)
		again, ok := shuffled.Server(node.Name)
		if !ok {
			t.Fatal(node.Name)
		}
		other, err := New(cfg, shuffled, again)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := one.Destinations(), other.Destinations(); !slices.Equal(a, b) {
			t.Fatalf("%v\n%v", a, b)
		}
	})
}
