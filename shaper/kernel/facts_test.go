package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"bulkshaper/shaper/kernel/kerneltest"
	"bulkshaper/shaper/tc"
)

// The tests of the files facts_*.go hold what the program takes for granted of the kernel. One that fails on another kernel says what
// has to be thought over. They were seen to hold on 6.18.44 and on Debian's 6.1.170; qemutest runs them on Debian's newest 6.1 and 6.12.

// packets are the packets of each class since the kernel has it, by minor number; -1 are those that bypassed all classes.
func packets(t *testing.T, k *Kernel) map[int]uint64 {
	t.Helper()
	s, err := k.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := map[int]uint64{-1: s.DirectPackets}
	for _, c := range s.Classes {
		m[int(c.Class.ID.Minor())] = c.SentPackets + c.BacklogPackets + c.Dropped
	}
	return m
}

// goesTo sends and checks that all of it is counted in one class, -1 for none.
func goesTo(t *testing.T, k *Kernel, what string, minor int, send func()) {
	t.Helper()
	before := packets(t, k)
	send()
	after := packets(t, k)
	for m := range after {
		switch grown := after[m] - before[m]; {
		case m == minor && grown == 0:
			t.Errorf("%s: nothing in class %x", what, minor)
		case m != minor && grown != 0:
			t.Errorf("%s: %d packets in class %x, wanted them in %x", what, grown, m, minor)
		}
	}
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// setup has a tree with the classes 10, 20 and default 100, and no filters.
func setup(t *testing.T) (*kerneltest.Namespace, *Kernel) {
	t.Helper()
	n := kerneltest.New(t)
	k := open(t, n)
	mustApply(t, k, tree()[:7]...)
	return n, k
}

func TestFactTickIs64Nanoseconds(t *testing.T) {
	n := kerneltest.New(t)
	n.Do(func() {
		b, err := os.ReadFile("/proc/thread-self/net/psched")
		if err != nil {
			t.Fatal(err)
		}
		var usPerTick, tickNanoseconds uint32
		if _, err := fmt.Sscanf(string(b), "%x %x", &usPerTick, &tickNanoseconds); err != nil || tickNanoseconds != 64 {
			t.Errorf("psched is %q: %v", b, err)
		}
	})
}

func TestFactHTBRootCannotBeChanged(t *testing.T) {
	n, k := setup(t)
	other := root()
	other.HTB.Default = 0x20
	if err := applyErrors(t, k, change(other))[0]; !errors.Is(err, unix.EINVAL) {
		t.Errorf("change: %v", err)
	}
	for _, verb := range []string{"change", "replace"} {
		if _, err := n.TryTC("qdisc", verb, "dev", "eth1", "root", "handle", "1:", "htb", "default", "20"); err == nil {
			t.Errorf("tc qdisc %s was accepted", verb)
		}
	}
	if q, _ := observe(t, k).RootQdisc(); q != root() {
		t.Errorf("root is %+v", q)
	}
}

func TestFactClassChangeKeepsCounters(t *testing.T) {
	n, k := setup(t)
	n.Send(t, addr("203.0.113.1"), 10)
	mustApply(t, k, change(class(0x100, 50*mbit)))
	n.Send(t, addr("203.0.113.1"), 10)
	if got := packets(t, k)[0x100]; got != 20 {
		t.Errorf("%d packets, want 20", got)
	}
}

func TestFactUnknownParentMakesARootClass(t *testing.T) {
	_, k := setup(t)
	c := class(0x50, mbit)
	c.Parent = tc.MakeHandle(1, 0x777)
	mustApply(t, k, add(c))
	for _, got := range observe(t, k).Classes {
		if got.ID == c.ID && got.Parent != tc.Root {
			t.Errorf("parent is %s", got.Parent)
		}
	}
}

func TestFactParentIsNotChanged(t *testing.T) {
	_, k := setup(t)
	c := class(0x10, mbit)
	c.Parent = tc.MakeHandle(1, 0x20)
	err := applyErrors(t, k, change(c))[0]
	for _, got := range observe(t, k).Classes {
		if got.ID == c.ID && got.Parent != tc.Root {
			t.Errorf("the parent changed to %s (%v): a rebuild is not needed for that any more", got.Parent, err)
		}
	}
}

func TestFactQuantum0ReadsBackAsANumber(t *testing.T) {
	_, k := setup(t)
	c := class(0x50, 8*mbit)
	c.Quantum = 0
	mustApply(t, k, add(c))
	for _, got := range observe(t, k).Classes {
		if got.ID == c.ID && got.Quantum != 100_000 { // bytes per second / r2q
			t.Errorf("quantum is %d", got.Quantum)
		}
	}
}

// An inner class ignores prio and quantum: they stay as they were when it was a leaf. Whoever compares them would find the same
// difference for ever.
func TestFactInnerClassKeepsPrioAndQuantum(t *testing.T) {
	_, k := setup(t)
	parent, child := class(0x50, 8*mbit), class(0x51, mbit)
	child.Parent = parent.ID
	mustApply(t, k, add(parent), add(child))
	other := parent
	other.Prio, other.Quantum, other.Rate = 5, 3000, 4*mbit
	mustApply(t, k, change(other))
	for _, got := range observe(t, k).Classes {
		if got.ID == parent.ID && (got.Prio != parent.Prio || got.Quantum != parent.Quantum || got.Rate != other.Rate || got.Level == 0) {
			t.Errorf("inner class is %+v", got)
		}
	}
}

func TestFactMissingDefaultClassGoesDirect(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	mustApply(t, k, add(root()), add(class(0x10, mbit)), add(leaf(0x10)))
	goesTo(t, k, "before the default class", -1, func() { n.Send(t, addr("203.0.113.1"), 5) })
	mustApply(t, k, add(class(0x100, mbit)), add(leaf(0x100)))
	goesTo(t, k, "behind it", 0x100, func() { n.Send(t, addr("203.0.113.1"), 5) })
}

func TestFactFilterToMissingOrInnerClassGoesToDefault(t *testing.T) {
	n, k := setup(t)
	parent, child := class(0x50, 8*mbit), class(0x51, mbit)
	child.Parent = parent.ID
	mustApply(t, k, add(parent), add(child), add(leaf(0x51)), add(filter(1, "10.0.0.1/32", 0x77)), add(filter(2, "10.0.0.2/32", 0x50)))
	goesTo(t, k, "missing class", 0x100, func() { n.Send(t, addr("10.0.0.1"), 5) })
	goesTo(t, k, "inner class", 0x100, func() { n.Send(t, addr("10.0.0.2"), 5) })
}

// A filter that was there before its class is not bound to it: the class can be deleted under it.
func TestFactClassBeforeFilterOrNoProtection(t *testing.T) {
	_, k := setup(t)
	mustApply(t, k, add(filter(1, "10.0.0.1/32", 0x77)), add(class(0x77, mbit)))
	mustApply(t, k, remove(class(0x77, mbit)))
	mustApply(t, k, add(filter(2, "10.0.0.2/32", 0x10)))
	if err := applyErrors(t, k, remove(class(0x10, mbit)))[0]; !errors.Is(err, unix.EBUSY) {
		t.Errorf("got %v", err)
	}
}

func TestFactChildTakesTheParentsPackets(t *testing.T) {
	n, k := setup(t)
	mustApply(t, k, add(filter(1, "10.0.0.1/32", 0x20)))
	goesTo(t, k, "leaf", 0x20, func() { n.Send(t, addr("10.0.0.1"), 5) })
	child := class(0x21, mbit)
	child.Parent = tc.MakeHandle(1, 0x20)
	mustApply(t, k, add(child))
	goesTo(t, k, "inner", 0x100, func() { n.Send(t, addr("10.0.0.1"), 5) })
	mustApply(t, k, remove(child))
	goesTo(t, k, "leaf again", 0x20, func() { n.Send(t, addr("10.0.0.1"), 5) })
}

// A class without a leaf of its own, on an interface whose txqueuelen is 0, sends nothing. With an explicit leaf it does.
func TestFactTxQueueLen0DropsEverything(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	mustApply(t, k, add(root()), add(class(0x10, mbit)), add(leaf(0x10)))
	// Not before: a veth with 0 gets 1000 when its first root is made (qdisc_create, IFF_NO_QUEUE); a card keeps it.
	n.Run(t, "ip", "link", "set", "eth1", "txqueuelen", "0")
	mustApply(t, k, add(class(0x100, mbit)))
	dropped := func() uint64 {
		s, err := k.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range s.Classes {
			if c.Class.ID.Minor() == 0x100 {
				return c.Dropped
			}
		}
		return 0
	}
	n.Send(t, addr("203.0.113.1"), 7)
	if got := dropped(); got != 7 {
		t.Errorf("%d of 7 packets dropped", got)
	}
	n.Run(t, "ip", "link", "set", "eth1", "txqueuelen", "1000")
	n.Send(t, addr("203.0.113.1"), 7)
	if got := dropped(); got != 14 {
		t.Errorf("%d of 14 packets dropped after txqueuelen was raised", got)
	}
	mustApply(t, k, add(leaf(0x100)))
	n.Send(t, addr("203.0.113.1"), 7)
	if got := dropped(); got != 14 {
		t.Errorf("%d packets dropped with a leaf of its own, 14 before", got)
	}
}

func TestFactDownAndUpLeavesEverything(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	mustApply(t, k, tree()...)
	before := observe(t, k)
	n.Run(t, "ip", "link", "set", "eth1", "down")
	n.Run(t, "ip", "link", "set", "eth1", "up")
	after := observe(t, k)
	if fmt.Sprint(before.Qdiscs, before.Classes, before.Filters) != fmt.Sprint(after.Qdiscs, after.Classes, after.Filters) {
		t.Errorf("%+v became %+v", before, after)
	}
	n.Disconnect()
	n.Connect()
	if s := observe(t, k); len(s.Classes)+len(s.Filters) != 0 {
		t.Errorf("a new interface has %+v", s)
	}
}

// skb->priority of a class beats the filters.
func TestFactPriorityBeatsFilters(t *testing.T) {
	n, k := setup(t)
	mustApply(t, k, add(filter(1, "10.0.0.1/32", 0x10)))
	goesTo(t, k, "SO_PRIORITY 1:20", 0x20, func() {
		n.Do(func() {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PRIORITY, 0x10020); err != nil {
				t.Fatal(err)
			}
			if err := unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{10, 0, 0, 1}}); err != nil {
				t.Fatal(err)
			}
		})
	})
}

