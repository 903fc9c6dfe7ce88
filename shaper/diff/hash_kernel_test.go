package diff_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"bulkshaper/shaper/kernel/kerneltest"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
)

// counted is the packets that each class took, sent or not. Packets that bypassed all classes are those of class 0.
func (k onKernel) counted() map[tc.Handle]uint64 {
	k.t.Helper()
	s, err := k.Stats(k.t.Context())
	if err != nil {
		k.t.Fatal(err)
	}
	counts := map[tc.Handle]uint64{0: s.DirectPackets}
	for _, c := range s.Classes {
		counts[c.Class.ID] = c.SentPackets + c.BacklogPackets + c.Dropped
	}
	return counts
}

// fast is a spec of classes that hold nothing back.
func fast() spec {
	return spec{layout: plan.LayoutHash, classes: []string{"c100 8gbit", "c10 8gbit", "c20 8gbit", "c30 8gbit"}}
}

// randomPrefixes are some of all kinds, which packets may be sent to.
func randomPrefixes(r *rand.Rand, n int) []netip.Prefix {
	var prefixes []netip.Prefix
	for len(prefixes) < n {
		var p netip.Prefix
		switch r.IntN(6) {
		case 0: // packed
			p = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(r.IntN(3)), byte(r.IntN(256))}), 32)
		case 1: // sparse, any length
			var a [4]byte
			binary.BigEndian.PutUint32(a[:], 0x14000000+r.Uint32N(0x20000000))
			p = netip.PrefixFrom(netip.AddrFrom4(a), 10+r.IntN(23))
		case 2: // a nest
			p = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, 1, 1}), 8+r.IntN(25))
		case 3:
			p = netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 7: byte(r.IntN(40)), 15: byte(r.IntN(40))}), 128)
		case 4:
			p = netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 5: byte(r.IntN(200)), 7: byte(r.IntN(40))}), 44+r.IntN(21))
		case 5:
			a := [16]byte{0x20, 1, 0xd, 0xb8, 1}
			binary.BigEndian.PutUint64(a[8:], r.Uint64())
			p = netip.PrefixFrom(netip.AddrFrom16(a), 65+r.IntN(64))
		}
		if p = p.Masked(); !slices.Contains(prefixes, p) {
			prefixes = append(prefixes, p)
		}
	}
	return prefixes
}

// deepPrefixes differ in bits so far apart that no window has two of them: tables stand in tables as deep as the kernel follows.
func deepPrefixes() []netip.Prefix {
	var prefixes []netip.Prefix
	for i := range 1 << 11 {
		a := [16]byte{0x20, 1, 0xd, 0xb8}
		for k := range 11 {
			a[4+k] = byte(i >> k & 1)
		}
		prefixes = append(prefixes, netip.PrefixFrom(netip.AddrFrom16(a), 128))
	}
	return prefixes
}

// around are the addresses at the edges of p, inside and outside.
func around(p netip.Prefix) []netip.Addr {
	first := p.Addr()
	last := first.AsSlice()
	for i := p.Bits(); i < first.BitLen(); i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	end, _ := netip.AddrFromSlice(last)
	return []netip.Addr{first, first.Prev(), end, end.Next()}
}

// TestHashRealPackets: real packets to the edges of hundreds of random prefixes, and beside them, are counted in the class that the
// longest prefix gives, in the hash tables of the real kernel.
func TestHashRealPackets(t *testing.T) {
	n, k := openKernel(t)
	r := rand.New(rand.NewPCG(5, 6))
	for _, prefixes := range [][]netip.Prefix{randomPrefixes(r, 700), deepPrefixes(), randomPrefixes(r, 700), nil} {
		s := fast()
		var probes []netip.Addr
		for i, p := range prefixes {
			s.destinations = append(s.destinations, fmt.Sprintf("%s c%d", p, 10*(1+i%3)))
			probes = append(probes, around(p)...)
		}
		p := s.plan(t)
		k.apply(t, p)
		tables := 0
		for _, f := range k.observe(t).Filters {
			if f.Divisor != 0 && f.Handle.Table() < 0x800 {
				tables++
			}
		}
		if tables < 6 && prefixes != nil || tables > 0 && prefixes == nil {
			t.Fatalf("%d tables", tables)
		}
		byClass := map[tc.Handle][]netip.Addr{}
		for _, a := range probes {
			byClass[wantedVerdict(p, a)] = append(byClass[wantedVerdict(p, a)], a)
		}
		for class, addresses := range byClass {
			before := k.counted()
			for _, a := range addresses {
				n.Send(t, a, 1)
			}
			for id, count := range k.counted() {
				want := before[id]
				if id == class {
					want += uint64(len(addresses))
				}
				if count != want {
					t.Errorf("%d packets for %s: %d in %s, wanted %d", len(addresses), class, count-before[id], id, want-before[id])
				}
			}
		}
	}
}

