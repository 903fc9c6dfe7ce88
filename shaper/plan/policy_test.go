package plan_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bulkshaper/inventory"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/fakekernel"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
)

const policyConfig = `
interface: eth1
link_rate: 1gbit
classes:
  same-cabinet:  {id: 10, rate: 80%}
  cross-cabinet: {id: 20, rate: 20%}
  special:       {id: 30, rate: 5%}
  default:       {id: 100, rate: 20%}
default_class: default
rules:
  - {name: special,       match: {address: [10.0.0.64/26, "2001:db8::/126"]}, class: special}
  - {name: same-cabinet,  match: {cabinet: same}, class: same-cabinet}
  - {name: cross-cabinet, match: {role: hadoop_node}, class: cross-cabinet}
`

// TestPolicyIsWhatTheKernelDoes: for random inventories, addresses at the edges of all prefixes, inside and outside, go where the
// policy says.
func TestPolicyIsWhatTheKernelDoes(t *testing.T) {
	cfg, err := config.Parse("c.yaml", []byte(policyConfig), config.Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	link := tc.Link{Index: 1, Name: "eth1", MTU: 1500, TxQueueLen: 1000}
	rapid.Check(t, func(r *rapid.T) {
		inv := randomInventory(r)
		node := inv.Servers[0]
		classes, _, err := policy.Resolve(cfg, inv, node, 0)
		if err != nil {
			r.Fatal(err)
		}
		pol, err := policy.New(cfg, inv, node)
		if err != nil {
			r.Fatal(err)
		}
		p, err := plan.Build(cfg, classes, pol.Destinations(), node, plan.Facts{Link: link})
		if err != nil {
			r.Fatal(err)
		}
		k := fakekernel.New(link)
		for _, result := range k.Apply(t.Context(), link, install(t, p)) {
			if result.Err != nil {
				r.Fatalf("%s: %v", result.Op, result.Err)
			}
		}
		for _, a := range edges(pol.Destinations(), inv) {
			v := pol.Lookup(a)
			i := slices.IndexFunc(p.Classes, func(c plan.Class) bool { return c.Name == v.Class })
			if v.Own {
				continue // never sent by the interface
			}
			if got := k.Send(a, 1); i < 0 || got != p.Classes[i].Class.ID {
				r.Fatalf("%s goes to %s; the policy says %q by rule %q", a, got, v.Class, v.Rule)
			}
		}
	})
}

func randomInventory(r *rapid.T) *inventory.Inventory {
	var servers []*inventory.Server
	taken := map[netip.Prefix]bool{}
	for i := range rapid.IntRange(1, 6).Draw(r, "servers") {
		s := &inventory.Server{Name: fmt.Sprintf("s%d", i), Cabinet: rapid.SampledFrom([]string{"", "b11", "b12"}).Draw(r, "cabinet"), Datacenter: "nyc1"}
		s.Names = []string{s.Name}
		if rapid.Bool().Draw(r, "bulk") {
			s.Roles = []string{"hadoop_node"}
		}
		for range rapid.IntRange(0, 3).Draw(r, "prefixes") {
			p := prefix().Draw(r, "prefix")
			if taken[p] || p.Bits() == 0 {
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
	return inventory.New(servers, []string{"hadoop_node"})
}

// edges are the first and the last address of each prefix, those just outside, and some that nobody has.
func edges(destinations []policy.Destination, inv *inventory.Inventory) []netip.Addr {
	prefixes := []netip.Prefix{netip.MustParsePrefix("10.0.0.64/26"), netip.MustParsePrefix("2001:db8::/126"), netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("2001:db8:ffff::1/128")}
	for _, d := range destinations {
		prefixes = append(prefixes, d.Prefix)
	}
	for _, s := range inv.Servers {
		prefixes = append(prefixes, s.Prefixes...)
		for _, a := range s.Addresses {
			prefixes = append(prefixes, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	var addresses []netip.Addr
	for _, p := range prefixes {
		last := p.Addr().AsSlice()
		for bit := p.Bits(); bit < len(last)*8; bit++ {
			last[bit/8] |= 1 << (7 - bit%8)
		}
		end, _ := netip.AddrFromSlice(last)
		for _, a := range []netip.Addr{p.Addr(), p.Addr().Prev(), end, end.Next()} {
			if a.IsValid() {
				addresses = append(addresses, a)
			}
		}
	}
	return addresses
}
