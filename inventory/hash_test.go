package inventory

import (
	"fmt"
	"net/netip"
	"testing"
)

func hashed() []*Server {
	return []*Server{
		{Name: "a", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2001:db8::1")}, Cabinet: "b1", Datacenter: "nyc1", Roles: []string{"bulk"}},
		{Name: "b", Names: []string{"b.example.net"}, Prefixes: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/24")}, Cabinet: "b2", Datacenter: "nyc1"},
	}
}

// TestHash: every word of an inventory is in the hash, and nothing else is: not where its files lie, nor what was warned of.
func TestHash(t *testing.T) {
	roles := []string{"bulk", "app"}
	inv := New(hashed(), roles)
	// Nodes of other versions have this number, too.
	if got := inv.Hash(); got != 157397768312806 {
		t.Errorf("the hash is %d", got)
	}
	seen := map[uint64]string{inv.Hash(): "as it was"}
	for name, change := range map[string]func(a, b *Server){
		"a name":          func(a, _ *Server) { a.Name = "c" },
		"another name":    func(a, _ *Server) { a.Names = append(a.Names, "a.example.net") },
		"a cabinet":       func(a, _ *Server) { a.Cabinet = "b2" },
		"cabinets change": func(a, b *Server) { a.Cabinet, b.Cabinet = b.Cabinet, a.Cabinet },
		"cabinet moves":   func(a, _ *Server) { a.Cabinet, a.Datacenter = "", "b1nyc1" },
		"a datacenter":    func(_, b *Server) { b.Datacenter = "ams1" },
		"a role":          func(_, b *Server) { b.Roles = []string{"bulk"} },
		"an address":      func(a, _ *Server) { a.Addresses[0] = a.Addresses[0].Next() },
		"one gone":        func(a, _ *Server) { a.Addresses = a.Addresses[:1] },
		"address moves":   func(a, b *Server) { b.Addresses, a.Addresses = a.Addresses[:1], a.Addresses[1:] },
		"a prefix length": func(_, b *Server) { b.Prefixes[0] = netip.MustParsePrefix("10.1.0.0/25") },
		"a host prefix":   func(a, _ *Server) { a.Prefixes = []netip.Prefix{netip.MustParsePrefix("10.0.0.9/32")} },
	} {
		servers := hashed()
		change(servers[0], servers[1])
		hash := New(servers, roles).Hash()
		if twin, ok := seen[hash]; ok {
			t.Errorf("%s: the same hash as %s", name, twin)
		}
		seen[hash] = name
	}
	if New(hashed(), roles[:1]).Hash() == inv.Hash() {
		t.Error("another role declared: the same hash")
	}

	same := New(hashed(), []string{"app", "bulk"})
	same.Servers[0].File = "/elsewhere/a.json"
	same.Warnings = []Problem{{Message: "a word"}}
	if same.Hash() != inv.Hash() {
		t.Error("the hash is of more than the inventory")
	}
}

func BenchmarkHash(b *testing.B) {
	var servers []*Server
	for i := range 100_000 {
		servers = append(servers, &Server{Name: fmt.Sprintf("hadoop%06d", i), Cabinet: fmt.Sprint("b", i/20), Datacenter: "nyc1", Roles: []string{"hadoop_node"},
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})}})
	}
	inv := New(servers, []string{"hadoop_node"})
	for b.Loop() {
		inv.Hash()
	}
}
