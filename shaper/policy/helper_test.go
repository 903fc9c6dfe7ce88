package policy

import (
	"net/netip"
	"strings"
	"testing"

	"bulkshaper/inventory"
	"bulkshaper/shaper/config"
)

// server makes a server from a line: name cabinet[@datacenter] roles addresses-and-prefixes, lists with commas, - for none.
func server(line string) *inventory.Server {
	f := strings.Fields(line)
	s := &inventory.Server{Name: f[0], File: f[0] + ".json"}
	if f[1] != "-" {
		s.Cabinet, s.Datacenter, _ = strings.Cut(f[1], "@")
	}
	if f[2] != "-" {
		s.Roles = strings.Split(f[2], ",")
	}
	if len(f) > 3 {
		for _, text := range strings.Split(f[3], ",") {
			if strings.Contains(text, "/") {
				s.Prefixes = append(s.Prefixes, netip.MustParsePrefix(text))
			} else {
				s.Addresses = append(s.Addresses, netip.MustParseAddr(text))
			}
		}
	}
	return s
}

// cluster makes an inventory of such lines, with all roles that occur declared, and more.
func cluster(lines string, roles ...string) *inventory.Inventory {
	var servers []*inventory.Server
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		s := server(line)
		servers = append(servers, s)
		roles = append(roles, s.Roles...)
	}
	return inventory.New(servers, roles)
}

// parse reads a config below a line with the interface.
func parse(t testing.TB, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("c.yaml", []byte("interface: eth1\n"+text), config.Overrides{})
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return c
}

func find(t testing.TB, inv *inventory.Inventory, name string) *inventory.Server {
	t.Helper()
	s, ok := inv.Server(name)
	if !ok {
		t.Fatalf("no server %s", name)
	}
	return s
}

func makePolicy(t testing.TB, cfg *config.Config, inv *inventory.Inventory, node string) *Policy {
	t.Helper()
	p, err := New(cfg, inv, find(t, inv, node))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// printed is problems or warnings, a line each.
func printed(ps []inventory.Problem) string { return inventory.Problems(ps).Error() }
