package hitless

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"bulkshaper/inventory"
	"bulkshaper/shaper/config"
)

// groups is the number of roles with a class each: many, so that a packet in a wrong class is seen.
const groups = 10

// settings is a config in which address, cabinet and role decide, and in which the inventory decides on a rate, too.
func settings(layout string) (*config.Config, error) {
	var classes, rules strings.Builder
	for i := range groups {
		fmt.Fprintf(&classes, "  g%d: {id: %x, rate: 10gbit}\n", i, 0x20+i)
		fmt.Fprintf(&rules, "  - {name: g%d, match: {role: g%d}, class: g%d}\n", i, i, i)
	}
	return config.Parse("c.yaml", []byte("interface: eth1\nnode: me\nlayout: "+layout+`
classes:
  near:    {id: 10, rate: 10gbit}
  pinned:  {id: 11, rate: 10gbit}
  shared:  {id: 12, rate: {of: 800gbit, use: 80%, among: {role: g1}, min: 5gbit, max: 40gbit}}
`+classes.String()+`
  default: {id: 100, rate: 10gbit}
default_class: default
rules:
  - {name: pinned, match: {address: [10.1.1.64/27, "2001:db8:1:2::/64"], role: [g2, g3]}, class: pinned}
  - {name: near,   match: {cabinet: same}, class: near}
  - {name: shared, match: {cabinet: c3}, class: shared}
`+rules.String()), config.Overrides{})
}

// server is an entry of the inventory while it is edited.
type server struct {
	name, cabinet, role string
	prefixes            []netip.Prefix // those of one address are addresses
	crowd               int            // 0 or the number of the network that came at once
}

// cluster is an inventory that is edited at random, around targets: the addresses that packets are sent to.
type cluster struct {
	*rand.Rand
	targets []netip.Addr
	servers []*server
	taken   map[netip.Prefix]bool
	layout  string
	count   int // of all servers ever, for names
	crowds  int
	edits   map[string]int // done, by kind
}

// newCluster has targets of several kinds: hosts side by side, one in each network, inside pod networks, far from each other.
func newCluster(r *rand.Rand, targets int) *cluster {
	c := &cluster{Rand: r, taken: map[netip.Prefix]bool{}, layout: "hash", edits: map[string]int{}}
	for i := range targets {
		own := 0 // bits that the prefix of its server is shorter
		b := byte(i)
		var a netip.Addr
		switch i % 5 {
		case 0:
			a = netip.AddrFrom4([4]byte{10, 1, b % 3, 10 + b})
		case 1:
			a = netip.AddrFrom4([4]byte{10, 2, b, 7})
		case 2:
			a, own = netip.AddrFrom4([4]byte{10, 3, b, 9}), 8
		case 3:
			a = netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, 1, 0, b % 4, 15: b})
		case 4:
			a = netip.AddrFrom4([4]byte{byte(30 + r.IntN(60)), byte(r.IntN(256)), byte(r.IntN(256)), b})
		}
		c.targets = append(c.targets, a)
		if i%3 > 0 {
			p, _ := a.Prefix(a.BitLen() - own)
			c.add(p, 0)
		}
	}
	return c
}

// free tells whether no server has p.
func (c *cluster) free(p netip.Prefix) bool { return !c.taken[p] }

func (c *cluster) add(p netip.Prefix, crowd int) {
	if !c.free(p) {
		return
	}
	c.count++
	s := &server{name: fmt.Sprintf("s%d", c.count), cabinet: c.cabinet(), role: c.role(), crowd: crowd}
	c.give(s, p)
	c.servers = append(c.servers, s)
}

func (c *cluster) give(s *server, p netip.Prefix) {
	if c.free(p) {
		c.taken[p] = true
		s.prefixes = append(s.prefixes, p)
	}
}

// take takes a prefix away from s, if it has more than least.
func (c *cluster) take(s *server, least int) {
	if len(s.prefixes) <= least {
		return
	}
	i := c.IntN(len(s.prefixes))
	delete(c.taken, s.prefixes[i])
	s.prefixes = slices.Delete(s.prefixes, i, i+1)
}

func (c *cluster) cabinet() string { return []string{"c1", "c2", "c3", "c4", ""}[c.IntN(5)] }
func (c *cluster) role() string    { return fmt.Sprintf("g%d", c.IntN(groups)) }
func (c *cluster) any() *server    { return c.servers[c.IntN(len(c.servers))] }

