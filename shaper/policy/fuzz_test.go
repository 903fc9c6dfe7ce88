package policy

import (
	"errors"
	"net/netip"
	"testing"

	"bulkshaper/inventory"
	"bulkshaper/inventory/bound"
	"bulkshaper/shaper/config"
)

// FuzzRules gives any text of rules and any address: they are refused with a place and a remedy, or the address gets what the contract
// says word for word, by Lookup and by the longest of the destinations.
//
// PROMISES.md: Any bytes are in the files, in flags or in what the kernel answers
func FuzzRules(f *testing.F) {
	for _, seed := range []string{
		"[{name: a, match: {cabinet: same}, class: c1}, {name: b, match: {role: [r, s], address: 10.0.0.0/8}, class: c2}]",
		"[{name: a, match: {server: 's[1-3]*'}, class: c1}, {name: b, match: {cabinet: other, datacenter: x}, class: c2}]",
		"[{name: a, match: {address: [10.0.0.16/28, '2001:db8::/32', 10.0.0.3]}, class: c1}]",
		"[{name: a, match: {cabinet: 12, role: nobody}, class: c1}]", "[]", "x",
	} {
		f.Add([]byte(seed), []byte{10, 0, 0, 3}, uint8(0))
	}
	inv := cluster(`s0.example.net a@x r 10.0.0.1,10.0.0.16/28
s1.example.net a@x s 10.0.0.2,2001:db8::2
s2.example.net b@x r,s 10.0.0.3,10.0.0.32/27
s3.example.net a@y - 10.0.0.4
s4.example.net - r 10.0.0.20,2001:db8::/64
s5.example.net 12@y s 10.0.0.33`)
	f.Fuzz(func(t *testing.T, rules, address []byte, who uint8) {
		text := "interface: eth1\nclasses: {c1: {id: 1, rate: 1mbit}, c2: {id: 2, rate: 1mbit}, d: {id: 3, rate: 1mbit}}\ndefault_class: d\nrules:\n  " + string(rules) + "\n"
		cfg, err := config.Parse("c.yaml", []byte(text), config.Overrides{})
		if err != nil {
			return // FuzzConfig holds what is said then
		}
		node := inv.Servers[int(who)%len(inv.Servers)]
		var p *Policy
		bound.Check(t, len(text), memoryPerByte, func() { p, err = New(cfg, inv, node) })
		if err != nil {
			var problems inventory.Problems
			if !errors.As(err, &problems) || len(problems) == 0 {
				t.Fatalf("error %T %v", err, err)
			}
			for _, problem := range problems {
				if problem.File != "c.yaml" || problem.Line == 0 || problem.Message == "" || problem.Remedy == "" {
					t.Fatalf("%+v lacks something", problem)
				}
			}
			return
		}
		asked := allAddresses()
		if a, ok := netip.AddrFromSlice(address); ok {
			asked = append(asked, a.Unmap())
		}
		destinations := p.Destinations()
		for _, a := range asked {
			owner, rule, class := plainLookup(cfg, inv, node, a)
			if owner == node {
				continue
			}
			v := p.Lookup(a)
			if v.Owner != owner || v.Rule != rule || v.Class != class {
				t.Fatalf("%s: %+v, want %s by rule %q of %v\n%s", a, v, class, rule, owner, text)
			}
			best := Destination{Class: cfg.DefaultClass}
			for _, d := range destinations {
				if d.Prefix.Contains(a) && (!best.Prefix.IsValid() || d.Prefix.Bits() > best.Prefix.Bits()) {
					best = d
				}
			}
			if best.Class != class {
				t.Fatalf("%s: destination %+v, want %s\n%s", a, best, class, text)
			}
		}
	})
}

// memoryPerByte is what compiled rules may take from the heap for each byte of them.
const memoryPerByte = 10_000
