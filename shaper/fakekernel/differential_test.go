package fakekernel_test

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"bulkshaper/shaper/fakekernel"
	"bulkshaper/shaper/kernel"
	"bulkshaper/shaper/kernel/kerneltest"
	"bulkshaper/shaper/tc"
)

// TestAgainstTheRealKernel drives the fake and the real kernel with the same operations. Each must take or refuse the same ones, with
// the same errno, hold the same objects afterwards, send the same packets to the same classes, and count the same hits where the real
// one counts them.
func TestAgainstTheRealKernel(t *testing.T) {
	n := kerneltest.New(t)
	real, err := kernel.Open(kernel.Options{Namespace: n.FD(), Interface: kerneltest.Interface})
	if err != nil {
		t.Fatal(err)
	}
	defer real.Close()
	before, err := real.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(r *rapid.T) {
		fake := fakekernel.New(before.Link, fakekernel.WithFilterCounters())
		both := pair{t: t, real: real, fake: fake, link: before.Link}
		both.do(r, remove(tc.Qdisc{Parent: tc.Root})) // what the last round left
		both.do(r, add(root()))
		for range rapid.IntRange(1, 25).Draw(r, "operations") {
			both.do(r, anyOp(r, fake))
		}
		both.compare(r)
		both.send(r, n)
		both.compare(r)
	})
}

type pair struct {
	t    *testing.T
	real *kernel.Kernel
	fake *fakekernel.Kernel
	link tc.Link
}

func (p pair) do(r *rapid.T, op tc.Op) {
	fakeErr := p.fake.Apply(p.t.Context(), p.link, []tc.Op{op})[0].Err
	deadline := time.Now().Add(3 * time.Second)
	realErr := p.real.Apply(p.t.Context(), p.link, []tc.Op{op})[0].Err
	for fakeErr == nil && errors.Is(realErr, syscall.EBUSY) && op.Object.Type() == "filter" && time.Now().Before(deadline) {
		// The kernel frees the last link to a table some milliseconds later.
		realErr = p.real.Apply(p.t.Context(), p.link, []tc.Op{op})[0].Err
	}
	var fakeNo, realNo syscall.Errno
	errors.As(fakeErr, &fakeNo)
	errors.As(realErr, &realNo)
	if (fakeErr == nil) != (realErr == nil) || fakeNo != realNo {
		r.Fatalf("%s:\nfake: %v\nreal: %v", op.TC("eth1"), fakeErr, realErr)
	}
}

