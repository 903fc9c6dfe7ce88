package kernel

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bulkshaper/shaper/kernel/kerneltest"
	"bulkshaper/shaper/tc"
)

// exact adds a class by go-tc and changes another to the same by the raw message, and wants both back exactly.
func exact(t rapid.TB, apply func(...tc.Op), read func() tc.State, want tc.Class) {
	other := want
	other.ID, other.Rate, other.Ceil = tc.MakeHandle(1, 0x20), 8*mbit, 8*mbit
	changed := want
	changed.ID = other.ID
	apply(add(root()), add(other), add(leaf(0x20)), add(want), change(changed))
	s := read()
	apply(remove(root()))
	want.Leaf, changed.Leaf = 0, tc.LeafHandle(0x20)
	for _, c := range s.Classes {
		w := want
		if c.ID == changed.ID {
			w = changed
		}
		if c != w {
			t.Fatalf("sent %+v, came back %+v", w, c)
		}
	}
	if len(s.Classes) != 2 {
		t.Fatalf("%d classes came back", len(s.Classes))
	}
}

// Every rate from 1 Mbit/s to 400 Gbit/s and beyond comes back from the kernel exactly as it was sent, by both encoders.
func TestRatesComeBackExactly(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	apply := func(ops ...tc.Op) { mustApply(t, k, ops...) }
	read := func() tc.State { return observe(t, k) }
	const gib4 = tc.BitRate(8) << 32 // 2^32 bytes per second, where the 64 bit attributes begin
	for _, rate := range []tc.BitRate{
		8, mbit, 10 * mbit, 204800 * 1000, 819200 * 1000, 1000 * mbit, 10_000 * mbit, 25_000 * mbit, 40_000 * mbit, 100_000 * mbit, 400_000 * mbit,
		gib4 - 16, gib4 - 8, gib4, gib4 + 8, 2 * gib4, 3 * gib4, 11 * gib4, tc.MaxBitRate,
	} {
		c := class(0x10, rate)
		exact(t, apply, read, c)
		if rate > 8 {
			c.Rate -= 8 // rate and ceil on either side of the boundary
			exact(t, apply, read, c)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		rate := tc.BitRate(rapid.Uint64Range(125_000, 50_000_000_000).Draw(r, "rate") * 8)
		ceil := rate + tc.BitRate(rapid.Uint64Range(0, 10_000_000_000).Draw(r, "more")*8)
		c := class(0x10, rate)
		c.Ceil = ceil
		c.Buffer = tc.Ticks(rapid.Uint32().Draw(r, "buffer"))
		c.Cbuffer = tc.Ticks(rapid.Uint32().Draw(r, "cbuffer"))
		c.Quantum = rapid.Uint32Range(1, 200_000).Draw(r, "quantum")
		c.Prio = rapid.Uint32Range(0, 7).Draw(r, "prio")
		exact(r, apply, read, c)
	})
}

// What tc prints of our rates and bursts is what was meant, though it cuts the time to whole microseconds, and what it makes of
// our line is the same to the tick.
func TestRatesAsTCPrintsThem(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	for _, c := range []struct {
		rate  tc.BitRate
		burst tc.Bytes
		want  string
	}{
		{10 * mbit, 1600, "rate 10Mbit ceil 10Mbit burst 1600b cburst 1600b"},
		{204800 * 1000, 1561, "rate 204800Kbit ceil 204800Kbit burst 1561b cburst 1561b"},
		{819200 * 1000, 1433, "rate 819200Kbit ceil 819200Kbit burst 1433b cburst 1433b"},
		{204800 * 1000, 1585, "rate 204800Kbit ceil 204800Kbit burst 1561b cburst 1561b"},
		{819200 * 1000, 1533, "rate 819200Kbit ceil 819200Kbit burst 1433b cburst 1433b"},
		{500 * mbit, 64 << 10, "rate 500Mbit ceil 500Mbit burst 66000b cburst 66000b"},
		{333_333_336, 64 << 10, "rate 333333Kbit ceil 333333Kbit burst 65666b cburst 65666b"},
		{123_456, 64 << 10, "rate 123456bit ceil 123456bit burst 64Kb cburst 64Kb"},
		{2000, 64 << 10, "rate 2Kbit ceil 2Kbit burst 64Kb cburst 64Kb"},
		{40_000 * mbit, 1600, "rate 40Gbit ceil 40Gbit"},
		{40_000 * mbit, 5_000_000, "rate 40Gbit ceil 40Gbit"},
		{400_000 * mbit, 50_000_000, "rate 400Gbit ceil 400Gbit"},
	} {
		cl := class(0x10, c.rate)
		cl.Buffer, cl.Cbuffer = tc.BurstTicks(c.burst, c.rate), tc.BurstTicks(c.burst, c.rate)
		mustApply(t, k, add(root()), add(cl), add(leaf(0x10)))
		if got := n.TC("class", "show", "dev", "eth1"); !strings.Contains(got, c.want) {
			t.Errorf("tc prints %s, want %s", strings.TrimSpace(got), c.want)
		}
		mustApply(t, k, remove(root()), add(root()))
		line := add(cl).TC(kerneltest.Interface)
		if err := n.TCBatch(line); err != nil {
			t.Fatal(err)
		}
		if s := observe(t, k); s.Classes[0].Buffer != cl.Buffer || s.Classes[0].Cbuffer != cl.Cbuffer {
			t.Errorf("tc makes %+v of %q, want %+v", s.Classes, line, cl)
		}
		mustApply(t, k, remove(root()))
	}
}

// tc's own classes read the same as ours.
func TestReadsWhatTCMakes(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	n.TC("qdisc", "add", "dev", "eth1", "root", "handle", "1:", "htb", "default", "1f", "r2q", "7")
	for i, rate := range []string{"1mbit", "10gbit", "34359738360bit", "34359738368bit", "34359738376bit", "400gbit"} {
		n.TC("class", "add", "dev", "eth1", "parent", "1:", "classid", fmt.Sprintf("1:%x", i+1), "htb", "rate", rate, "prio", "3", "quantum", "1514")
		want, err := tc.ParseBitRate(rate)
		if err != nil {
			t.Fatal(err)
		}
		s := observe(t, k)
		if q, _ := s.RootQdisc(); q.HTB != (tc.HTB{Default: 0x1f, R2Q: 7}) {
			t.Errorf("root is %+v", q)
		}
		for _, c := range s.Classes {
			if c.ID == tc.MakeHandle(1, uint16(i+1)) && (c.Rate != want || c.Ceil != want || c.Prio != 3 || c.Quantum != 1514 || c.Parent != tc.Root) {
				t.Errorf("class of %s is %+v", rate, c)
			}
		}
		if len(s.Classes) != i+1 {
			t.Errorf("%d classes, want %d", len(s.Classes), i+1)
		}
	}
}

// Everything that HTB can say fits: no rate of 0, which it refuses.
func TestRateZeroIsRefused(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	c := class(0x10, mbit)
	c.Rate = 7 // less than a byte per second
	errs := applyErrors(t, k, add(root()), add(c), add(leaf(0x10)))
	if errs[1] == nil {
		t.Error("a rate of 0 bytes per second was accepted")
	}
	c = class(0x10, mbit)
	c.Buffer = math.MaxUint32
	mustApply(t, k, add(root()), add(c), add(leaf(0x10)))
}
