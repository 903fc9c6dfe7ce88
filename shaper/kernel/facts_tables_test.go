package kernel

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bulkshaper/shaper/tc"
)

// table is a hash table, hung at a pref.
func table(id, divisor uint32, pref uint16) tc.Filter {
	return tc.Filter{Parent: tc.MakeHandle(1, 0), Pref: pref, Protocol: tc.ProtocolIP, Kind: tc.KindU32, Handle: tc.MakeU32Handle(id, 0, 0), Divisor: divisor}
}

func TestFactDivisors(t *testing.T) {
	_, k := setup(t)
	for divisor := uint32(1); divisor <= 512; divisor++ {
		err := applyErrors(t, k, add(table(1, divisor, 7)))[0]
		if good := divisor <= 256 && divisor&(divisor-1) == 0; good != (err == nil) {
			t.Errorf("divisor %d: %v", divisor, err)
		}
		if err == nil {
			mustApply(t, k, remove(table(1, divisor, 7)))
		}
	}
}

// Table ids from 801 on may be those of the root tables of later prefs. Kernels with "net/sched: cls_u32" fixes of 2026 (6.1.192,
// 6.12.117 at the latest) give such a root another number.
func TestFactHighTableIDsCollide(t *testing.T) {
	_, k := setup(t)
	mustApply(t, k, add(filter(1, "10.0.0.1/32", 0x10)), add(table(0x801, 4, 12000)), add(filter(1, "10.0.0.0/24", 0x20)))
	tables := map[uint32]int{}
	for _, f := range observe(t, k).Filters {
		if f.Divisor != 0 {
			tables[f.Handle.Table()]++
		}
	}
	if collided, apart := tables[0x801] == 2, tables[0x801] == 1 && len(tables) == 3; !collided && !apart {
		t.Errorf("tables by number: %v", tables)
	}
}

// hashed is a /24 whose table has a bucket for each last octet.
func hashed(t *testing.T, k *Kernel) (link tc.Filter) {
	t.Helper()
	link = filter(0x100, "10.5.5.0/24", 0x20)
	link.Pref = 7
	link.Link = tc.MakeU32Handle(1, 0, 0)
	link.Sel.HOff, link.Sel.HMask = 16, 0x000000ff
	ops := []tc.Op{add(table(1, 256, 7))}
	for octet := uint32(0); octet < 256; octet += 3 {
		f := filter(1, fmt.Sprintf("10.5.5.%d/32", octet), 0x10)
		f.Pref, f.Handle = 7, tc.MakeU32Handle(1, octet, 1)
		ops = append(ops, add(f))
	}
	mustApply(t, k, append(ops, add(link))...)
	return link
}

// Hash tables work with what our encoder makes of a hash key: every address meets its own node, and those without
// one fall back to the link's class.
func TestFactHashTables(t *testing.T) {
	n, k := setup(t)
	link := hashed(t, k)
	for octet := range 256 {
		minor := 0x20
		if octet%3 == 0 {
			minor = 0x10
		}
		goesTo(t, k, fmt.Sprintf("octet %d", octet), minor, func() { n.Send(t, addr(fmt.Sprintf("10.5.5.%d", octet)), 1) })
	}
	goesTo(t, k, "outside", 0x100, func() { n.Send(t, addr("10.5.6.0"), 3) })
	got := nodes(observe(t, k))["10.5.5.0/24"]
	link.Handle = got.Handle
	if !reflect.DeepEqual(got, link) {
		t.Errorf("link is %+v, want %+v", got, link)
	}
	if out := n.TC("filter", "show", "dev", "eth1"); !strings.Contains(out, "link 1:") || !strings.Contains(out, "hash mask 000000ff at 16") {
		t.Errorf("tc shows no hash key in %.600s", out)
	}
}

func TestFactLinkedTableIsBusy(t *testing.T) {
	n, k := setup(t)
	hashed(t, k)
	if err := applyErrors(t, k, remove(table(1, 256, 7)))[0]; !errors.Is(err, unix.EBUSY) || !strings.Contains(err.Error(), "in-use") {
		t.Errorf("got %v", err)
	}
	// A change in place with link 0 takes the link away and leaves the class.
	link := nodes(observe(t, k))["10.5.5.0/24"]
	link.Link = 0
	mustApply(t, k, change(link))
	goesTo(t, k, "without its link", 0x20, func() { n.Send(t, addr("10.5.5.3"), 3) })
	link.Link = tc.MakeU32Handle(1, 0, 0)
	mustApply(t, k, change(link))
	goesTo(t, k, "with its link", 0x10, func() { n.Send(t, addr("10.5.5.3"), 3) })
	link.Link = 0
	mustApply(t, k, change(link))
	// The table is free only after a grace period: EBUSY till then.
	deadline := time.Now().Add(5 * time.Second)
	for {
		err := applyErrors(t, k, remove(table(1, 256, 7)))[0]
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if got := len(nodes(observe(t, k))); got != 1 {
		t.Errorf("%d nodes are left, want the link", got)
	}
}
