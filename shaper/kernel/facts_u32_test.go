package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"testing"

	gotc "github.com/florianl/go-tc"
	"golang.org/x/sys/unix"

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
// that a filter could be deleted by; later kernels (6.1.192, 6.12.117 at the latest) refuse them.
func TestFactRootTablesRunOut(t *testing.T) {
	_, k := setup(t)
	link := observe(t, k).Link
	for i := range 2100 {
		f := filter(1, "10.0.0.1/32", 0x10)
		f.Pref = uint16(20000 + i)
		err := k.Apply(t.Context(), link, []tc.Op{add(f)})[0].Err
		if errors.Is(err, unix.ENOMEM) && i == 2047 {
			return
		}
		if err != nil {
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
