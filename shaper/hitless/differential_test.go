package hitless

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"

	"bulkshaper/shaper"
	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/fakekernel"
	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/u32"
)

// scattered is a cluster with prefixes of all kinds and lengths, nests among them.
func scattered(r *rand.Rand, prefixes int) *cluster {
	c := newCluster(r, 0)
	c.targets = []netip.Addr{netip.AddrFrom4([4]byte{10, 1, 1, 1}), netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, 1, 0, 2, 15: 9})} // nests around these
	for len(c.taken) < prefixes {
		a, bits := netip.AddrFrom4([4]byte{10, 1, byte(r.IntN(3)), byte(r.IntN(256))}), 32 // packed
		switch r.IntN(7) {
		case 0: // far from each other, any length
			a = netip.AddrFrom4([4]byte{byte(20 + r.IntN(80)), byte(r.IntN(256)), byte(r.IntN(256)), byte(r.IntN(256))})
			bits = 8 + r.IntN(25)
		case 1: // one of each network
			a = netip.AddrFrom4([4]byte{10, 2, byte(r.IntN(256)), 7})
		case 2: // pods
			a, bits = netip.AddrFrom4([4]byte{10, byte(3 + r.IntN(3)), byte(r.IntN(256)), 0}), 20+r.IntN(9)
		case 3: // hosts, packed
			a, bits = netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, 1, 0, byte(r.IntN(40)), 15: byte(r.IntN(40))}), 128
		case 4: // networks, any length
			a, bits = netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, 2, byte(r.IntN(256)), byte(r.IntN(256)), byte(r.IntN(256)), 15: byte(r.IntN(256))}), 40+r.IntN(89)
		case 5:
			a = c.target()
			bits = []int{32, 128}[len(a.AsSlice())/16] - r.IntN(30)
		}
		p, _ := a.Prefix(bits)
		if r.IntN(20) == 0 && len(c.servers) > 0 {
			c.give(c.any(), p) // more than one of a server
			continue
		}
		c.add(p, 0)
	}
	return c
}

// probes are the addresses at the edges of each destination, beside them, inside, and some of anywhere.
func probes(r *rand.Rand, w wanted) []netip.Addr {
	seen := map[netip.Addr]bool{}
	for _, d := range w.Plan.Destinations {
		first := d.Prefix.Addr()
		last, inside := first.AsSlice(), first.AsSlice()
		for i := d.Prefix.Bits(); i < first.BitLen(); i++ {
			last[i/8] |= 0x80 >> (i % 8)
			inside[i/8] |= byte(r.IntN(2)) * 0x80 >> (i % 8)
		}
		end, _ := netip.AddrFromSlice(last)
		middle, _ := netip.AddrFromSlice(inside)
		for _, a := range []netip.Addr{first, first.Prev(), end, end.Next(), middle} {
			seen[a] = a.IsValid()
		}
	}
	for range 100 {
		seen[netip.AddrFrom4([4]byte{byte(1 + r.IntN(100)), byte(r.IntN(256)), byte(r.IntN(256)), byte(r.IntN(256))})] = true
		seen[netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, byte(r.IntN(4)), 0, byte(r.IntN(50)), 15: byte(r.IntN(256))})] = true
	}
	var list []netip.Addr
	for a, valid := range seen {
		if valid && a.IsGlobalUnicast() && a != nodeAddress4 && a != nodeAddress6 {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return list
}

// counted sends a packet to a and tells the class in which the real kernel counted it.
func (b *bed) counted(conn *net.UDPConn, a netip.Addr) tc.Handle {
	b.t.Helper()
	if _, err := conn.WriteToUDPAddrPort(make([]byte, 18), netip.AddrPortFrom(a, port)); err != nil {
		b.t.Fatalf("send to %s: %v", a, err)
	}
	after := b.settled(1)
	defer func() { b.before = after }()
	for id, n := range after.taken {
		if n != b.before.taken[id] {
			return id
		}
	}
	b.t.Fatalf("the packet to %s is in no class", a)
	return 0
}

// TestAllAgree: for random inventories, in both layouts, and for addresses at the edges of every prefix, inside and outside, the rules,
// the model of u32 on the plan and on what the real kernel shows, the fake kernel, and the real one with a real packet say the same
// class. Each plan is reached from the one before.
func TestAllAgree(t *testing.T) {
	r, _ := seeded(t)
	b := newBed(t)
	conn := b.socket()
	fake := fakekernel.New(b.observe().Link)
	asked, byClass := 0, map[tc.Handle]int{}
	for i := range inventories {
		c := scattered(r, prefixes)
		if i%3 == 1 {
			c.layout = "list"
		}
		w := b.want(c)
		b.converge(w)
		state, err := fake.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if out, err := shaper.Converge(t.Context(), fake, state, w.Plan, diff.Options{}, nil); err != nil || !out.Converged {
			t.Fatalf("converged: %v, %v", out.Converged, err)
		}
		model := models(t, w, b.observe())
		b.before = b.read()
		for _, a := range probes(r, w) {
			want := w.class(a)
			packet, protocol := u32.Packet(a)
			says := map[string]tc.Handle{"fake kernel": fake.Classify(packet, protocol), "real kernel": b.counted(conn, a)}
			for name, filters := range model {
				says[name] = w.Plan.Default().Class.ID
				if v := u32.Classify(filters, packet, protocol); v.Matched {
					says[name] = v.ClassID
				}
			}
			for name, got := range says {
				if got != want {
					t.Errorf("inventory %d (%s): %s belongs to %s, and %s sends it to %s", i, c.layout, a, want, name, got)
				}
			}
			asked++
			byClass[want]++
		}
	}
	t.Logf("%d addresses in %d inventories; %v", asked, inventories, byClass)
	if asked < 1000 || len(byClass) < groups {
		t.Errorf("only %d addresses in %d classes", asked, len(byClass))
	}
}

// models are the filters of a first installation, and those that stand.
func models(t *testing.T, w wanted, stands tc.State) map[string][]tc.Filter {
	t.Helper()
	ops, err := w.Plan.Install()
	if err != nil {
		t.Fatal(err)
	}
	var fresh []tc.Filter
	for _, op := range ops {
		if f, ok := op.Object.(tc.Filter); ok {
			fresh = append(fresh, f)
		}
	}
	return map[string][]tc.Filter{"the plan": fresh, "what stands": stands.Filters}
}
