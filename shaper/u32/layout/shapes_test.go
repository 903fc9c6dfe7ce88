package layout

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"bulkshaper/shaper/tc"
)

var (
	place4 = Place{Parent: tc.MakeHandle(1, 0), Pref: 11100, Protocol: tc.ProtocolIP}
	place6 = Place{Parent: tc.MakeHandle(1, 0), Pref: 11200, Protocol: tc.ProtocolIPv6}
)

func classOf(i int) tc.Handle { return tc.MakeHandle(1, uint16(0x10+i%4)) }

func v4(a uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(a >> 24), byte(a >> 16), byte(a >> 8), byte(a)})
}

func v6(hi, lo uint64) netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], hi)
	binary.BigEndian.PutUint64(b[8:], lo)
	return netip.AddrFrom16(b)
}

// shape is an address plan: item i of n.
type shape struct {
	name string
	six  bool
	at   func(r *rand.Rand, i, n int) netip.Prefix
	// mean and worst are limits of the cost at 100,000 destinations.
	mean  float64
	worst int
}

func host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

const documentation = 0x20010db8_00000000

func eui64(r *rand.Rand) uint64 {
	return 0x0200_00ff_fe00_0000 | uint64(r.Uint32N(8))<<40 | uint64(r.Uint32N(1<<24))
}

// shapes are those of real networks, and some that are made to be hard.
func shapes() []shape {
	packed := func(i int) netip.Prefix { return host(v4(0x0a000000 + uint32(i/250)<<8 + 1 + uint32(i%250))) }
	return []shape{
		{"packed /24s", false, func(_ *rand.Rand, i, _ int) netip.Prefix { return packed(i) }, 4, 7},
		{"one server in each /24, the same last octet", false, func(_ *rand.Rand, i, _ int) netip.Prefix { return host(v4(0x0a000007 + uint32(i)<<8)) }, 4, 7},
		{"one server in each /24, any last octet", false, func(r *rand.Rand, i, _ int) netip.Prefix { return host(v4(0x0a000000 + uint32(i)<<8 + r.Uint32N(256))) }, 4, 9},
		{"a pod /24 for each server", false, func(_ *rand.Rand, i, _ int) netip.Prefix {
			return netip.PrefixFrom(v4(0x0a000000+uint32(i)<<8), 24)
		}, 4, 7},
		{"an IPv6 /64 for each cabinet, numbered hosts", true, func(_ *rand.Rand, i, _ int) netip.Prefix {
			return host(v6(documentation|uint64(i/40), uint64(i%40+1)))
		}, 4.2, 7},
		{"an IPv6 /64 for each cabinet, EUI-64 hosts", true, func(r *rand.Rand, i, _ int) netip.Prefix {
			return host(v6(documentation|uint64(i/40), eui64(r)))
		}, 4.2, 15},
		{"an IPv6 /64 for each server", true, func(_ *rand.Rand, i, _ int) netip.Prefix {
			return netip.PrefixFrom(v6(documentation|uint64(i), 0), 64)
		}, 4, 7},
		{"mixed IPv4", false, func(r *rand.Rand, i, n int) netip.Prefix {
			switch i % 3 {
			case 0:
				return packed(i / 3)
			case 1:
				return netip.PrefixFrom(v4(0x0a800000+uint32(i/3)<<8), 24)
			}
			return host(v4(0xac100000 + r.Uint32N(1<<20)))
		}, 5, 20},
		{"mixed IPv6", true, func(r *rand.Rand, i, n int) netip.Prefix {
			switch i % 3 {
			case 0:
				return host(v6(documentation|uint64(i/120), uint64(i/3%40+1)))
			case 1:
				return netip.PrefixFrom(v6(documentation|0x10000000|uint64(i), 0), 64)
			}
			return host(v6(documentation|0x20000000|uint64(i/120), eui64(r)))
		}, 6, 20},
		{"at random in a /8", false, func(r *rand.Rand, _, _ int) netip.Prefix { return host(v4(0x0a000000 + r.Uint32N(1<<24))) }, 4, 15},
		{"at random anywhere", false, func(r *rand.Rand, _, _ int) netip.Prefix { return host(v4(r.Uint32())) }, 4, 15},
		{"any prefix length", false, func(r *rand.Rand, _, _ int) netip.Prefix {
			return netip.PrefixFrom(v4(r.Uint32()), 33-r.IntN(r.IntN(32)+1)-1).Masked()
		}, 8, 60},
		{"each host inside a /24", false, func(_ *rand.Rand, i, _ int) netip.Prefix {
			if i%2 == 0 {
				return netip.PrefixFrom(v4(0x0a000000+uint32(i/2)<<8), 24)
			}
			return host(v4(0x0a000001 + uint32(i/2)<<8))
		}, 6, 20},
		{"far apart bits", true, func(_ *rand.Rand, i, _ int) netip.Prefix {
			var b [16]byte
			for k := range b {
				b[k] = byte(i >> k & 1)
			}
			b[0], b[1] = b[0]|byte(i>>16&1)<<4, b[1]|0x20
			return host(netip.AddrFrom16(b))
		}, 300, 2000},
		{"outliers in all octets", false, func(r *rand.Rand, i, _ int) netip.Prefix {
			if i%64 == 0 {
				return host(v4(r.Uint32()))
			}
			return packed(i)
		}, 4.5, 15},
	}
}

