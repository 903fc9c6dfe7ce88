package kernel

import (
	"errors"
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"bulkshaper/inventory/bound"
	"bulkshaper/shaper/kernel/wire"
	"bulkshaper/shaper/tc"
)

// memoryPerByte is what an answer of the kernel may take from the heap for each byte of it.
const memoryPerByte = 1000

// answered is a message as the kernel would send it: to our port, with our number.
func answered(port, seq uint32, typ, flags uint16, b []byte) []byte {
	const header = unix.SizeofNlMsghdr
	wireOrder := func(at int, v uint32) { copy(b[at:], []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)}) }
	wireOrder(4, uint32(typ)|uint32(flags)<<16)
	wireOrder(8, seq)
	wireOrder(12, port)
	return b[:max(header, len(b))]
}

// dumpSeeds are the datagrams of a dump, one after the other.
func dumpSeeds(port, seq uint32) []byte {
	filter := wire.AppendAddFilter(nil, wire.Header{}, 7, tc.Filter{Parent: 0x10000, Kind: tc.KindU32, Pref: 12000, Protocol: tc.ProtocolIP, Handle: 0x80000001, ClassID: 0x10010,
		Sel: tc.MatchDestination(netip.MustParsePrefix("10.0.0.1/32"))})
	class := wire.AppendNewClass(nil, wire.Header{}, 7, tc.Class{ID: 0x10010, Rate: 8e6, Ceil: 8e6})
	done := []byte{20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	return slices.Concat(answered(port, seq, unix.RTM_NEWTFILTER, unix.NLM_F_MULTI, filter), answered(port, seq, unix.RTM_NEWTCLASS, unix.NLM_F_MULTI, class),
		answered(port, seq, unix.NLMSG_DONE, unix.NLM_F_MULTI, done))
}

// FuzzDump gives any datagrams as the answer to a dump: it ends at the end mark and not before, every object that is told of is in the
// bytes, and what went wrong is one of the errors that callers know.
//
// PROMISES.md: Any bytes are in the files, in flags or in what the kernel answers
func FuzzDump(f *testing.F) {
	const port, seq = 4242, 17
	f.Add(dumpSeeds(port, seq), uint16(0))
	f.Add(dumpSeeds(port, seq), uint16(60))
	f.Add(dumpSeeds(port, seq+1), uint16(0))
	f.Add(dumpSeeds(port+1, seq), uint16(0))
	f.Fuzz(func(t *testing.T, data []byte, cut uint16) {
		at := min(int(cut), len(data))
		objects, ended := 0, false
		d := dumping{port: port, seq: seq, visit: ofObjects(func(o wire.Object) error {
			objects++
			if ended {
				t.Error("an object behind the end")
			}
			_, err := o.Filter()
			return err
		})}
		bound.Check(t, len(data), memoryPerByte, func() {
			for _, part := range [][]byte{data[:at], data[at:]} {
				if !ended {
					ended = d.take(part)
				}
			}
		})
		if objects*unix.SizeofNlMsghdr > len(data) {
			t.Errorf("%d objects in %d bytes", objects, len(data))
		}
		var errno syscall.Errno
		if err := d.failed; err != nil && !errors.Is(err, errTorn) && !errors.Is(err, wire.ErrMalformed) && !errors.As(err, &errno) {
			t.Errorf("error %v", err)
		}
		if ended != hasEnd(data, at, port, seq) {
			t.Errorf("ended is %v", ended)
		}
	})
}

// hasEnd looks for the end mark of a dump by itself.
func hasEnd(data []byte, cut int, port, seq uint32) bool {
	for _, part := range [][]byte{data[:cut], data[cut:]} {
		for m, err := range wire.Messages(part) {
			if err == nil && m.Port == port && m.Seq == seq && (m.Type == unix.NLMSG_DONE || m.Type == unix.NLMSG_ERROR) {
				return true
			}
		}
	}
	return false
}

// FuzzAnswers gives any datagrams as the answers to a batch: none is taken for another message's, and a message without an answer is
// not called refused.
//
// PROMISES.md: Any bytes are in the files, in flags or in what the kernel answers
func FuzzAnswers(f *testing.F) {
	const port, first, count = 4242, 1<<32 - 2, 4 // the numbers wrap
	refused := func(seq uint32, errno byte) []byte {
		return answered(port, seq, unix.NLMSG_ERROR, unix.NLM_F_CAPPED, []byte{36, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -errno, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	}
	f.Add(slices.Concat(refused(first, 16), refused(1, 2)))
	f.Add(slices.Concat(refused(0, 1), dumpSeeds(port, 1)))
	f.Add(refused(2, 22))
	f.Fuzz(func(t *testing.T, data []byte) {
		a := answers{port: port, first: first, replies: make([]wire.Reply, count)}
		bound.Check(t, len(data), memoryPerByte, func() {
			if _, err := a.take(data); err != nil && !errors.Is(err, wire.ErrMalformed) {
				t.Errorf("error %v", err)
			}
		})
		for i, r := range a.replies {
			seen := false
			for m, err := range wire.Messages(data) {
				seen = seen || err == nil && m.Port == port && m.Type == unix.NLMSG_ERROR && m.Seq == a.first+uint32(i)
			}
			if r.Errno != 0 && !seen {
				t.Errorf("message %d has the answer %v, which nobody gave", i, r)
			}
			if err := explain(r); (err != nil) != (r.Errno != 0) {
				t.Errorf("%v is explained as %v", r, err)
			}
		}
	})
}

// FuzzNotice gives any notifications: what waits is one event of a kind at most, and messages about other interfaces make none but of links.
//
// PROMISES.md: Any bytes are in the files, in flags or in what the kernel answers
func FuzzNotice(f *testing.F) {
	const port, index = 4242, 7
	for _, typ := range []uint16{unix.RTM_NEWLINK, unix.RTM_DELLINK, unix.RTM_NEWADDR, unix.RTM_NEWQDISC, unix.RTM_DELTCLASS, unix.RTM_NEWTFILTER} {
		f.Add(answered(port, 1, typ, 0, wire.AppendNewClass(nil, wire.Header{}, index, tc.Class{ID: 0x10010, Rate: 8e6, Ceil: 8e6})))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w := &watcher{name: "eth1", index: index, find: func() (int, error) { return index, nil }, ports: map[uint32]bool{port: true}, ready: make(chan struct{}, 1)}
		bound.Check(t, len(data), memoryPerByte, func() {
			for m, err := range wire.Messages(data) {
				if err == nil {
					w.notice(m)
				}
			}
		})
		seen := map[tc.EventKind]bool{}
		for e, ok := w.take(); ok; e, ok = w.take() {
			if seen[e.Kind] {
				t.Errorf("two events of kind %v", e.Kind)
			}
			seen[e.Kind] = true
		}
	})
}
