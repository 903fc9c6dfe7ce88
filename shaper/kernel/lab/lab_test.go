package lab

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bulkshaper/shaper/tc"
)

func build(t *testing.T, topology Topology) *Cluster {
	t.Helper()
	c, err := Build(topology)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// ping sends a UDP packet from one server to another, which sends it back.
func ping(t *testing.T, from, to *Host) {
	t.Helper()
	server, err := to.ListenUDP(netip.AddrPortFrom(to.Address, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client, err := from.ListenUDP(netip.AddrPortFrom(from.Address, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	limit := time.Now().Add(10 * time.Second)
	server.SetDeadline(limit)
	client.SetDeadline(limit)
	text := []byte(from.Name + " to " + to.Name)
	if _, err := client.WriteToUDPAddrPort(text, server.LocalAddr().(*net.UDPAddr).AddrPort()); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 100)
	n, back, err := server.ReadFromUDPAddrPort(buffer)
	if err != nil {
		t.Fatalf("%s does not reach %s: %v", from.Name, to.Name, err)
	}
	if back.Addr() != from.Address {
		t.Errorf("%s came from %s, want %s", buffer[:n], back.Addr(), from.Address)
	}
	if _, err := server.WriteToUDPAddrPort(buffer[:n], back); err != nil {
		t.Fatal(err)
	}
	if n, _, err = client.ReadFromUDPAddrPort(buffer); err != nil || string(buffer[:n]) != string(text) {
		t.Errorf("got %q, %v from %s, want %q", buffer[:n], err, to.Name, text)
	}
}

func TestEveryServerReachesEveryOther(t *testing.T) {
	c := build(t, two())
	if got := c.Namespaces(); got != 6 {
		t.Errorf("%d namespaces, want 6", got)
	}
	servers := []*Host{c.Host("hadoop01"), c.Host("hadoop02"), c.Host("hadoop03")}
	for _, from := range servers {
		for _, to := range servers {
			if from == to {
				continue
			}
			before, _, err := c.Uplink(from.Cabinet)
			if err != nil {
				t.Fatal(err)
			}
			ping(t, from, to)
			after, _, err := c.Uplink(from.Cabinet)
			if err != nil {
				t.Fatal(err)
			}
			if crossed := after.Packets > before.Packets; crossed != (from.Cabinet != to.Cabinet) {
				t.Errorf("%s to %s: over the uplink: %t", from.Name, to.Name, crossed)
			}
		}
	}
	if h := c.Host("nobody"); h != nil {
		t.Errorf("found %s", h.Name)
	}
	if _, _, err := c.Uplink("nowhere"); err == nil {
		t.Error("read the uplink of a cabinet that is none")
	}
}

// TestLimits: what a server receives is the payload that fits into the rate of the narrowest limit on the way, and what does
// not fit is dropped there. The rates are low enough for a busy machine.
func TestLimits(t *testing.T) {
	const payload = 1448. / 1514
	narrow, wide := Limit{Rate: 8_000_000}, Limit{Rate: 20_000_000}
	for name, c := range map[string]struct {
		set  func(*Topology)
		to   string
		want tc.BitRate
	}{
		"sender's wire":   {func(t *Topology) { t.Cabinets[0].Servers[0].Wire = narrow }, "hadoop02", narrow.Rate},
		"receiver's wire": {func(t *Topology) { t.Cabinets[0].Servers[1].Wire = narrow }, "hadoop02", narrow.Rate},
		"uplink": {func(t *Topology) {
			t.Cabinets[0].Uplink, t.Cabinets[0].Servers[0].Wire = narrow, wide
		}, "hadoop03", narrow.Rate},
		"downlink": {func(t *Topology) { t.Cabinets[1].Uplink = narrow }, "hadoop03", narrow.Rate},
	} {
		t.Run(name, func(t *testing.T) {
			topology := two()
			c.set(&topology)
			cluster := build(t, topology)
			from, to := cluster.Host("hadoop01"), cluster.Host(c.to)
			sink, err := to.Sink(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			flow, err := from.Flow(t.Context(), sink.At())
			if err != nil {
				t.Fatal(err)
			}
			// 4 Mbit first, so that the burst is used up and the queue full, then 8 Mbit are timed.
			reach := func(bytes uint64) (time.Time, uint64) {
				for start := time.Now(); ; time.Sleep(time.Millisecond) {
					now, received := time.Now(), sink.Received(from.Address)
					if received >= bytes {
						return now, received
					}
					if time.Since(start) > 20*time.Second {
						t.Fatalf("%d bytes after 20 s, want %d", received, bytes)
					}
				}
			}
			start, first := reach(500_000)
			end, last := reach(first + 1_000_000)
			got := float64(last-first) * 8 / end.Sub(start).Seconds() / float64(c.want) / payload
			// TCP hands over at once what waited behind a lost packet: up to a full queue, here a twentieth, more or less. A busy
			// machine only makes it less.
			if got < 0.7 || got > 1.1 {
				t.Errorf("received %.3f of what fits", got)
			}
			if err := flow.Close(); err != nil {
				t.Error(err)
			}
			if err := sink.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNothingIsLeft: after Close no descriptor and no thread of ours holds a namespace of the lab, and neither during its life
// nor after it do the machine's own interfaces change.
func TestNothingIsLeft(t *testing.T) {
	home, links := held(t), interfaces(t)
	c, err := Build(two())
	if err != nil {
		t.Fatal(err)
	}
	if got := interfaces(t); got != links {
		t.Errorf("own interfaces with the lab: %s, without: %s", got, links)
	}
	if got := held(t); len(got) != len(home)+c.Namespaces() {
		t.Errorf("holds %d namespaces, want %d more than %d", len(got), c.Namespaces(), len(home))
	}
	ping(t, c.Host("hadoop01"), c.Host("hadoop03"))
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	backTo(t, home)
	if got := interfaces(t); got != links {
		t.Errorf("own interfaces after the lab: %s, before: %s", got, links)
	}
}

func TestNothingIsLeftOfAHalf(t *testing.T) {
	home := held(t)
	topology := two()
	topology.Cabinets[1].Servers[0].Name = "a/b" // no name for an interface
	if c, err := Build(topology); err == nil {
		c.Close()
		t.Fatal("built")
	}
	backTo(t, home)
}

// backTo waits until nothing more than home is held: a thread ends a moment after its goroutine.
func backTo(t *testing.T, home []string) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		got := held(t)
		if slices.Equal(got, home) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("still holds %v, before %v", got, home)
		}
	}
}

func interfaces(t *testing.T) string {
	t.Helper()
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(links)
}

// held are the network namespaces that descriptors and threads of this process keep alive.
func held(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"/proc/self/fd/*", "/proc/self/task/*/ns/net"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			if to, err := os.Readlink(p); err == nil && strings.HasPrefix(to, "net:[") && !slices.Contains(all, to) {
				all = append(all, to)
			}
		}
	}
	slices.Sort(all)
	return all
}
