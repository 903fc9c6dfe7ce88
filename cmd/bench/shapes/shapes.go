// Package shapes makes inventories of any size for the address plans that clusters have. The same shape and size give the same
// inventory every time.
//
// It imports inventory only.
package shapes

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"

	"bulkshaper/inventory"
)

// Shape is an address plan.
type Shape struct {
	// Letter is the shape's in the requirement, a to g.
	Letter string
	Name   string
	// perServer is how many destinations in a row are one server's.
	perServer int
	make      func(i int) netip.Prefix
}

// All are the shapes that the layout must serve.
func All() []Shape {
	one := []Shape{
		{"a", "packed /24s", 1, packed},
		{"b", "one server in each of many /24s", 1, sparse},
		{"c", "a pod /24 a server", 2, pods},
		{"d", "an IPv6 /64 a cabinet", 1, cabinets6},
		{"e", "an IPv6 /64 a server", 2, servers6},
	}
	mixed := func(i int) netip.Prefix { return one[i%len(one)].make(i / len(one)) }
	return append(one, Shape{"f", "all of these mixed", 1, mixed}, Shape{"g", "random addresses of a /8", 1, nil})
}

// Destinations are the first n of the shape, all different.
func (s Shape) Destinations(n int) []netip.Prefix {
	if s.make == nil {
		return random(n)
	}
	list := make([]netip.Prefix, n)
	for i := range list {
		list[i] = s.make(i)
	}
	return list
}

// Node is the name of the server that Servers puts first: the machine that is shaped, with NodeAddress.
const Node = "node"

// NodeAddress is the address of Node.
func NodeAddress() netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, 1}) }

// Roles are those that servers have.
func Roles() []string { return []string{"hadoop_node", "monitoring"} }

const (
	cabinetSize   = 40
	monitorsEvery = 50
)

// Servers are Node and the servers that have n destinations together.
func (s Shape) Servers(n int) []*inventory.Server {
	return servers(s.Destinations(n), s.perServer)
}

// Single gives each destination a server of its own.
func Single(destinations []netip.Prefix) []*inventory.Server { return servers(destinations, 1) }

func servers(destinations []netip.Prefix, perServer int) []*inventory.Server {
	list := []*inventory.Server{{Name: Node, Addresses: []netip.Addr{NodeAddress()}, Cabinet: cabinet(0), Datacenter: "dc1", Roles: []string{"hadoop_node"}}}
	for len(destinations) > 0 {
		i := len(list) - 1
		s := &inventory.Server{Name: fmt.Sprintf("hadoop%06d", i), Cabinet: cabinet(i / cabinetSize), Datacenter: "dc1", Roles: []string{"hadoop_node"}}
		if i%monitorsEvery == 0 {
			s.Roles = []string{"monitoring"}
		}
		own := destinations[:min(perServer, len(destinations))]
		destinations = destinations[len(own):]
		for _, p := range own {
			if p.IsSingleIP() {
				s.Addresses = append(s.Addresses, p.Addr())
			} else {
				s.Prefixes = append(s.Prefixes, p)
			}
		}
		list = append(list, s)
	}
	return list
}

func cabinet(i int) string { return fmt.Sprintf("b%04d", i) }

func v4(first byte, rest int) netip.Addr {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], uint32(first)<<24+uint32(rest))
	return netip.AddrFrom4(a)
}

func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

const packedHosts = 250 // a /24

func packed(i int) netip.Prefix {
	return single(v4(10, i/packedHosts<<8+i%packedHosts+1))
}

func sparse(i int) netip.Prefix { return single(v4(20, i<<8+i*7%packedHosts+1)) }

func pods(i int) netip.Prefix {
	if i%2 == 1 {
		return netip.PrefixFrom(v4(30, i/2<<8), 24)
	}
	return single(v4(40, i/2/packedHosts<<8+i/2%packedHosts+1))
}

// v6 is 2001:db8:block:subnet::host.
func v6(block uint16, subnet, host int) netip.Addr {
	a := [16]byte{0x20, 0x01, 0x0d, 0xb8}
	binary.BigEndian.PutUint16(a[4:], block)
	binary.BigEndian.PutUint16(a[6:], uint16(subnet))
	binary.BigEndian.PutUint64(a[8:], uint64(host))
	return netip.AddrFrom16(a)
}

func cabinets6(i int) netip.Prefix { return single(v6(0xd000, i/cabinetSize, i%cabinetSize+1)) }

func servers6(i int) netip.Prefix {
	if i%2 == 1 {
		return netip.PrefixFrom(v6(0xe000, i/2, 0), 64)
	}
	return single(v6(0xe000, i/2, 1))
}

func random(n int) []netip.Prefix {
	source := rand.New(rand.NewPCG(1, 2))
	seen := make(map[int]bool, n)
	list := make([]netip.Prefix, 0, n)
	for len(list) < n {
		if i := source.IntN(1 << 24); !seen[i] {
			seen[i] = true
			list = append(list, single(v4(50, i)))
		}
	}
	return list
}

// RolesFile is where Write puts roles.json below its folder, and ServersFolder where it puts the servers.
const (
	RolesFile     = "roles.json"
	ServersFolder = "dc1/jsons"
)

// Write writes an inventory below folder as operations would keep it.
func Write(folder string, servers []*inventory.Server) error {
	mapping := make(map[string][]string)
	var names []string
	if err := os.MkdirAll(filepath.Join(folder, ServersFolder), 0o755); err != nil {
		return fmt.Errorf("write inventory: %w", err)
	}
	for _, s := range servers {
		names = append(names, s.Name)
		for _, role := range s.Roles {
			mapping[role] = append(mapping[role], s.Name)
		}
		if err := os.WriteFile(File(folder, s.Name), Text(s), 0o644); err != nil {
			return fmt.Errorf("write server file: %w", err)
		}
	}
	text, err := json.Marshal(map[string]any{"servers": names, "roles": Roles(), "mapping": mapping})
	if err != nil {
		return fmt.Errorf("encode roles: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, RolesFile), text, 0o644); err != nil {
		return fmt.Errorf("write roles: %w", err)
	}
	return nil
}

// File is the path of a server's file below folder.
func File(folder, server string) string {
	return filepath.Join(folder, ServersFolder, server+".json")
}

// Text is a server's file.
func Text(s *inventory.Server) []byte {
	prefixes, addresses := "[]", "[]"
	if len(s.Prefixes) > 0 {
		prefixes = quoted(s.Prefixes)
	}
	if len(s.Addresses) > 0 {
		addresses = quoted(s.Addresses)
	}
	return fmt.Appendf(nil, `{
  "name": %q,
  "names": ["%s.nyc1.example.net"],
  "addresses": %s,
  "prefixes": %s,
  "cabinet": %q,
  "provisioning": {"image": "bookworm-12.8", "disks": ["sda", "sdb", "sdc"], "serial": "S%s", "memory_gib": 256}
}
`, s.Name, s.Name, addresses, prefixes, s.Cabinet, s.Name)
}

func quoted[T fmt.Stringer](list []T) string {
	text := ""
	for i, v := range list {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%q", v.String())
	}
	return "[" + text + "]"
}