// items makes n items of the shape, without duplicates.
func (s shape) items(n int) []Item {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	seen := make(map[netip.Prefix]bool, n)
	items := make([]Item, 0, n)
	for i := 0; len(items) < n && i < 3*n; i++ {
		if p := s.at(r, i, n); !seen[p] {
			seen[p] = true
			items = append(items, Item{p, classOf(len(items))})
		}
	}
	return items
}

func (s shape) place() Place {
	if s.six {
		return place6
	}
	return place4
}

// TestShapes: the cost of a packet hardly depends on how many destinations there are, whatever the address plan.
func TestShapes(t *testing.T) {
	var text strings.Builder
	for _, s := range shapes() {
		for _, n := range []int{10, 1000, 10_000, 100_000} {
			if underRace && n > 1000 {
				continue
			}
			items := s.items(n)
			tree, err := Build(items, s.place(), Options{})
			if err != nil {
				t.Errorf("%s, %d: %v", s.name, n, err)
				continue
			}
			c := tree.Cost()
			fmt.Fprintf(&text, "%s, %d: tables %d, depth %d, longest bucket %d, mean %.2f, worst %d\n", s.name, n, c.Tables, c.Depth, c.Longest, c.Mean, c.Worst)
			if c.Mean > s.mean || c.Worst > s.worst {
				t.Errorf("%s, %d: %+v, limits are %g and %d", s.name, n, c, s.mean, s.worst)
			}
			if c.Tables > DefaultBudget+100 || c.Destinations != len(items) {
				t.Errorf("%s, %d: %+v", s.name, n, c)
			}
		}
	}
	t.Log("\n" + text.String())
}

func BenchmarkBuild(b *testing.B) {
	for _, s := range shapes() {
		b.Run(s.name, func(b *testing.B) {
			items := s.items(100_000)
			for b.Loop() {
				if _, err := Build(items, s.place(), Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkReadAndAdapt(b *testing.B) {
	for _, s := range shapes() {
		b.Run(s.name, func(b *testing.B) {
			items := s.items(100_000)
			tree, err := Build(items, s.place(), Options{})
			if err != nil {
				b.Fatal(err)
			}
			filters := tree.Filters()
			b.Run("read", func(b *testing.B) {
				for b.Loop() {
					Read(filters, s.place())
				}
			})
			b.Run("adapt", func(b *testing.B) {
				for b.Loop() {
					if _, err := tree.Adapt(items[1:], Options{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
