package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"bulkshaper/shaper/kernel/kerneltest"
	"bulkshaper/shaper/tc"
)

// open opens the kernel in a namespace.
func open(t *testing.T, n *kerneltest.Namespace) *Kernel {
	t.Helper()
	k, err := Open(Options{Namespace: n.FD(), Interface: kerneltest.Interface})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

func observe(t *testing.T, k *Kernel) tc.State {
	t.Helper()
	s, err := k.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Hits = nil // some kernels count, see TestHitsAsTCPrintsThem; here it is about the rest
	return s
}

// mustApply applies ops and fails the test where one fails.
func mustApply(t *testing.T, k *Kernel, ops ...tc.Op) {
	t.Helper()
	for _, r := range k.Apply(t.Context(), observe(t, k).Link, ops) {
		if r.Err != nil {
			t.Fatalf("%s: %v", r.Op, r.Err)
		}
	}
}

// applyErrors applies ops and returns what became of them.
func applyErrors(t *testing.T, k *Kernel, ops ...tc.Op) []error {
	t.Helper()
	var errs []error
	for _, r := range k.Apply(t.Context(), observe(t, k).Link, ops) {
		errs = append(errs, r.Err)
	}
	return errs
}

func add(o tc.Object) tc.Op     { return tc.Op{Verb: tc.Add, Object: o} }
func change(o tc.Object) tc.Op  { return tc.Op{Verb: tc.Change, Object: o} }
func replace(o tc.Object) tc.Op { return tc.Op{Verb: tc.Replace, Object: o} }
func remove(o tc.Object) tc.Op  { return tc.Op{Verb: tc.Delete, Object: o} }

func root() tc.Qdisc {
	return tc.Qdisc{Handle: tc.MakeHandle(1, 0), Parent: tc.Root, Kind: tc.KindHTB, HTB: tc.HTB{Default: 0x100, R2Q: 10}}
}

func class(minor uint16, rate tc.BitRate) tc.Class {
	return tc.Class{ID: tc.MakeHandle(1, minor), Parent: tc.Root, Rate: rate, Ceil: rate, Quantum: 60000,
		Buffer: tc.TicksOf(64<<10, rate), Cbuffer: tc.TicksOf(64<<10, rate)}
}

func leaf(minor uint16) tc.Qdisc {
	return tc.Qdisc{Handle: tc.LeafHandle(minor), Parent: tc.MakeHandle(1, minor), Kind: tc.KindPFIFO, Limit: 500}
}

// filter is one of layout list; node is its place in the root table.
func filter(node uint32, dst string, minor uint16) tc.Filter {
	p := netip.MustParsePrefix(dst)
	f := tc.Filter{Parent: tc.MakeHandle(1, 0), Kind: tc.KindU32, Handle: tc.MakeU32Handle(0, 0, node),
		ClassID: tc.MakeHandle(1, minor), Sel: tc.MatchDestination(p)}
	f.Protocol, f.Pref = tc.ProtocolIP, uint16(12000+32-p.Bits())
	if p.Addr().Is6() {
		f.Protocol, f.Pref = tc.ProtocolIPv6, uint16(13000+128-p.Bits())
	}
	return f
}

const mbit = tc.BitRate(1_000_000)

// tree is a small tree as the plan makes it.
func tree() []tc.Op {
	return []tc.Op{
		add(root()),
		add(class(0x10, 819200*1000)), add(leaf(0x10)),
		add(class(0x20, 204800*1000)), add(leaf(0x20)),
		add(class(0x100, 204800*1000)), add(leaf(0x100)),
		add(filter(1, "10.241.28.15/32", 0x10)),
		add(filter(2, "10.241.30.1/32", 0x20)),
		add(filter(1, "10.244.14.0/24", 0x20)),
		add(filter(1, "2001:db8:1::1/128", 0x20)),
	}
}

// nodes are the u32 nodes of a state by what they match.
func nodes(s tc.State) map[string]tc.Filter {
	m := map[string]tc.Filter{}
	for _, f := range s.Filters {
		if f.IsNode() {
			d, _ := f.Destination()
			m[d.String()] = f
		}
	}
	return m
}

func TestInstallAndReadBack(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	mustApply(t, k, tree()...)
	s := observe(t, k)
	if q, ok := s.RootQdisc(); !ok || q != root() {
		t.Errorf("root is %+v, want %+v", q, root())
	}
	for _, op := range tree() {
		switch want := op.Object.(type) {
		case tc.Class:
			found := false
			for _, c := range s.Classes {
				if c.ID == want.ID {
					found = true
					want.Leaf = tc.LeafHandle(want.ID.Minor())
					if c != want {
						t.Errorf("class is %+v, want %+v", c, want)
					}
				}
			}
			if !found {
				t.Errorf("no class %s", want.ID)
			}
		case tc.Filter:
			d, _ := want.Destination()
			got := nodes(s)[d.String()]
			if got.Handle.Table() < 0x800 || got.Handle.Node() != want.Handle.Node() {
				t.Errorf("handle of %s is %s", d, got.Handle)
			}
			got.Handle = want.Handle
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("filter is %+v, want %+v", got, want)
			}
		}
	}
	if len(s.Classes) != 3 || len(s.Qdiscs) != 4 || len(nodes(s)) != 4 {
		t.Errorf("got %d classes, %d qdiscs, %d nodes", len(s.Classes), len(s.Qdiscs), len(nodes(s)))
	}
	// The independent witness.
	for _, want := range []string{
		"class htb 1:10 root leaf b010: prio 0 rate 819200Kbit ceil 819200Kbit",
		"class htb 1:100 root leaf b100: prio 0 rate 204800Kbit ceil 204800Kbit",
	} {
		if got := n.TC("class", "show", "dev", "eth1"); !strings.Contains(got, want) {
			t.Errorf("tc shows no %q in:\n%s", want, got)
		}
	}
	if got := n.TC("qdisc", "show", "dev", "eth1"); !strings.Contains(got, "qdisc htb 1: root refcnt") || !strings.Contains(got, "r2q 10 default 0x100") ||
		!strings.Contains(got, "qdisc pfifo b010: parent 1:10 limit 500p") {
		t.Errorf("tc shows\n%s", got)
	}
	if got := n.TC("filter", "show", "dev", "eth1"); !strings.Contains(got, "flowid 1:10") || !strings.Contains(got, "match 0af11c0f/ffffffff at 16") ||
		!strings.Contains(got, "match 0af40e00/ffffff00 at 16") {
		t.Errorf("tc shows\n%s", got)
	}
}

