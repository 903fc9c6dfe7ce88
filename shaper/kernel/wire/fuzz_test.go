package wire

import (
	"encoding/hex"
	"errors"
	"hash/fnv"
	"math"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"bulkshaper/inventory/bound"
	"bulkshaper/shaper/tc"
)

// seeds are one message of each sort.
func seeds(t testing.TB) [][]byte {
	f := tc.Filter{Parent: 0x10000, Kind: tc.KindU32, Pref: 12000, Protocol: tc.ProtocolIP, Handle: 0x800001, ClassID: 0x10010, Link: 0x100000,
		Sel: tc.MatchDestination(netip.MustParsePrefix("2001:db8::1/128"))}
	root, err := AppendNewQdisc(nil, Header{}, 1, tc.Qdisc{Kind: "htb", Handle: 0x10000, Parent: tc.Root})
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := AppendNewQdisc(nil, Header{}, 1, tc.Qdisc{Kind: "fq_codel", Limit: 3})
	if err != nil {
		t.Fatal(err)
	}
	reply := start(nil, Header{Type: unix.NLMSG_ERROR, Flags: unix.NLM_F_ACK_TLVS})
	reply = finish(appendString(append(append(reply, 1, 2, 3, 4), AppendDump(nil, unix.RTM_GETTCLASS, 1, 2, 3)...), unix.NLMSGERR_ATTR_MSG, "text"), 0)
	counted := appendString(appendTcmsg(start(nil, Header{Type: unix.RTM_NEWTFILTER}), 1, 0x800001, 0x10000, 12000<<16|8), tcaKind, tc.KindU32)
	counted = finish(appendNested(counted, tcaOptions, func(b []byte) []byte { return appendAttr(b, u32Counters, make([]byte, 24)) }), 0)
	return [][]byte{root, leaf, reply, counted, AppendNewClass(nil, Header{}, 1, tc.Class{ID: 0x10010, Rate: 8 << 40, Ceil: 8 << 40}),
		AppendAddFilter(nil, Header{}, 1, f), AppendChangeFilter(nil, Header{}, 1, f), AppendDeleteFilter(nil, Header{}, 1, f),
		AppendProbeQdisc(nil, Header{}, 1, 2, "fq_codel")}
}

// decodeAll decodes bytes in every way there is. All errors are ErrMalformed, and what comes out is not larger than what went in.
func decodeAll(t *testing.T, b []byte) {
	check := func(err error) {
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: error %v", hex.EncodeToString(b), err)
		}
	}
	count := 0
	for m, err := range Messages(b) {
		check(err)
		count++
		_, err = ParseReply(m)
		check(err)
		_, err = ParseLink(m.Payload)
		check(err)
		_, err = AddressIndex(m.Payload)
		check(err)
		o, err := ParseObject(m.Payload)
		check(err)
		for _, kind := range []string{o.Kind, "htb", "u32", "pfifo", "fq_codel", "fq"} {
			o.Kind = kind
			_, err = o.Qdisc()
			check(err)
			_, err = o.Class()
			check(err)
			_, err = o.ClassStats()
			check(err)
			f, err := o.Filter()
			check(err)
			if len(f.Sel.Keys) > MaxKeys || len(f.Sel.Keys)*u32KeySize > len(b) {
				t.Errorf("%d keys from %d bytes", len(f.Sel.Keys), len(b))
			}
			_, _, err = o.Hits()
			check(err)
			o.Fingerprint(fnv.New64a())
		}
	}
	if count*headerSize > len(b)+headerSize {
		t.Errorf("%d messages from %d bytes", count, len(b))
	}
}

// FuzzDecode gives any datagram. What was understood of it is understood the same when it is sent again.
//
// PROMISES.md: Any bytes are in the files, in flags or in what the kernel answers
func FuzzDecode(f *testing.F) {
	var all []byte
	for _, s := range seeds(f) {
		f.Add(s)
		all = append(all, s...)
	}
	f.Add(all)
	f.Fuzz(func(t *testing.T, b []byte) {
		bound.Check(t, len(b), memoryPerByte, func() { decodeAll(t, b) })
		for m := range Messages(b) {
			if o, err := ParseObject(m.Payload); err == nil {
				sentAgain(t, o)
			}
		}
	})
}

// memoryPerByte is what decoding in every way may take from the heap for each byte: errors have texts.
const memoryPerByte = 2000

// sentAgain makes messages of what an object was read as, and reads those.
func sentAgain(t *testing.T, o Object) {
	t.Helper()
	read := func(b []byte) Object {
		for m, err := range Messages(b) {
			if err != nil {
				t.Fatal(err)
			}
			again, err := ParseObject(m.Payload)
			if err != nil {
				t.Fatal(err)
			}
			return again
		}
		t.Fatal("no message")
		return o
	}
	same := func(first, second any, err error) {
		t.Helper()
		if d := cmp.Diff(first, second); d != "" || err != nil {
			t.Fatalf("sent and read again (-first +second): %s, %v", d, err)
		}
	}
	if f, err := o.Filter(); err == nil && o.Kind == tc.KindU32 {
		f.Sel.Extra = false // which is not sent
		switch {
		case f.Divisor != 0:
			f = tc.Filter{Parent: f.Parent, Pref: f.Pref, Protocol: f.Protocol, Kind: f.Kind, Handle: f.Handle, Divisor: f.Divisor}
		case len(f.Sel.Keys) == 0:
			f.Sel.Keys = nil
		}
		again, err := read(AppendAddFilter(nil, Header{}, o.Index, f)).Filter()
		same(f, again, err)
	}
	if c, err := o.Class(); err == nil && o.Kind == tc.KindHTB && c.Rate < math.MaxUint64&^7 && c.Ceil < math.MaxUint64&^7 {
		c.Leaf, c.Level = 0, 0 // which are not sent
		if c.Parent == tc.Root || c.Parent == tc.MakeHandle(c.ID.Major(), 0) {
			c.Parent = tc.MakeHandle(c.ID.Major(), 0) // as it is sent; the kernel answers with the root
		}
		again, err := read(AppendNewClass(nil, Header{}, o.Index, c)).Class()
		same(c, again, err)
	}
	if q, err := o.Qdisc(); err == nil {
		q.HTB.DirectPackets = 0
		b, err := AppendNewQdisc(nil, Header{}, o.Index, q)
		if err != nil {
			t.Fatalf("read as %+v, which cannot be sent: %v", q, err)
		}
		again, err := read(b).Qdisc()
		same(q, again, err)
	}
}

// Every message cut at every place, and with every byte made the largest and the smallest, is an error or less, never a panic.
func TestCutShort(t *testing.T) {
	for _, seed := range seeds(t) {
		for n := range seed {
			decodeAll(t, seed[:n])
			cut := finish(append([]byte(nil), seed[:max(n, headerSize)]...), 0)
			decodeAll(t, cut)
			for _, v := range []byte{0, 1, 0xff} {
				bent := append([]byte(nil), seed...)
				bent[n] = v
				decodeAll(t, bent)
			}
		}
	}
}