// frame4 is an IPv4 packet, frame6 an ICMPv6 one, each behind an Ethernet header.
func ipv4(dst string) []byte {
	b := make([]byte, 46)
	b[0], b[3], b[8], b[9] = 0x45, 28, 64, 17
	copy(b[16:], addr(dst).AsSlice())
	return b
}

func icmp6(typ, hopLimit byte) []byte {
	b := make([]byte, 64)
	b[0], b[5], b[6], b[7], b[40] = 0x60, 24, 58, hopLimit, typ
	copy(b[24:], addr("2001:db8::2").AsSlice())
	return b
}

func TestFactVLANFramesNeedTheirOwnProtocol(t *testing.T) {
	n, k := setup(t)
	mustApply(t, k, add(filter(1, "10.0.0.1/32", 0x10)))
	tagged := kerneltest.EthernetFrame(0x8100, append([]byte{0, 5, 0x08, 0}, ipv4("10.0.0.1")...))
	goesTo(t, k, "untagged", 0x10, func() { n.SendFrame(t, kerneltest.EthernetFrame(0x0800, ipv4("10.0.0.1")), 5) })
	goesTo(t, k, "tagged, protocol ip", 0x100, func() { n.SendFrame(t, tagged, 5) })
	f := filter(1, "10.0.0.1/32", 0x20)
	f.Protocol, f.Pref = tc.ProtocolVLAN, 14000
	f.Sel.Keys[0].Off = 20 // four bytes of tag on the wire
	mustApply(t, k, add(f))
	at20 := packets(t, k)[0x20]
	n.SendFrame(t, tagged, 5)
	at20 = packets(t, k)[0x20] - at20
	f.Handle, f.Sel.Keys = tc.MakeU32Handle(0, 0, 2), []tc.Key{{Mask: ^uint32(0), Value: 0x0a000001, Off: 16}}
	mustApply(t, k, add(f))
	at16 := packets(t, k)[0x20]
	n.SendFrame(t, tagged, 5)
	at16 = packets(t, k)[0x20] - at16
	if at20 != 0 || at16 != 5 {
		t.Errorf("protocol 802.1q matched %d at offset 20 and %d at 16, want 0 and 5", at20, at16)
	}
}