func (c *cluster) target() netip.Addr { return c.targets[c.IntN(len(c.targets))] }

// somewhere is a target or an address near one.
func (c *cluster) somewhere() netip.Addr {
	a := c.target()
	if c.IntN(2) == 0 {
		return a
	}
	b := a.AsSlice()
	b[len(b)-1-c.IntN(2)] = byte(c.Uint32())
	a, _ = netip.AddrFromSlice(b)
	return a
}

func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// around is a prefix with a in it, of any length that leaves other targets outside, and sometimes of one that does not.
func (c *cluster) around(a netip.Addr) netip.Prefix {
	least := 8
	if a.Is6() {
		least = 40
	}
	p, _ := a.Prefix(least + c.IntN(a.BitLen()-least))
	return p
}

// kinds are all edits, the frequent ones more than once.
func kinds() []string {
	return []string{"move", "move", "role", "role", "add", "add", "remove", "address", "address", "nest", "nest", "unnest", "layout", "crowd", "disperse", "many"}
}

// edit changes one thing, or many, and says what.
func (c *cluster) edit() string {
	kind := kinds()[c.IntN(len(kinds()))]
	for len(c.servers) < 2 && kind != "add" {
		kind = "add"
	}
	c.edits[kind]++
	if kind == "many" {
		for range 2 + c.IntN(40) {
			c.one([]string{"move", "role", "add", "remove", "address", "nest", "unnest"}[c.IntN(7)])
		}
		return kind
	}
	c.one(kind)
	return kind
}

func (c *cluster) one(kind string) {
	if len(c.servers) == 0 {
		kind = "add"
	}
	switch kind {
	case "move":
		c.any().cabinet = c.cabinet()
	case "role":
		c.any().role = c.role()
	case "add":
		c.add(single(c.somewhere()), 0)
	case "remove":
		c.remove(c.IntN(len(c.servers)))
	case "address":
		s := c.any()
		c.give(s, single(c.somewhere()))
		c.take(s, 1)
	case "nest":
		c.give(c.any(), c.around(c.target()))
	case "unnest":
		for range 10 { // not each has one
			if s := c.any(); len(s.prefixes) > 1 {
				c.take(s, 1)
				break
			}
		}
	case "layout":
		c.layout = map[string]string{"hash": "list", "list": "hash"}[c.layout]
	case "crowd":
		c.crowd()
	case "disperse":
		c.disperse()
	}
}

func (c *cluster) remove(i int) {
	for _, p := range c.servers[i].prefixes {
		delete(c.taken, p)
	}
	c.servers = slices.Delete(c.servers, i, i+1)
}

// crowd lets a network come at once, around a target, but while there are very many.
func (c *cluster) crowd() {
	if len(c.servers) > 1500 {
		c.disperse()
		return
	}
	c.crowds++
	a := c.target()
	for range 20 + int(float64(c.IntN(300))*most) {
		b := a.AsSlice()
		binary.BigEndian.PutUint16(b[len(b)-2:], binary.BigEndian.Uint16(b[len(b)-2:])^uint16(c.IntN(1<<9)))
		near, _ := netip.AddrFromSlice(b)
		c.add(single(near), c.crowds)
	}
}

// disperse takes a network away that came at once.
func (c *cluster) disperse() {
	crowd := c.any().crowd
	for i := len(c.servers) - 1; i >= 0 && crowd > 0; i-- {
		if c.servers[i].crowd == crowd {
			c.remove(i)
		}
	}
}

// inventory is the present one, with this node in it.
func (c *cluster) inventory() *inventory.Inventory {
	roles := make([]string, groups)
	for i := range roles {
		roles[i] = fmt.Sprintf("g%d", i)
	}
	list := []*inventory.Server{{Name: "me", Cabinet: "c1", Datacenter: "d", Addresses: []netip.Addr{nodeAddress4, nodeAddress6}}}
	for _, s := range c.servers {
		e := &inventory.Server{Name: s.name, Cabinet: s.cabinet, Datacenter: "d", Roles: []string{s.role}}
		for _, p := range s.prefixes {
			if p.IsSingleIP() {
				e.Addresses = append(e.Addresses, p.Addr())
			} else {
				e.Prefixes = append(e.Prefixes, p)
			}
		}
		list = append(list, e)
	}
	return inventory.New(list, roles)
}
