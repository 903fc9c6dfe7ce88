package shapes

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	"bulkshaper/inventory"
)

func TestDestinations(t *testing.T) {
	for _, s := range All() {
		const n = 100_000
		list := s.Destinations(n)
		seen := make(map[netip.Prefix]bool, n)
		for _, p := range list {
			if !p.IsValid() || p != p.Masked() || seen[p] {
				t.Fatalf("(%s): %s is no new prefix", s.Letter, p)
			}
			seen[p] = true
		}
		if len(list) != n || !slices.Equal(list, s.Destinations(n)) {
			t.Errorf("(%s): %d destinations, or others the second time", s.Letter, len(list))
		}
		total := 0
		for _, server := range s.Servers(n)[1:] {
			total += len(server.Addresses) + len(server.Prefixes)
		}
		if total != n {
			t.Errorf("(%s): the servers have %d destinations", s.Letter, total)
		}
	}
}

func TestWrittenIsRead(t *testing.T) {
	for _, s := range All() {
		folder := t.TempDir()
		servers := s.Servers(200)
		if err := Write(folder, servers); err != nil {
			t.Fatal(err)
		}
		read, err := inventory.NewLoader(inventory.Source{Roles: filepath.Join(folder, RolesFile), Servers: []string{filepath.Join(folder, ServersFolder)}}).Load(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		want := inventory.New(servers, Roles())
		if len(read.Warnings) > 0 || len(read.Servers) != len(want.Servers) {
			t.Fatalf("(%s): %d servers, warnings %v", s.Letter, len(read.Servers), read.Warnings)
		}
		for i, got := range read.Servers {
			what := func(s *inventory.Server) string {
				return fmt.Sprint(s.Name, s.Addresses, s.Prefixes, s.Cabinet, s.Datacenter, s.Roles)
			}
			if what(got) != what(want.Servers[i]) {
				t.Errorf("(%s): %s, want %s", s.Letter, what(got), what(want.Servers[i]))
			}
		}
	}
}
