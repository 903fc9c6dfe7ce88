package kernel

import (
	"net/netip"
	"regexp"
	"strconv"
	"testing"

	"bulkshaper/shaper/kernel/kerneltest"
	"bulkshaper/shaper/tc"
)

// destinations are those of the tree's filters, and one that has none.
var destinations = []netip.Addr{netip.MustParseAddr("10.241.28.15"), netip.MustParseAddr("10.241.30.1"), netip.MustParseAddr("10.244.14.9"),
	netip.MustParseAddr("2001:db8:1::1"), netip.MustParseAddr("203.0.113.1")}

// shown is what tc shows of a class: bytes, packets, dropped, overlimits.
func shown(t *testing.T, n *kerneltest.Namespace, id tc.Handle) [4]uint64 {
	t.Helper()
	out := n.TC("-s", "class", "show", "dev", "eth1", "classid", id.String())
	m := regexp.MustCompile(`Sent (\d+) bytes (\d+) pkt \(dropped (\d+), overlimits (\d+)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("tc shows no counters of %s: %s", id, out)
	}
	var v [4]uint64
	for i := range v {
		v[i], _ = strconv.ParseUint(m[i+1], 10, 64)
	}
	return v
}

func TestStatsUnderRealPackets(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	mustApply(t, k, tree()...)
	counts := []int{3, 5, 7, 11, 13}
	want := map[tc.Handle][2]uint64{}
	classes := []uint16{0x10, 0x20, 0x20, 0x20, 0x100}
	for i, dst := range destinations {
		n.Send(t, dst, counts[i])
		id := tc.MakeHandle(1, classes[i])
		want[id] = [2]uint64{want[id][0] + uint64(counts[i])*kerneltest.FrameBytes(dst), want[id][1] + uint64(counts[i])}
	}
	s, err := k.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Root.Handle != root().Handle || s.DirectPackets != 0 || len(s.Classes) != 3 || s.Time.IsZero() {
		t.Errorf("got %+v", s)
	}
	for _, c := range s.Classes {
		id := c.Class.ID
		if got := [2]uint64{c.SentBytes, c.SentPackets}; got != want[id] {
			t.Errorf("class %s sent %v, want %v", id, got, want[id])
		}
		if got := shown(t, n, id); got != [4]uint64{c.SentBytes, c.SentPackets, c.Dropped, c.Overlimits} {
			t.Errorf("class %s: tc shows %v, we read %+v", id, got, c)
		}
		if !c.Leaf || c.Lends != c.SentPackets || c.Borrows != 0 {
			t.Errorf("class %s: %+v", id, c)
		}
	}
}

func TestStatsOfDropsAndBacklog(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	slow, short := class(0x100, 80), leaf(0x100) // 10 bytes a second: what waits still waits when it is read
	slow.Buffer, slow.Cbuffer = tc.TicksOf(100, 80), tc.TicksOf(100, 80)
	short.Limit = 4
	mustApply(t, k, add(root()), add(slow), add(short))
	n.Send(t, destinations[4], 20)
	s, err := k.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := s.Classes[0]
	if c.Dropped == 0 || c.BacklogPackets != 4 || c.BacklogBytes != 4*kerneltest.FrameBytes(destinations[4]) || c.Dropped+c.BacklogPackets+c.SentPackets != 20 {
		t.Errorf("got %+v", c)
	}
	if got := shown(t, n, c.Class.ID); got[2] != c.Dropped {
		t.Errorf("tc shows %v, we read %+v", got, c)
	}
}

// An inner class counts its children's packets again, and says that it is one. A child over its rate borrows.
func TestStatsOfInnerClasses(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	parent, child := class(0x20, 100*mbit), class(0x100, 8000)
	child.Parent, child.Ceil = parent.ID, 100*mbit
	child.Cbuffer = tc.TicksOf(64<<10, child.Ceil)
	child.Buffer = tc.TicksOf(100, child.Rate)
	mustApply(t, k, add(root()), add(parent), add(child), add(leaf(0x100)))
	n.Send(t, destinations[4], 50)
	s, err := k.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range s.Classes {
		switch c.Class.ID {
		case parent.ID:
			if c.Leaf || c.Class.Level == 0 || c.SentPackets != 50 || c.Lends == 0 {
				t.Errorf("parent: %+v", c)
			}
		case child.ID:
			if !c.Leaf || c.Class.Parent != parent.ID || c.SentPackets != 50 || c.Borrows == 0 || c.Borrows+c.Lends != 50 {
				t.Errorf("child: %+v", c)
			}
		}
	}
}

// Packets that bypass all classes are counted on the root.
func TestDirectPackets(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	mustApply(t, k, add(root()), add(class(0x10, mbit)), add(leaf(0x10))) // no default class
	n.Send(t, destinations[4], 9)
	s, err := k.Stats(t.Context())
	if err != nil || s.DirectPackets != 9 {
		t.Errorf("got %d, %v, want 9", s.DirectPackets, err)
	}
}

// Roots that are not htb have no classes to count.
func TestStatsWithoutOurTree(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	for _, args := range [][]string{nil, {"qdisc", "add", "dev", "eth1", "root", "handle", "5:", "pfifo"}} {
		if args != nil {
			n.TC(args...)
		}
		s, err := k.Stats(t.Context())
		if err != nil || len(s.Classes) != 0 {
			t.Errorf("got %+v, %v", s, err)
		}
	}
}

// TestStatsReadsNoFilter: a scrape reads qdiscs and classes once, and of the filters nothing, however many there are.
func TestStatsReadsNoFilter(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	mustApply(t, k, tree()...)
	dumped := func() (counts [3]uint64) {
		for i, object := range []string{"qdisc", "class", "filter"} {
			counts[i] = k.Dumps(object)
		}
		return counts
	}
	before := dumped()
	if _, err := k.Stats(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := dumped()
	if want := [3]uint64{before[0] + 1, before[1] + 1, before[2]}; after != want {
		t.Errorf("qdiscs, classes and filters were read %v times before and %v after, want %v", before, after, want)
	}
	observe(t, k)
	if now := dumped(); now[2] == after[2] {
		t.Error("to observe is to read filters, and that was not counted")
	}
}
