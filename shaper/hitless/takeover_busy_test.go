//go:build system

package hitless

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"bulkshaper/inventory"
	"bulkshaper/shaper"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/tc"
)

// TestTakeoverOfABusyClass: a class that gets more than it may send all the time has packets in its queue at every moment. Its takeover
// waits a while, and then loses what is in that queue, once; the other class loses nothing, and both go on counting.
func TestTakeoverOfABusyClass(t *testing.T) {
	const queue = 1000 // packets: what the interface gives a class without a leaf of its own
	cfg, err := config.Parse("c.yaml", []byte(`interface: eth1
node: me
classes:
  slow:    {id: 20, rate: 50kbit}
  default: {id: 100, rate: 10gbit}
default_class: default
rules: [{name: slow, match: {role: bulk}, class: slow}]
`), config.Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	targets := []netip.Addr{netip.MustParseAddr("10.1.1.1"), netip.MustParseAddr("10.1.1.2")}
	classes := []tc.Handle{tc.MakeHandle(1, 0x20), tc.MakeHandle(1, 0x100)}
	servers := []*inventory.Server{
		{Name: "me", Names: []string{"me"}, Addresses: []netip.Addr{nodeAddress4}},
		{Name: "bulk1", Names: []string{"bulk1"}, Roles: []string{"bulk"}, Addresses: targets[:1]},
	}
	b := newBed(t)
	b.handMade(`qdisc add dev eth1 root handle 1: htb default 100
class add dev eth1 parent 1: classid 1:20 htb rate 50kbit
class add dev eth1 parent 1: classid 1:100 htb rate 10gbit burst 100k cburst 100k
filter add dev eth1 parent 1: protocol ip u32 match ip dst 10.1.1.1/32 flowid 1:20
`)
	state := b.observe()
	desired, err := shaper.Desire(shaper.Input{Config: cfg, Inventory: inventory.New(servers, []string{"bulk"})}, "", shaper.FactsOf(state))
	if err != nil {
		t.Fatal(err)
	}
	b.startSender(t, targets)
	waiting := func() uint64 {
		s, err := b.k.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s.Classes[slices.IndexFunc(s.Classes, func(c tc.ClassStats) bool { return c.Class.ID == classes[0] })].BacklogPackets
	}
	for end := time.Now().Add(30 * time.Second); waiting() < 50; { // as many as the socket's buffer holds: more than a second of this rate, whatever else the machine does
		if time.Now().After(end) {
			t.Fatalf("only %d packets wait", waiting())
		}
		time.Sleep(time.Millisecond)
	}
	start := time.Now()
	after, done, err := shaper.Bring(t.Context(), b.k, state, desired.Plan, diff.Options{Takeover: true})
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	if took < shaper.DrainWait/2 || diff.Ownership(after).Kind != diff.Ours {
		t.Errorf("it took %s, and the root is %s", took, diff.Ownership(after).Kind)
	}
	b.pause(func() {
		sent := b.take()
		var lost [2]int64
		for end := time.Now().Add(5 * time.Second); ; {
			r := b.read()
			for i, id := range classes {
				lost[i] = int64(sent[i]) - int64(r.taken[id]-b.before.taken[id])
			}
			if lost[1] == 0 || time.Now().After(end) {
				break
			}
		}
		t.Logf("%d operations in %s; of %d packets to the busy class %d were lost with its queue, of %d to the other one %d", done, took, sent[0], lost[0], sent[1], lost[1])
		if lost[0] <= 0 || lost[0] > queue || lost[1] != 0 {
			t.Errorf("lost: %v", lost)
		}
	})
}