// TestHashByTC: the lines for tc make the same filters.
func TestHashByTC(t *testing.T) {
	n, k := openKernel(t)
	s := fast()
	for i, p := range randomPrefixes(rand.New(rand.NewPCG(9, 9)), 300) {
		s.destinations = append(s.destinations, fmt.Sprintf("%s c%d", p, 10*(1+i%3)))
	}
	p := s.plan(t)
	ops, err := p.Install()
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for _, op := range ops {
		lines.WriteString(op.TC(kerneltest.Interface) + "\n")
	}
	if err := n.TCBatch(lines.String()); err != nil {
		t.Fatal(err)
	}
	checkHashed(t, k.observe(t), p)
	for _, op := range k.compute(t, p) {
		if op.Object.Type() == "filter" {
			t.Errorf("%s: %s", op, op.Why)
		}
	}
}

// flood sends to the addresses in turn until ctx ends, and returns how many packets it sent.
func flood(ctx context.Context, t *testing.T, n *kerneltest.Namespace, addresses []netip.Addr) uint64 {
	var conn *net.UDPConn
	var err error
	n.Do(func() { conn, err = net.ListenUDP("udp", nil) })
	if err != nil {
		t.Error(err)
		return 0
	}
	defer conn.Close()
	payload := make([]byte, 18)
	var sent uint64
	for ctx.Err() == nil {
		for _, a := range addresses {
			if _, err := conn.WriteToUDPAddrPort(payload, netip.AddrPortFrom(a, 9)); err != nil {
				t.Error(err)
				return sent
			}
			sent++
		}
	}
	return sent
}

// TestHashUnderTraffic: while packets go to some hosts, plans change at random: classes of the hosts, hundreds of other destinations,
// prefixes around the hosts, the layout. The hosts always have a class of their own, so none of their packets may go to the class of
// the prefixes around them, to the default class, or past all.
func TestHashUnderTraffic(t *testing.T) {
	n, k := openKernel(t)
	r := rand.New(rand.NewPCG(7, 8))
	var hosts []netip.Addr
	for i := range byte(30) {
		hosts = append(hosts, netip.AddrFrom4([4]byte{10, 1, i % 3, 10 + i}), netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 7: i % 4, 15: 10 + i}))
	}
	random := func() *plan.Plan {
		s := fast()
		if r.IntN(4) == 0 {
			s.layout = plan.LayoutList
		}
		taken := map[netip.Prefix]bool{}
		for _, h := range hosts {
			p := netip.PrefixFrom(h, h.BitLen())
			taken[p] = true
			s.destinations = append(s.destinations, fmt.Sprintf("%s c%d", p, 10+10*r.IntN(2)))
		}
		for _, p := range randomPrefixes(r, []int{5, 40, 200, 600}[r.IntN(4)]) {
			if !taken[p] {
				s.destinations = append(s.destinations, p.String()+" c30")
			}
		}
		return s.plan(t)
	}
	k.apply(t, random())
	before := k.counted()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	total := make(chan uint64)
	go func() { total <- flood(ctx, t, n, hosts) }()
	var done []string
	for range 60 {
		done = append(done, fmt.Sprint(len(k.apply(t, random()))))
	}
	stop()
	sent := <-total
	t.Logf("%d packets, operations %s", sent, strings.Join(done, " "))
	taken := func(minor uint16) uint64 { return k.counted()[id(minor)] - before[id(minor)] }
	for deadline := time.Now().Add(5 * time.Second); taken(0x10)+taken(0x20) < sent && time.Now().Before(deadline); {
		// Some are on their way.
	}
	if taken(0x10)+taken(0x20) != sent || taken(0x30) != 0 || taken(0x100) != 0 || k.counted()[0] != before[0] {
		t.Errorf("of %d packets not all went where they should: before %v, after %v", sent, before, k.counted())
	}
	if sent < 1000 {
		t.Errorf("only %d packets: the test proves nothing", sent)
	}
}
