package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"bulkshaper/shaper/kernel/kerneltest"
	"bulkshaper/shaper/tc"
)

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
			Sel: tc.Selector{Flags: rapid.Byte().Draw(r, "flags"), OffShift: rapid.ByteMax(15).Draw(r, "offshift"), OffMask: rapid.Uint16().Draw(r, "offmask"),
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

// A node that does more than its keys and its class say is told from one that does not.
func TestExtraIsSeen(t *testing.T) {
	n, k := setup(t)
	n.TC("filter", "add", "dev", "eth1", "parent", "1:", "protocol", "ip", "pref", "6", "u32", "match", "ip", "dst", "10.0.0.9", "indev", "lo", "flowid", "1:20")
	f := nodes(observe(t, k))["10.0.0.9/32"]
	same := tc.MatchDestination(netip.MustParsePrefix("10.0.0.9/32"))
	if !f.Sel.Extra || f.Sel.MatchID() == same.MatchID() {
		t.Errorf("got %+v", f)
	}
}

// Chains other than the first are not entered by themselves: filters there are somebody else's. (At a pref that the first
// chain has too, the kernel dumps the nodes of both under both, since u32_walk goes by the pref alone: there they cannot be told apart.)
func TestOtherChainsAreLeftOut(t *testing.T) {
	n, k := setup(t)
	n.TC("filter", "add", "dev", "eth1", "parent", "1:", "chain", "7", "protocol", "ip", "pref", "12001", "u32", "match", "ip", "dst", "10.0.0.9", "flowid", "1:20")
	mustApply(t, k, add(filter(1, "10.0.0.1/32", 0x10)))
	if got := nodes(observe(t, k)); len(got) != 1 || got["10.0.0.1/32"].Handle == 0 {
		t.Errorf("got %+v", got)
	}
}

// What a kernel with CONFIG_CLS_U32_PERF counts is what tc prints, goes on through a change in place, and begins anew with a
// new node. Other kernels count nothing, and tc prints nothing.
func TestHitsAsTCPrintsThem(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	mustApply(t, k, tree()...)
	read := func() tc.State {
		s, err := k.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	counts := strings.Contains(n.TC("-s", "filter", "show", "dev", "eth1"), "rule hit")
	check := func(destination string, want uint64) {
		t.Helper()
		s := read()
		f := nodes(s)[destination]
		i := slices.IndexFunc(s.Filters, func(o tc.Filter) bool { return o.Pref == f.Pref && o.Handle == f.Handle })
		switch {
		case !counts && s.Hits != nil:
			t.Errorf("the kernel does not count, and gives %v", s.Hits)
		case counts && (len(s.Hits) != len(s.Filters) || s.Hits[i] != want):
			t.Errorf("%s: hits %v of %d filters, want %d at %d", destination, s.Hits, len(s.Filters), want, i)
		}
		shown := n.TC("-s", "filter", "show", "dev", "eth1", "parent", "1:", "pref", fmt.Sprint(f.Pref), "protocol", f.Protocol.String())
		line := regexp.MustCompile(`(?m)fh ` + f.Handle.String() + ` .*success (\d+)`).FindStringSubmatch(shown)
		switch {
		case counts && (line == nil || line[1] != fmt.Sprint(want)):
			t.Errorf("%s: want %d, tc shows\n%s", destination, want, shown)
		case !counts && line != nil:
			t.Errorf("%s: tc shows %s", destination, line[0])
		}
	}
	n.Send(t, addr("10.241.28.15"), 5)
	n.Send(t, addr("10.244.14.200"), 3)
	n.Send(t, addr("2001:db8:1::1"), 2)
	n.Send(t, addr("10.9.9.9"), 7)
	check("10.241.28.15/32", 5)
	check("10.241.30.1/32", 0)
	check("10.244.14.0/24", 3)
	check("2001:db8:1::1/128", 2)

	moved := nodes(read())["10.241.28.15/32"]
	moved.ClassID = tc.MakeHandle(1, 0x20)
	mustApply(t, k, change(moved))
	n.Send(t, addr("10.241.28.15"), 4)
	check("10.241.28.15/32", 9)
	mustApply(t, k, remove(moved), add(filter(1, "10.241.28.15/32", 0x10)))
	n.Send(t, addr("10.241.28.15"), 1)
	check("10.241.28.15/32", 1)
}
