package main

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"go.uber.org/zap"

	"bulkshaper/shaper/kernel"
	"bulkshaper/shaper/kernel/kerneltest"
	"bulkshaper/shaper/u32"
)

// isFresh compares what stands with what a fresh apply of the same files makes elsewhere.
func (s *soaked) isFresh() {
	t := s.host.t
	fresh := newHost(t)
	fresh.must("apply", "--config", s.config())
	sorted := func(text string) string {
		lines := strings.Split(strings.TrimSpace(stripCounters(text)), "\n")
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	for _, args := range [][]string{{"qdisc", "show", "dev", "eth1"}, {"class", "show", "dev", "eth1"}} {
		if is, want := sorted(s.TC(args...)), sorted(fresh.TC(args...)); is != want {
			t.Errorf("tc %s shows\n%s\nafter a fresh apply\n%s", args[0], is, want)
		}
	}
	if is, want := nodesOf(s.filters()), nodesOf(fresh.TC("filter", "show", "dev", "eth1", "parent", "1:")); !slices.Equal(is, want) {
		t.Errorf("filters match and lead to\n%s\nafter a fresh apply\n%s", strings.Join(is, "\n"), strings.Join(want, "\n"))
	}
	if is, want := s.host.objects(), fresh.objects(); is.tables > 2*want.tables+8 {
		t.Errorf("%d tables, after a fresh apply %d", is.tables, want.tables)
	}
	s.sameClasses(fresh)
}

// nodesOf are the filters of tc's listing without their handles: what they match and where they lead, sorted. Links are left out.
func nodesOf(text string) []string {
	var nodes []string
	flow := regexp.MustCompile(`protocol (\S+) .*flowid (\S+)`)
	current := ""
	end := func() {
		if current != "" {
			nodes = append(nodes, current)
		}
		current = ""
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "filter") {
			end()
			if m := flow.FindStringSubmatch(line); m != nil {
				current = m[1] + " " + m[2]
			}
		} else if m := strings.TrimSpace(line); strings.HasPrefix(m, "match") && current != "" {
			current += " " + m
		}
	}
	end()
	slices.Sort(nodes)
	return nodes
}

// sameClasses sends to every server, to what is beside it and to strangers, from both hosts, and compares what the classes count.
func (s *soaked) sameClasses(fresh *host) {
	t := s.host.t
	var destinations []netip.Addr
	for _, v := range s.servers {
		a := netip.AddrFrom4([4]byte{10, 7, byte(v.address >> 8), byte(v.address)})
		p := netip.AddrFrom4([4]byte{10, byte(100 + v.prefix>>8), byte(v.prefix), 77})
		destinations = append(destinations, a, a.Next(), p, netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", v.address+1)))
	}
	destinations = append(destinations, netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("2001:db9::1"))
	counters := func(h *host) func() string {
		k, err := kernel.Open(kernel.Options{Namespace: h.FD(), Interface: kerneltest.Interface, Log: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { k.Close() })
		last := map[string]uint64{}
		// The class that counted more than when it was asked last, "" for none.
		return func() (class string) {
			stats, err := k.Stats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range stats.Classes {
				id := c.Class.ID.String()
				if n := c.SentPackets + c.Dropped; c.Leaf && n > last[id] {
					class, last[id] = id, n
				}
			}
			return class
		}
	}
	gained := func(h *host, counted func() string, a netip.Addr) (class string) {
		packet, protocol := u32.Packet(a)
		h.SendFrame(t, kerneltest.EthernetFrame(uint16(protocol), packet), 1) // an interface that was down has lost its routes
		eventually(t, "a packet counted", func() bool { class = counted(); return class != "" })
		return class
	}
	ours, theirs := counters(s.host), counters(fresh)
	ours() // what was sent until now
	theirs()
	seen := map[string]int{}
	for _, a := range destinations {
		if strings.HasPrefix(a.String(), "10.7.0.0") || a == netip.MustParseAddr("2001:db8::1") {
			continue // the node's own
		}
		is, want := gained(s.host, ours, a), gained(fresh, theirs, a)
		seen[is]++
		if is != want {
			t.Errorf("a packet to %s is in %s, after a fresh apply in %s", a, is, want)
		}
	}
	if len(seen) < 2 {
		t.Errorf("all packets are in %v", seen)
	}
}
