package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	gotc "github.com/florianl/go-tc"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"bulkshaper/shaper/kernel/wire"
	"bulkshaper/shaper/tc"
)

// raw sends one filter message with flags of the test's choice.
func raw(t *testing.T, k *Kernel, flags uint16, f tc.Filter) error {
	t.Helper()
	index := observe(t, k).Link.Index
	k.write.mu.Lock()
	defer k.write.mu.Unlock()
	b := newBatch(k.write)
	b.bytes = wire.AppendAddFilter(b.bytes, b.header(flags), index, f)
	return b.send()[0]
}

func TestFactNewKeysNeedANewHandle(t *testing.T) {
	n, k := setup(t)
	mustApply(t, k, add(filter(1, "10.0.0.1/32", 0x10)))
	f := nodes(observe(t, k))["10.0.0.1/32"]
	f.ClassID, f.Sel = tc.MakeHandle(1, 0x20), tc.MatchDestination(netip.MustParsePrefix("10.0.0.2/32"))
	if err := raw(t, k, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, f); err != nil {
		t.Fatal(err)
	}
	got := nodes(observe(t, k))
	if len(got) != 1 || got["10.0.0.1/32"].ClassID != f.ClassID {
		t.Errorf("got %+v", got)
	}
	goesTo(t, k, "old key", 0x20, func() { n.Send(t, addr("10.0.0.1"), 5) })
	goesTo(t, k, "new key", 0x100, func() { n.Send(t, addr("10.0.0.2"), 5) })
}

func TestFactChangeInPlace(t *testing.T) {
	n, k := setup(t)
	mustApply(t, k, add(filter(1, "10.0.0.1/32", 0x10)))
	before := nodes(observe(t, k))["10.0.0.1/32"]
	f := before
	f.ClassID = tc.MakeHandle(1, 0x20)
	mustApply(t, k, change(f))
	if got := nodes(observe(t, k))["10.0.0.1/32"]; !reflect.DeepEqual(got, f) {
		t.Errorf("got %+v, want %+v", got, f)
	}
	goesTo(t, k, "changed", 0x20, func() { n.Send(t, addr("10.0.0.1"), 5) })
	// The old class is free at once.
	mustApply(t, k, remove(leaf(0x10)), remove(class(0x10, mbit)))
	missing := f
	missing.Handle = tc.MakeU32Handle(f.Handle.Table(), 0, 9)
	if err := applyErrors(t, k, change(missing))[0]; !errors.Is(err, unix.ENOENT) {
		t.Errorf("change of what is not there: %v", err)
	}
	missing = f
	missing.Pref = 15000
	if err := applyErrors(t, k, change(missing))[0]; !errors.Is(err, unix.ENOENT) {
		t.Errorf("change at a pref that is not there: %v", err)
	}
}

// A change without a class takes the class away: the packets go to default at once.
func TestFactChangeWithoutClassClearsIt(t *testing.T) {
	n, k := setup(t)
	mustApply(t, k, add(filter(1, "10.0.0.1/32", 0x10)))
	f := nodes(observe(t, k))["10.0.0.1/32"]
	f.ClassID = tc.Unspec
	mustApply(t, k, change(f))
	goesTo(t, k, "without a class", 0x100, func() { n.Send(t, addr("10.0.0.1"), 5) })
}

func TestFactAddOfATakenHandle(t *testing.T) {
	_, k := setup(t)
	mustApply(t, k, add(filter(1, "10.0.0.1/32", 0x10)))
	full := nodes(observe(t, k))["10.0.0.1/32"]
	for _, f := range []tc.Filter{full, filter(1, "10.0.0.2/32", 0x20)} {
		if err := applyErrors(t, k, add(f))[0]; !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%s: %v", f.Handle, err)
		}
	}
	if got := nodes(observe(t, k)); len(got) != 1 || got["10.0.0.1/32"].ClassID != full.ClassID {
		t.Errorf("got %+v", got)
	}
}

