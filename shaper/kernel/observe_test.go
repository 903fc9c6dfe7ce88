package kernel

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"bulkshaper/shaper/kernel/kerneltest"
	"bulkshaper/shaper/tc"
)

// What was read before may save reading: whatever changes in between, Observe says what one that has read nothing before says.
func TestObserveAgain(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	mustApply(t, k, tree()[:7]...)
	dev := kerneltest.Interface
	random := rand.New(rand.NewPCG(1, 1))
	steps := []func(i int){
		func(i int) {
			mustApply(t, k, add(filter(uint32(100+i), fmt.Sprintf("10.1.%d.%d/32", i/256, i%256), 0x10)))
		},
		func(i int) {
			n.TC("filter", "add", "dev", dev, "parent", "1:", "pref", "7", "protocol", "all", "u32", "match", "u32", "0", "0", "flowid", "1:10")
		},
		func(i int) { n.TC("filter", "del", "dev", dev, "parent", "1:", "pref", "7") },
		func(i int) {
			n.TC("class", "change", "dev", dev, "parent", "1:", "classid", "1:10", "htb", "rate", fmt.Sprintf("%dmbit", 5+i))
		},
		func(i int) { n.Run(t, "ip", "link", "set", dev, "mtu", fmt.Sprint(1400+i)) },
		func(i int) {}, func(i int) {},
	}
	foreign := false
	for i := range 60 {
		step := random.IntN(len(steps))
		if step == 1 && foreign || step == 2 && !foreign {
			step = 0
		}
		foreign = foreign && step != 2 || step == 1
		steps[step](i)
		for range 1 + i%2 {
			if got, want := observe(t, k), observe(t, open(t, n)); !reflect.DeepEqual(got, want) {
				t.Fatalf("after step %d (%d): %+v\nwant %+v", i, step, got, want)
			}
		}
	}
}

// TestObserveGivesTheSameList: a reading that found nothing new has the very list of the one before.
func TestObserveGivesTheSameList(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	mustApply(t, k, tree()[:7]...)
	mustApply(t, k, add(filter(1, "10.1.0.1/32", 0x10)), add(filter(2, "10.1.0.2/32", 0x10)))
	dev := kerneltest.Interface
	read := func() tc.State {
		s, err := k.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	// The same list tells the loop that there is nothing to compare.
	a, b := read(), read()
	if !a.Same(b) || len(a.Filters) == 0 {
		t.Error("nothing changed, and the lists are others")
	}
	n.Send(t, addr("10.1.0.2"), 3)
	before := read()
	if !before.Same(b) {
		t.Error("packets were sent, and the lists are others")
	}
	// Some kernels count: that is new all the same.
	if counted, grown := b.Hits != nil, !slices.Equal(b.Hits, before.Hits); counted != grown || counted && len(before.Hits) != len(before.Filters) {
		t.Errorf("3 packets: hits were %v, are %v", b.Hits, before.Hits)
	}
	shown := before.Filters[slices.IndexFunc(before.Filters, func(f tc.Filter) bool { d, _ := f.Destination(); return f.IsNode() && d.String() == "10.1.0.1/32" })]
	n.TC("filter", "replace", "dev", dev, "parent", "1:", "protocol", "ip", "pref", fmt.Sprint(shown.Pref), "handle", shown.Handle.String(), "u32", "flowid", "1:ffff")
	changed := read()
	if changed.Same(before) || reflect.DeepEqual(changed.Filters, before.Filters) {
		t.Error("a filter leads elsewhere, and it is the same")
	}
	n.TC("filter", "del", "dev", dev, "parent", "1:", "pref", fmt.Sprint(shown.Pref))
	if after := read(); after.Same(changed) || len(after.Filters) >= len(changed.Filters) {
		t.Error("filters are gone, and it is the same")
	}
	var none tc.State
	if before.Same(none) {
		t.Error("the same as nothing")
	}
}