func TestFactProtocolAllMatchesIPv6ByAccident(t *testing.T) {
	n, k := setup(t)
	f := filter(1, "10.0.0.1/32", 0x10)
	f.Protocol = tc.ProtocolAll
	mustApply(t, k, add(f))
	packet := icmp6(128, 64)
	copy(packet[16:], []byte{10, 0, 0, 1}) // the source address is at 8 to 23
	goesTo(t, k, "IPv6", 0x10, func() { n.SendFrame(t, kerneltest.EthernetFrame(0x86dd, packet), 5) })
}

// The filters that keep address resolution out of the bulk.
func TestFactControlFilters(t *testing.T) {
	n, k := setup(t)
	control := class(tc.ControlMinor, 10*mbit)
	ops := []tc.Op{add(control), add(leaf(tc.ControlMinor))}
	arp := tc.Filter{Parent: tc.MakeHandle(1, 0), Pref: 11000, Protocol: tc.ProtocolARP, Kind: tc.KindU32, Handle: tc.MakeU32Handle(0, 0, 1),
		ClassID: control.ID, Sel: tc.Selector{Flags: tc.U32Terminal}}
	ops = append(ops, add(arp))
	for i, k := range []tc.Key{{Mask: 0xff000000, Value: 0x85000000, Off: 40}, {Mask: 0xfe000000, Value: 0x86000000, Off: 40}, {Mask: 0xfe000000, Value: 0x88000000, Off: 40}} {
		nd := arp
		nd.Pref, nd.Protocol, nd.Handle = 11001, tc.ProtocolIPv6, tc.MakeU32Handle(0, 0, uint32(i+1))
		nd.Sel.Keys = []tc.Key{{Mask: 0x0000ffff, Value: 0x00003aff, Off: 4}, k}
		ops = append(ops, add(nd))
	}
	mustApply(t, k, ops...)
	goesTo(t, k, "ARP", tc.ControlMinor, func() { n.SendFrame(t, kerneltest.EthernetFrame(0x0806, make([]byte, 46)), 3) })
	for typ := byte(128); typ < 145; typ++ {
		minor := 0x100
		if typ >= 133 && typ <= 137 {
			minor = tc.ControlMinor
		}
		goesTo(t, k, fmt.Sprintf("ICMPv6 %d", typ), minor, func() { n.SendFrame(t, kerneltest.EthernetFrame(0x86dd, icmp6(typ, 255)), 1) })
		goesTo(t, k, fmt.Sprintf("ICMPv6 %d from afar", typ), 0x100, func() { n.SendFrame(t, kerneltest.EthernetFrame(0x86dd, icmp6(typ, 64)), 1) })
	}
	goesTo(t, k, "IPv4", 0x100, func() { n.Send(t, addr("203.0.113.1"), 3) })
}