func TestFactAddWithoutHandleDuplicates(t *testing.T) {
	n, k := setup(t)
	for range 2 {
		n.TC("filter", "add", "dev", "eth1", "parent", "1:", "protocol", "ip", "pref", "7", "u32", "match", "ip", "dst", "10.0.0.1", "flowid", "1:10")
	}
	count := 0
	for _, f := range observe(t, k).Filters {
		if f.IsNode() {
			count++
		}
	}
	if count != 2 {
		t.Errorf("%d nodes, want 2", count)
	}
}

func TestFactRootTableBelongsToThePref(t *testing.T) {
	n, k := setup(t)
	first, second := filter(1, "10.0.0.1/32", 0x10), filter(1, "10.0.0.0/24", 0x20)
	mustApply(t, k, add(first), add(second))
	got := nodes(observe(t, k))
	if a, b := got["10.0.0.1/32"].Handle.Table(), got["10.0.0.0/24"].Handle.Table(); a != 0x800 || b != 0x801 {
		t.Errorf("root tables are %x and %x", a, b)
	}
	// A table's number written down lands in the other pref's table, and nobody complains.
	wrong := filter(2, "10.9.0.0/24", 0x20)
	wrong.Handle = tc.MakeU32Handle(0x800, 0, 2)
	mustApply(t, k, add(wrong))
	if f := nodes(observe(t, k))["10.9.0.0/24"]; f.Pref != first.Pref {
		t.Errorf("it is at pref %d", f.Pref)
	}
	goesTo(t, k, "it works all the same", 0x20, func() { n.Send(t, addr("10.9.0.5"), 5) })
}

// What the kernel dumps as flags (not in hardware) is not what it takes.
func TestFactDumpedFlagsAreRefused(t *testing.T) {
	_, k := setup(t)
	index := uint32(observe(t, k).Link.Index)
	flags, classID := uint32(8), uint32(0x10010)
	object := &gotc.Object{
		Msg:       gotc.Msg{Ifindex: index, Parent: 0x10000, Info: 7<<16 | 0x0008},
		Attribute: gotc.Attribute{Kind: "u32", U32: &gotc.U32{ClassID: &classID, Flags: &flags, Sel: &gotc.U32Sel{Flags: 1}}},
	}
	if err := explainEncoded(k.encoder.Filter().Add(object)); !errors.Is(err, unix.EINVAL) {
		t.Errorf("got %v", err)
	}
}

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