// normal leaves out what the fake does not count and the order of the dump.
func normal(s tc.State) tc.State {
	slices.SortFunc(s.Qdiscs, func(a, b tc.Qdisc) int { return cmp.Compare(a.Parent, b.Parent) })
	slices.SortFunc(s.Classes, func(a, b tc.Class) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortStableFunc(s.Filters, func(a, b tc.Filter) int { return cmp.Or(cmp.Compare(a.Pref, b.Pref), cmp.Compare(a.Handle, b.Handle)) })
	for i := range s.Qdiscs {
		s.Qdiscs[i].HTB.DirectPackets = 0
	}
	return s
}

func (p pair) compare(r *rapid.T) {
	fake, err := p.fake.Observe(p.t.Context())
	if err != nil {
		r.Fatal(err)
	}
	real, err := p.real.Observe(p.t.Context())
	if err != nil {
		r.Fatal(err)
	}
	if real.Hits == nil { // no CONFIG_CLS_U32_PERF
		fake.Hits = nil
	}
	if diff := gocmp.Diff(normal(real), normal(fake), cmpopts.EquateEmpty(), cmpopts.IgnoreFields(tc.State{}, "Link", "AutoLeaf")); diff != "" {
		r.Fatalf("-real +fake:\n%s", diff)
	}
}

// send sends real packets, and waits until the counters have moved as far as the fake's.
func (p pair) send(r *rapid.T, n *kerneltest.Namespace) {
	type counts map[tc.Handle]uint64
	read := func(k interface {
		Stats(ctx context.Context) (tc.Stats, error)
	}) counts {
		s, err := k.Stats(p.t.Context())
		if err != nil {
			r.Fatal(err)
		}
		c := counts{fakekernel.Direct: s.DirectPackets}
		for _, class := range s.Classes {
			c[class.Class.ID] = class.SentPackets
		}
		return c
	}
	start := read(p.real)
	for range 2 {
		address := netip.AddrFrom4([4]byte{10, 0, 0, rapid.SampledFrom([]byte{1, 2, 3, 5}).Draw(r, "host")})
		p.fake.Send(address, 2)
		n.Send(p.t, address, 2)
	}
	want := read(p.fake)
	deadline := time.Now().Add(2 * time.Second)
	for {
		got := read(p.real)
		for id := range got {
			got[id] -= start[id]
		}
		diff := gocmp.Diff(got, want)
		if diff == "" {
			return
		}
		if time.Now().After(deadline) {
			r.Fatalf("packets, -real +fake:\n%s", diff)
		}
	}
}

// anyOp is one that may well succeed, for the most part.
func anyOp(r *rapid.T, k *fakekernel.Kernel) tc.Op {
	s, err := k.Observe(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	minor := rapid.SampledFrom([]uint16{0x10, 0x11, 0x12, 0x20, 0x100}).Draw(r, "class")
	verb := rapid.SampledFrom([]tc.Verb{tc.Add, tc.Add, tc.Change, tc.Delete}).Draw(r, "verb")
	switch rapid.SampledFrom([]string{"class", "qdisc", "node", "node", "standing", "standing", "table", "link", "pref"}).Draw(r, "object") {
	case "class":
		c := class(minor, rapid.SampledFrom([]tc.Handle{tc.Root, id(0x10), id(0x11), id(0x12), id(0x99)}).Draw(r, "parent"))
		c.Prio = rapid.Uint32Range(0, 9).Draw(r, "prio")
		c.Rate = rapid.SampledFrom([]tc.BitRate{8e6, 80e6, 400e9}).Draw(r, "rate")
		c.Ceil, c.Quantum = c.Rate, rapid.SampledFrom([]uint32{0, 1514, 60000}).Draw(r, "quantum")
		return tc.Op{Verb: verb, Object: c}
	case "qdisc":
		q := leaf(minor)
		q.Handle = rapid.SampledFrom([]tc.Handle{q.Handle, q.Handle, tc.LeafHandle(0x20), tc.MakeHandle(0x77, 0)}).Draw(r, "handle")
		q.Kind = rapid.SampledFrom([]string{tc.KindPFIFO, tc.KindPFIFO, tc.KindBFIFO}).Draw(r, "kind")
		q.Limit = rapid.SampledFrom([]uint32{100, 200}).Draw(r, "limit") * map[bool]uint32{true: 1, false: 1514}[q.Kind == tc.KindPFIFO]
		if rapid.Bool().Draw(r, "replace") {
			verb = tc.Replace
		}
		return tc.Op{Verb: verb, Object: q}
	case "standing":
		if len(s.Filters) > 0 {
			f := rapid.SampledFrom(s.Filters).Draw(r, "filter")
			f.Link = rapid.SampledFrom([]tc.U32Handle{f.Link, 0, tc.MakeU32Handle(1, 0, 0), tc.MakeU32Handle(2, 0, 0)}).Draw(r, "link")
			f.ClassID = id(minor)
			if verb == tc.Add || f.Divisor != 0 {
				verb = tc.Delete
			}
			return tc.Op{Verb: verb, Object: f}
		}
	case "pref":
		if rapid.IntRange(0, 3).Draw(r, "all of it") == 0 {
			return tc.Op{Verb: tc.Delete, Object: tc.Pref{Parent: id(0), Number: pref(r), Protocol: tc.ProtocolIP, Kind: tc.KindU32}}
		}
	case "table":
		f := tc.Filter{Parent: id(0), Pref: pref(r), Protocol: tc.ProtocolIP, Kind: tc.KindU32, Divisor: rapid.SampledFrom([]uint32{1, 3, 4, 256}).Draw(r, "divisor"),
			Handle: tc.MakeU32Handle(rapid.Uint32Range(1, 3).Draw(r, "table"), 0, 0)}
		if verb == tc.Change {
			verb = tc.Add
		}
		return tc.Op{Verb: verb, Object: f}
	case "link":
		f := anyNode(r, minor)
		f.Link = tc.MakeU32Handle(rapid.Uint32Range(1, 3).Draw(r, "to"), 0, 0)
		f.Sel.HMask, f.Sel.HOff = rapid.SampledFrom([]uint32{0, 0xff, 0xf0}).Draw(r, "hash mask"), 16
		f.Sel.Flags = rapid.SampledFrom([]uint8{0, tc.U32Terminal}).Draw(r, "flags")
		return add(f)
	}
	return add(anyNode(r, minor))
}

func pref(r *rapid.T) uint16 { return rapid.Uint16Range(10, 12).Draw(r, "pref") }

func anyNode(r *rapid.T, minor uint16) tc.Filter {
	prefix := netip.AddrFrom4([4]byte{10, 0, 0, rapid.SampledFrom([]byte{0, 1, 2, 3}).Draw(r, "host")})
	bits := rapid.SampledFrom([]int{32, 32, 31, 24, 0}).Draw(r, "bits")
	f := node(pref(r), 0, 1, netip.PrefixFrom(prefix, bits).Masked().String(), id(minor))
	f.Handle = 0
	if table := rapid.Uint32Range(0, 3).Draw(r, "table"); table > 0 {
		f.Handle = tc.MakeU32Handle(table, rapid.Uint32Range(0, 3).Draw(r, "bucket"), 0)
	}
	f.Handle += tc.U32Handle(rapid.SampledFrom([]uint32{1, 2, 3, 0xfff}).Draw(r, "node"))
	return f
}
