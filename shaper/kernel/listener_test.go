package kernel

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bulkshaper/shaper/kernel/kerneltest"
	"bulkshaper/shaper/kernel/wire"
	"bulkshaper/shaper/tc"
)

// TestListenerHearsChanges: each kind of change to the interface's traffic control disturbs a reading, and nothing else does.
func TestListenerHearsChanges(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	mustApply(t, k, tree()...)
	n.Run(t, "ip", "link", "add", "ifb1", "type", "ifb")
	n.Run(t, "ip", "link", "set", "ifb1", "up")
	index := observe(t, k).Link.Index
	failure := errors.New("failure")
	fill := func() (err error) {
		for i := range 300 {
			n.TC("class", "change", "dev", "eth1", "parent", "1:", "classid", "1:10", "htb", "rate", fmt.Sprintf("%dmbit", 5+i%2))
		}
		return nil
	}
	command := func(line string) func() error {
		return func() error { n.TC(strings.Fields(line)...); return nil }
	}
	for _, step := range []struct {
		name  string
		do    func() error
		still bool
	}{
		{"nothing", func() error { return nil }, true},
		{"a qdisc", command("qdisc replace dev eth1 parent 1:10 handle b010: pfifo limit 7"), false},
		{"a class", command("class change dev eth1 parent 1: classid 1:10 htb rate 5mbit"), false},
		{"a filter comes", command("filter add dev eth1 parent 1: pref 7 protocol ip u32 match ip dst 203.0.113.5/32 flowid 1:10"), false},
		{"a pref goes", command("filter del dev eth1 parent 1: pref 7"), false},
		{"nothing since", func() error { return nil }, true},
		{"a chain", command("chain add dev eth1 parent 1: chain 5"), false},
		{"another interface", command("qdisc replace dev ifb1 root pfifo limit 7"), true},
		{"an address", func() error { n.Run(t, "ip", "addr", "add", "198.51.100.1/32", "dev", "eth1"); return nil }, true},
		{"a failure", func() error { return failure }, false},
		{"too much", fill, false},
		{"nothing at the end", func() error { return nil }, true},
	} {
		if step.name == "too much" {
			if err := unix.SetsockoptInt(k.listener.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1); err != nil {
				t.Fatal(err)
			}
		}
		still, err := k.listener.during(index, step.do)
		if want := step.name == "a failure"; still != step.still || errors.Is(err, failure) != want || !want && err != nil {
			t.Errorf("%s: still %v, %v", step.name, still, err)
		}
	}
	n.TC("class", "change", "dev", "eth1", "parent", "1:", "classid", "1:10", "htb", "rate", "5mbit")
	if still, err := k.listener.during(index, func() error { return nil }); !still || err != nil {
		t.Errorf("what happened before the reading disturbs it: %v", err)
	}
}

// TestOneReadingIsEnough: where nobody disturbs it one reading counts, also after changes of our own; what somebody else changed is read
// a second time, decoded.
func TestOneReadingIsEnough(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	mustApply(t, k, tree()...)
	for _, step := range []struct {
		name string
		do   func()
		want uint64
	}{
		{"the first", func() {}, 1},
		{"again", func() {}, 1},
		{"own change", func() { mustApply(t, k, add(filter(200, "10.9.9.9/32", 0x10))) }, 1},
		{"again after it", func() {}, 1},
		{"somebody else's", func() { n.TC("filter", "del", "dev", "eth1", "parent", "1:", "pref", "12000") }, 2},
	} {
		step.do()
		before := k.Dumps("filter")
		got := observe(t, k)
		if reads := k.Dumps("filter") - before; reads != step.want {
			t.Errorf("%s: filters were read %d times, want %d", step.name, reads, step.want)
		}
		if want := observe(t, open(t, n)); len(got.Filters) != len(want.Filters) {
			t.Errorf("%s: %d filters, want %d", step.name, len(got.Filters), len(want.Filters))
		}
	}
}

// TestPrefOrder: what the kernel sends where a pref came or went while it went through them.
func TestPrefOrder(t *testing.T) {
	pref := func(n, handle uint32) wire.Object {
		o := wire.Object{Info: n<<16 | 8, Handle: handle, Kind: tc.KindU32}
		if handle != 0 {
			o.Options = []byte{1}
		}
		return o
	}
	numberless := wire.Object{Info: 9 << 16, Kind: tc.KindU32, Options: []byte{1}}
	for _, c := range []struct {
		name string
		dump []wire.Object
		torn bool
	}{
		{"whole", []wire.Object{pref(7, 0), pref(7, 0x80000000), pref(7, 0x80000001), pref(9, 0), pref(9, 0x80100000)}, false},
		{"a root table without a number", []wire.Object{pref(7, 0), pref(7, 0x80000000), pref(9, 0), numberless}, false},
		{"begun again", []wire.Object{pref(9, 0), pref(9, 0x80000000), pref(9, 0), pref(9, 0x80000000)}, true},
		{"back to a lower one", []wire.Object{pref(9, 0), pref(9, 0x80000000), pref(7, 0)}, true},
		{"in the midst of another", []wire.Object{pref(7, 0), pref(7, 0x80000000), pref(9, 0x80100000)}, true},
		{"in the midst of the first", []wire.Object{pref(9, 0x80100000)}, true},
	} {
		var order prefOrder
		torn := false
		for _, o := range c.dump {
			torn = torn || order.take(o) != nil
		}
		if torn != c.torn {
			t.Errorf("%s: torn %v", c.name, torn)
		}
	}
}

// TestReadingWhileOthersComeAndGo: a neighbour's 500 filters ahead of ours come and go without a pause; no reading that counts lacks one
// of ours or has one twice.
//
// PROMISES.md: The kernel's tables change while they are read
func TestReadingWhileOthersComeAndGo(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	mustApply(t, k, tree()[:7]...)
	const ours = 600
	var ops []tc.Op
	for i := range uint32(ours) {
		ops = append(ops, add(filter(i+1, fmt.Sprintf("10.9.%d.%d/32", i>>8, i&255), 0x10)))
	}
	mustApply(t, k, ops...)
	var come strings.Builder
	for i := range 500 {
		fmt.Fprintf(&come, "filter add dev eth1 parent 1: pref 7 protocol ip u32 match ip dst 10.8.%d.%d/32 flowid 1:10\n", i>>8, i&255)
	}
	done := make(chan struct{})
	var neighbour sync.WaitGroup
	neighbour.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			_ = n.TCBatch(come.String())
			_ = n.TCBatch("filter del dev eth1 parent 1: pref 7\n")
		}
	})
	defer neighbour.Wait()
	defer close(done)
	counted := 0
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		s, err := k.Observe(t.Context())
		if errors.Is(err, errTorn) {
			continue // said, not guessed
		}
		if err != nil {
			t.Fatal(err)
		}
		counted++
		nodes := slices.DeleteFunc(slices.Clone(s.Filters), func(f tc.Filter) bool { return !f.IsNode() || f.Pref == 7 })
		if len(nodes) != ours {
			t.Fatalf("reading %d has %d of our %d filters", counted, len(nodes), ours)
		}
	}
	if counted < 5 {
		t.Errorf("%d readings counted", counted)
	}
}