// Table ids from 801 on may be those of the root tables of later prefs.
func TestFactHighTableIDsCollide(t *testing.T) {
	_, k := setup(t)
	mustApply(t, k, add(filter(1, "10.0.0.1/32", 0x10)), add(table(0x801, 4, 12000)), add(filter(1, "10.0.0.0/24", 0x20)))
	count := 0
	for _, f := range observe(t, k).Filters {
		if f.Divisor != 0 && f.Handle.Table() == 0x801 {
			count++
		}
	}
	if count != 2 {
		t.Errorf("%d tables 801:, want 2", count)
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

// Handle 0 in a deletion is the pref, with all its nodes and tables. That is why it is refused before it is sent.
func TestFactHandle0IsThePref(t *testing.T) {
	_, k := setup(t)
	hashed(t, k)
	mustApply(t, k, add(filter(1, "10.0.0.1/32", 0x10)))
	index := observe(t, k).Link.Index
	k.write.mu.Lock()
	b := newBatch(k.write)
	b.bytes = wire.AppendDeleteFilter(b.bytes, b.header(0), index, tc.Filter{Parent: tc.MakeHandle(1, 0), Pref: 7, Protocol: tc.ProtocolIP, Kind: tc.KindU32})
	err := b.send()[0]
	k.write.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if got := nodes(observe(t, k)); len(got) != 1 {
		t.Errorf("%d nodes are left, want that of the other pref", len(got))
	}
}

// With a single pref the last node takes the pref and all tables along.
func TestFactLastNodeTakesThePref(t *testing.T) {
	_, k := setup(t)
	mustApply(t, k, add(filter(1, "10.0.0.1/32", 0x10)), add(table(5, 16, 12000)))
	mustApply(t, k, remove(nodes(observe(t, k))["10.0.0.1/32"]))
	if got := observe(t, k).Filters; len(got) != 0 {
		t.Errorf("left are %+v", got)
	}
}

// 4095 nodes fit into a bucket; handles of the kernel's choice are then given twice, without an error.
func TestFactBucketsHold4095Nodes(t *testing.T) {
	n, k := setup(t)
	var ops []tc.Op
	for i := range uint32(4095) {
		ops = append(ops, add(filter(i+1, fmt.Sprintf("10.%d.%d.%d/32", i>>16, i>>8&255, i&255), 0x10)))
	}
	mustApply(t, k, ops...)
	if got := len(nodes(observe(t, k))); got != 4095 {
		t.Fatalf("%d nodes", got)
	}
	if err := applyErrors(t, k, add(filter(4095, "10.9.9.9/32", 0x10)))[0]; err == nil {
		t.Error("a handle was given twice")
	}
	_, err := n.TryTC("filter", "add", "dev", "eth1", "parent", "1:", "protocol", "ip", "pref", "12000", "u32", "match", "ip", "dst", "10.9.9.9", "flowid", "1:10")
	count := 0
	for _, f := range observe(t, k).Filters {
		if f.IsNode() && f.Handle.Node() == 0xfff {
			count++
		}
	}
	if err == nil && count != 2 { // later kernels answer ENOSPC
		t.Errorf("no error, and %d nodes fff", count)
	}
}

// There are 2047 numbers for root tables. The prefs behind them are accepted and all get the number 0, which is no handle
// that a filter could be deleted by.
func TestFactRootTablesRunOut(t *testing.T) {
	_, k := setup(t)
	link := observe(t, k).Link
	for i := range 2100 {
		f := filter(1, "10.0.0.1/32", 0x10)
		f.Pref = uint16(20000 + i)
		if err := k.Apply(t.Context(), link, []tc.Op{add(f)})[0].Err; err != nil {
			t.Fatalf("pref %d: %v", i, err)
		}
	}
	lost := 0
	for _, f := range observe(t, k).Filters {
		if f.IsNode() && f.Handle.Table() == 0 {
			lost++
		}
	}
	if lost != 2100-2047 {
		t.Errorf("%d prefs have no number, want %d", lost, 2100-2047)
	}
}

// While filters are moved to new places there is always one for each destination: a reading with less is torn, and is not
// handed out.
func TestObserveIsOfOneMoment(t *testing.T) {
	const count = 1500
	_, k := setup(t)
	var ops []tc.Op
	for i := range uint32(count) {
		ops = append(ops, add(filter(i+1, fmt.Sprintf("10.1.%d.%d/32", i>>8, i&255), 0x10)))
	}
	mustApply(t, k, ops...)
	s := observe(t, k)
	rootTable := nodes(s)["10.1.0.0/32"].Handle.Table()
	ctx, cancel := context.WithCancel(t.Context())
	var mover sync.WaitGroup
	mover.Go(func() {
		// Each filter moves from the end of the list to its head and back, so that a reading can miss it in both places.
		for from, to := uint32(count), uint32(4000); ctx.Err() == nil; from, to = to, from {
			f := filter(to, fmt.Sprintf("10.1.%d.%d/32", (count-1)>>8, (count-1)&255), 0x10)
			old := f
			old.Handle = tc.MakeU32Handle(rootTable, 0, from)
			for _, r := range k.Apply(t.Context(), s.Link, []tc.Op{add(f), remove(old)}) {
				if r.Err != nil {
					t.Errorf("%s: %v", r.Op, r.Err)
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Millisecond):
			}
		}
	})
	read := 0
	for range 60 {
		got, err := k.Observe(t.Context())
		if errors.Is(err, errTorn) {
			continue
		}
		if err != nil {
			t.Error(err)
			break
		}
		read++
		if have := len(nodes(got)); have != count {
			t.Errorf("%d destinations, want %d", have, count)
		}
	}
	cancel()
	mover.Wait()
	if read == 0 {
		t.Error("never read: the test proves nothing")
	}
}

// Random nodes come back from the kernel as they were sent.
func TestFiltersComeBackExactly(t *testing.T) {
	_, k := setup(t)
	mustApply(t, k, add(table(1, 256, 7)), add(filter(1, "192.0.2.0/24", 0x10)))
	rapid.Check(t, func(r *rapid.T) {
		want := tc.Filter{Parent: tc.MakeHandle(1, 0), Pref: 7, Protocol: tc.ProtocolIP, Kind: tc.KindU32,
			Handle:  tc.MakeU32Handle(1, rapid.Uint32Range(0, 255).Draw(r, "bucket"), rapid.Uint32Range(1, 0xfff).Draw(r, "node")),
			ClassID: rapid.SampledFrom([]tc.Handle{0, tc.MakeHandle(1, 0x10), tc.MakeHandle(1, 0x20)}).Draw(r, "class"),
			Link:    rapid.SampledFrom([]tc.U32Handle{0, tc.MakeU32Handle(1, 0, 0)}).Draw(r, "link"),
			Sel: tc.Selector{Flags: rapid.Byte().Draw(r, "flags"), OffShift: rapid.Byte().Draw(r, "offshift"), OffMask: rapid.Uint16().Draw(r, "offmask"),
				Off: rapid.Uint16().Draw(r, "off"), OffOff: rapid.Int16().Draw(r, "offoff"), HOff: rapid.Int16().Draw(r, "hoff"), HMask: rapid.Uint32().Draw(r, "hmask")},
		}
		for range rapid.IntRange(0, 128).Draw(r, "keys") {
			mask := rapid.Uint32().Draw(r, "mask")
			want.Sel.Keys = append(want.Sel.Keys, tc.Key{Mask: mask, Value: rapid.Uint32().Draw(r, "value") & mask,
				Off: rapid.Int32().Draw(r, "at"), OffMask: rapid.Int32().Draw(r, "atmask")})
		}
		mustApply(t, k, add(want))
		found := false
		for _, f := range observe(t, k).Filters {
			if f.Handle == want.Handle {
				found = true
				if !reflect.DeepEqual(f, want) {
					r.Errorf("sent %+v, came back %+v", want, f)
				}
			}
		}
		if !found {
			r.Errorf("%s did not come back", want.Handle)
		}
		mustApply(t, k, remove(want))
	})
}

// What tc makes reads as what we would have made.
func TestReadsTCsFilters(t *testing.T) {
	n, k := setup(t)
	for i, dst := range []string{"10.0.0.1/32", "10.244.14.0/24", "10.0.0.0/9", "2001:db8::1/128", "2001:db8:1::/48", "2001:db8:0:1200::/57"} {
		want := filter(uint32(i+1), dst, 0x20)
		n.TC(strings.Fields(add(want).TC("eth1"))...)
		got, ok := nodes(observe(t, k))[dst]
		want.Handle = tc.MakeU32Handle(got.Handle.Table(), 0, want.Handle.Node())
		if !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("tc made %+v, want %+v", got, want)
		}
	}
}

// Filters of other kinds and other prefs are seen, and nothing of ours touches them.
func TestForeignFiltersStay(t *testing.T) {
	n, k := setup(t)
	n.TC("filter", "add", "dev", "eth1", "parent", "1:", "protocol", "all", "pref", "5", "bpf", "bytecode", "1,6 0 0 0", "flowid", "1:20")
	n.TC("filter", "add", "dev", "eth1", "parent", "1:", "protocol", "ip", "pref", "6", "u32", "match", "ip", "dst", "10.0.0.9", "flowid", "1:20")
	seen := func() (kinds []string) {
		for _, f := range observe(t, k).Filters {
			switch {
			case f.Kind == "bpf" && f.Pref == 5 && f.Protocol == tc.ProtocolAll && f.Handle != 0 && !f.IsNode():
				kinds = append(kinds, f.Kind)
			case f.Pref == 6 && f.IsNode():
				kinds = append(kinds, f.Kind)
			}
		}
		return kinds
	}
	mustApply(t, k, add(filter(1, "10.0.0.1/32", 0x10)), add(filter(2, "10.0.0.2/32", 0x10)))
	mustApply(t, k, remove(nodes(observe(t, k))["10.0.0.1/32"]), remove(nodes(observe(t, k))["10.0.0.2/32"]))
	if got := fmt.Sprint(seen()); got != "[bpf u32]" {
		t.Errorf("foreign filters are %s", got)
	}
}