func TestObserveLink(t *testing.T) {
	n := kerneltest.New(t, kerneltest.WithAddresses(netip.MustParsePrefix("192.0.2.9/24"), netip.MustParsePrefix("10.1.1.1/8"), netip.MustParsePrefix("2001:db8::9/64")))
	n.Run(t, "ip", "addr", "add", "fe80::1/64", "dev", kerneltest.Interface)
	n.Run(t, "ip", "addr", "add", "169.254.1.1/16", "dev", kerneltest.Interface)
	n.Run(t, "ip", "link", "set", kerneltest.Interface, "txqueuelen", "123", "mtu", "1400")
	k := open(t, n)
	s := observe(t, k)
	want := fmt.Sprint([]netip.Addr{netip.MustParseAddr("10.1.1.1"), netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("2001:db8::9")})
	if fmt.Sprint(s.Link.Addresses) != want {
		t.Errorf("addresses are %s, want %s", s.Link.Addresses, want)
	}
	if l := s.Link; l.Name != "eth1" || l.MTU != 1400 || l.TxQueueLen != 123 || !l.Up || l.Index < 2 ||
		!strings.Contains(n.Run(t, "ip", "-d", "link", "show", "eth1"), fmt.Sprintf("numtxqueues %d ", l.TxQueues)) {
		t.Errorf("link is %+v", l)
	}
	if s.Link.Speed != 10_000*mbit { // what veth says, whatever it is
		t.Errorf("speed is %s, want 10gbit", s.Link.Speed)
	}
	n.Run(t, "ip", "link", "set", kerneltest.Interface, "down")
	if observe(t, k).Link.Up {
		t.Error("the link is down and seen up")
	}
	n.Run(t, "ip", "link", "add", "ifb7", "type", "ifb")
	other, err := Open(Options{Namespace: n.FD(), Interface: "ifb7"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if got := observe(t, other).Link.Speed; got != 0 {
		t.Errorf("speed of an ifb is %s, want unknown", got)
	}
}

func TestObserveWithoutInterface(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	n.Disconnect()
	if _, err := k.Observe(t.Context()); !errors.Is(err, tc.ErrNoInterface) || !strings.Contains(err.Error(), "eth1") {
		t.Errorf("got %v", err)
	}
	if _, err := k.Stats(t.Context()); !errors.Is(err, tc.ErrNoInterface) {
		t.Errorf("got %v", err)
	}
	errs := func() (errs []error) {
		for _, r := range k.Apply(t.Context(), tc.Link{Index: 4711, Name: "eth1"}, tree()) {
			errs = append(errs, r.Err)
		}
		return errs
	}()
	if !errors.Is(errs[0], tc.ErrNoInterface) || !errors.Is(errs[len(errs)-1], tc.ErrNotTried) {
		t.Errorf("got %v", errs)
	}
	n.Connect()
	mustApply(t, k, tree()...)
	if s := observe(t, k); len(s.Classes) != 3 {
		t.Errorf("after it came back: %+v", s)
	}
}
