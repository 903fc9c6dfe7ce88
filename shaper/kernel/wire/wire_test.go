package wire

import (
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"bulkshaper/shaper/tc"
)

// one is the only message in b.
func one(t rapid.TB, b []byte) Message {
	t.Helper()
	var got []Message
	for m, err := range Messages(b) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m)
	}
	if len(got) != 1 {
		t.Fatalf("%d messages", len(got))
	}
	return got[0]
}

func object(t rapid.TB, b []byte) Object {
	t.Helper()
	o, err := ParseObject(one(t, b).Payload)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func drawHandle(t *rapid.T, name string) tc.Handle { return tc.Handle(rapid.Uint32().Draw(t, name)) }

func drawClass(t *rapid.T) tc.Class {
	rate := rapid.OneOf(rapid.Uint64Range(1, 1<<20), rapid.Uint64Range(1<<32-3, 1<<32+3), rapid.Uint64Range(1, uint64(tc.MaxBitRate)/8))
	return tc.Class{
		ID: drawHandle(t, "id"), Parent: drawHandle(t, "parent"),
		Prio: rapid.Uint32().Draw(t, "prio"), Quantum: rapid.Uint32().Draw(t, "quantum"),
		Rate: tc.BitRate(rate.Draw(t, "rate") * 8), Ceil: tc.BitRate(rate.Draw(t, "ceil") * 8),
		Buffer: tc.Ticks(rapid.Uint32().Draw(t, "buffer")), Cbuffer: tc.Ticks(rapid.Uint32().Draw(t, "cbuffer")),
	}
}

func drawFilter(t *rapid.T) tc.Filter {
	f := tc.Filter{
		Parent: drawHandle(t, "parent"), Pref: rapid.Uint16().Draw(t, "pref"), Protocol: tc.Protocol(rapid.Uint16().Draw(t, "protocol")),
		Kind: tc.KindU32, Handle: tc.U32Handle(rapid.Uint32().Draw(t, "handle")),
	}
	if rapid.Bool().Draw(t, "table") {
		f.Divisor = rapid.Uint32Range(1, 256).Draw(t, "divisor")
		return f
	}
	f.ClassID, f.Link = drawHandle(t, "classid"), tc.U32Handle(rapid.Uint32().Draw(t, "link"))
	f.Sel = tc.Selector{
		Flags: rapid.Byte().Draw(t, "flags"), OffShift: rapid.Byte().Draw(t, "offshift"),
		OffMask: rapid.Uint16().Draw(t, "offmask"), Off: rapid.Uint16().Draw(t, "off"),
		OffOff: rapid.Int16().Draw(t, "offoff"), HOff: rapid.Int16().Draw(t, "hoff"), HMask: rapid.Uint32().Draw(t, "hmask"),
	}
	for range rapid.IntRange(0, MaxKeys).Draw(t, "keys") {
		f.Sel.Keys = append(f.Sel.Keys, tc.Key{
			Mask: rapid.Uint32().Draw(t, "mask"), Value: rapid.Uint32().Draw(t, "value"),
			Off: rapid.Int32().Draw(t, "at"), OffMask: rapid.Int32().Draw(t, "atmask"),
		})
	}
	return f
}

func TestClassRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawClass(t)
		o := object(t, AppendNewClass([]byte("before")[:0], Header{Seq: 7}, 3, want))
		want.Parent = ParentOf(want)
		if got, err := o.Class(); err != nil || got != want || o.Index != 3 || o.Kind != "htb" {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
	})
}

func TestQdiscRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := tc.Qdisc{Handle: drawHandle(t, "handle"), Parent: drawHandle(t, "parent"),
			Kind: rapid.SampledFrom([]string{"htb", "pfifo", "bfifo", "pfifo_head_drop", "fq_codel", "codel", "pie", "fq", "fq_pie", "noqueue"}).Draw(t, "kind")}
		switch want.Kind {
		case "htb":
			want.HTB = tc.HTB{Default: rapid.Uint32().Draw(t, "default"), R2Q: rapid.Uint32().Draw(t, "r2q")}
		case "noqueue":
		default:
			want.Limit = rapid.Uint32().Draw(t, "limit")
		}
		b, err := AppendNewQdisc(nil, Header{}, 3, want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := object(t, b).Qdisc(); err != nil || got != want {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
	})
}

func TestFilterRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawFilter(t)
		if got, err := object(t, AppendAddFilter(nil, Header{}, 3, want)).Filter(); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
		want.Divisor, want.Sel = 0, tc.Selector{}
		if got, err := object(t, AppendChangeFilter(nil, Header{}, 3, want)).Filter(); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("change: got %+v, %v, want %+v", got, err, want)
		}
	})
}

// Many messages in one buffer are told apart, by their sequence numbers too.
func TestMessagesInARow(t *testing.T) {
	var b []byte
	for seq := range uint32(5) {
		b = AppendDeleteFilter(b, Header{Seq: seq, Port: 9}, 1, tc.Filter{Kind: strings.Repeat("x", int(seq)), Handle: tc.U32Handle(seq)})
	}
	seq := uint32(0)
	for m, err := range Messages(b) {
		if err != nil || m.Seq != seq || m.Port != 9 || m.Type != unix.RTM_DELTFILTER || m.Flags != unix.NLM_F_REQUEST {
			t.Errorf("message %d is %+v, %v", seq, m.Header, err)
		}
		seq++
	}
	if seq != 5 {
		t.Errorf("%d messages", seq)
	}
}

// The bytes of a u32 node with a hash key, field by field as linux/pkt_cls.h has them: what go-tc gets wrong.
func TestSelectorLayout(t *testing.T) {
	if native.Uint16([]byte{1, 0}) != 1 {
		t.Log("the bytes below are little endian, this machine is not: only the round trips are checked here")
		return
	}
	b := appendSelector(nil, tc.Selector{Flags: 1, OffShift: 2, OffMask: 0x0304, Off: 0x0506, OffOff: 0x0708, HOff: 0x090a, HMask: 0x0b0c0d0e,
		Keys: []tc.Key{{Mask: 0x11121314, Value: 0x21222324, Off: 0x31323334, OffMask: 0x41424344}}})
	want := "2400" + "0500" + // attribute: 36 bytes, TCA_U32_SEL
		"01" + "02" + "01" + "00" + // flags, offshift, nkeys, pad
		"0304" + "0605" + "0807" + "0a09" + // be16 offmask, off, offoff, hoff
		"0b0c0d0e" + // be32 hmask
		"11121314" + "21222324" + "34333231" + "44434241" // be32 mask, be32 value, off, offmask
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A node of the root table names no table, since only the kernel knows its number.
func TestRootTableIsLeftOut(t *testing.T) {
	has := func(f tc.Filter, attr uint16) bool {
		found := false
		if err := attributes(object(t, AppendAddFilter(nil, Header{}, 1, f)).Options, func(typ uint16, _ []byte) error {
			found = found || typ == attr
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return found
	}
	f := tc.Filter{Kind: tc.KindU32, Handle: tc.MakeU32Handle(0, 0, 5), Sel: tc.MatchDestination(netip.MustParsePrefix("10.0.0.1/32"))}
	if has(f, u32Hash) || has(f, u32Link) || has(f, u32ClassID) {
		t.Error("an attribute that should not be there")
	}
	f.Handle = tc.MakeU32Handle(5, 1, 5)
	if !has(f, u32Hash) {
		t.Error("the table is missing")
	}
}

// Attributes that the decoders do not know, at every level, change nothing.
func TestUnknownAttributes(t *testing.T) {
	unknown := func(b []byte) []byte { return appendAttr(b, 4000, []byte("from a newer kernel")) }
	options := func(parts ...[]byte) Object {
		var b []byte
		for _, p := range parts {
			b = append(unknown(b), p...)
		}
		return Object{Options: unknown(b)}
	}
	class := object(t, AppendNewClass(nil, Header{}, 1, tc.Class{Rate: 8 << 33, Ceil: 8 << 34}))
	o := options(class.Options)
	if c, err := o.Class(); err != nil || c.Rate != 8<<33 || c.Ceil != 8<<34 {
		t.Errorf("got %+v, %v", c, err)
	}
	f := tc.Filter{Kind: tc.KindU32, Handle: 1, ClassID: 3, Sel: tc.MatchDestination(netip.MustParsePrefix("10.0.0.1/32"))}
	o = options(object(t, AppendAddFilter(nil, Header{}, 1, f)).Options)
	o.Kind = tc.KindU32
	if got, err := o.Filter(); err != nil || got.ClassID != 3 || len(got.Sel.Keys) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	payload := appendTcmsg(nil, 1, 2, 3, 4)
	payload = unknown(appendString(unknown(payload), tcaKind, "htb"))
	if o, err := ParseObject(payload); err != nil || o.Kind != "htb" || o.Handle != 2 {
		t.Errorf("got %+v, %v", o, err)
	}
	// Flags in the attribute's type are no part of its number.
	if o, err := ParseObject(appendString(appendTcmsg(nil, 1, 2, 3, 4), tcaKind|unix.NLA_F_NESTED, "htb")); err != nil || o.Kind != "htb" {
		t.Errorf("got %+v, %v", o, err)
	}
}

func statsObject(t rapid.TB, stats []byte) Object {
	o := object(t, AppendNewClass(nil, Header{}, 1, tc.Class{Rate: 8, Ceil: 8}))
	o.stats = stats
	return o
}

func TestStats(t *testing.T) {
	words := func(v ...uint32) (b []byte) {
		for _, w := range v {
			b = native.AppendUint32(b, w)
		}
		return b
	}
	basic := appendAttr(nil, statsBasic, append(native.AppendUint64(nil, math.MaxUint64), words(0xffffffff, 0)...))
	packets := appendUint64(nil, statsPkt64, 1<<40)
	queue := appendAttr(nil, statsQueue, words(1, 2, 3, 4, 5))
	app := appendAttr(nil, statsApp, words(6, 7, 8, 9, 10))
	want := tc.ClassStats{Leaf: true, SentBytes: math.MaxUint64, SentPackets: 1 << 40, BacklogPackets: 1, BacklogBytes: 2, Dropped: 3, Requeues: 4,
		Overlimits: 5, Lends: 6, Borrows: 7, Giants: 8}
	for name, stats := range map[string][]byte{
		"in the kernel's order":  concat(basic, packets, queue, app),
		"64 bit packets first":   concat(packets, basic, app, queue),
		"with what is not known": concat(appendAttr(nil, 99, []byte("new")), basic, appendAttr(nil, 6, nil), packets, queue, app),
	} {
		got, err := statsObject(t, stats).ClassStats()
		got.Class = tc.Class{}
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, want)
		}
	}
	if got, err := statsObject(t, nil).ClassStats(); err != nil || got.SentBytes != 0 || !got.Leaf {
		t.Errorf("without statistics: %+v, %v", got, err)
	}
	if got, err := statsObject(t, basic).ClassStats(); err != nil || got.SentPackets != 0xffffffff {
		t.Errorf("an old kernel: %+v, %v", got, err)
	}
	for _, short := range [][]byte{appendAttr(nil, statsBasic, words(1)), appendAttr(nil, statsQueue, words(1, 2)), appendAttr(nil, statsPkt64, words(1)),
		appendAttr(nil, statsApp, words(1)), {1, 2, 3}} {
		if _, err := statsObject(t, short).ClassStats(); !errors.Is(err, ErrMalformed) {
			t.Errorf("cut short: %v", err)
		}
	}
}

func concat(parts ...[]byte) []byte {
	var b []byte
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

func TestReply(t *testing.T) {
	errno := native.AppendUint32(nil, uint32(0xffffffff-uint32(unix.EINVAL)+1))
	echo := AppendDeleteClass(nil, Header{}, 1, tc.Class{})
	text := appendString(nil, unix.NLMSGERR_ATTR_MSG, "HTB class in use")
	offset := appendUint32(nil, unix.NLMSGERR_ATTR_OFFS, 4)
	for name, c := range map[string]struct {
		typ, flags uint16
		payload    []byte
		want       Reply
	}{
		"acknowledgement":     {unix.NLMSG_ERROR, 0, concat(make([]byte, 4), echo), Reply{}},
		"bare error":          {unix.NLMSG_ERROR, 0, concat(errno, echo), Reply{Errno: unix.EINVAL}},
		"with text":           {unix.NLMSG_ERROR, unix.NLM_F_ACK_TLVS, concat(errno, echo, offset, text), Reply{unix.EINVAL, "HTB class in use"}},
		"capped, with text":   {unix.NLMSG_ERROR, unix.NLM_F_ACK_TLVS | unix.NLM_F_CAPPED, concat(errno, echo[:headerSize], text, offset), Reply{unix.EINVAL, "HTB class in use"}},
		"end of a dump":       {unix.NLMSG_DONE, 0, make([]byte, 4), Reply{}},
		"old end of a dump":   {unix.NLMSG_DONE, 0, nil, Reply{}},
		"error of a dump":     {unix.NLMSG_DONE, 0, errno, Reply{Errno: unix.EINVAL}},
		"dump error and text": {unix.NLMSG_DONE, unix.NLM_F_ACK_TLVS, concat(errno, text), Reply{unix.EINVAL, "HTB class in use"}},
	} {
		got, err := ParseReply(Message{Header: Header{Type: c.typ, Flags: c.flags}, Payload: c.payload})
		if err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, c.want)
		}
	}
	for _, short := range [][]byte{nil, {1}, errno, concat(errno, echo[:8]), concat(errno, echo, text[:6])} {
		if _, err := ParseReply(Message{Header: Header{Type: unix.NLMSG_ERROR, Flags: unix.NLM_F_ACK_TLVS}, Payload: short}); !errors.Is(err, ErrMalformed) {
			t.Errorf("%x: got %v", short, err)
		}
	}
}

// Counters do not make a fingerprint another, parameters do.
func TestFingerprint(t *testing.T) {
	sum := func(o Object) uint64 {
		h := fnv.New64a()
		o.Fingerprint(h)
		return h.Sum64()
	}
	htb := func(direct uint32, def uint32) Object {
		b, err := AppendNewQdisc(nil, Header{}, 1, tc.Qdisc{Kind: "htb", HTB: tc.HTB{Default: def}})
		if err != nil {
			t.Fatal(err)
		}
		o := object(t, b)
		native.PutUint32(o.Options[4+htbGlobDirect:], direct)
		return o
	}
	u32 := func(hits uint64, class tc.Handle) Object {
		o := object(t, AppendAddFilter(nil, Header{}, 1, tc.Filter{Kind: tc.KindU32, Handle: 1, ClassID: class}))
		o.Options = appendUint64(o.Options, u32Counters, hits)
		return o
	}
	acting := func(typ uint16, age byte, class tc.Handle) Object { // how long an action has been there is in it
		o := u32(1, class)
		o.Options = appendUint64(appendAttr(o.Options, typ, []byte{1, 2, 3, age}), u32Counters, 5)
		return o
	}
	for _, typ := range []uint16{u32Act, u32Police} {
		if sum(acting(typ, 1, 2)) != sum(acting(typ, 9, 2)) || sum(acting(typ, 1, 2)) == sum(acting(typ, 1, 3)) || sum(acting(typ, 1, 2)) == sum(u32(1, 2)) {
			t.Error("of an action only that it is there makes a difference")
		}
	}
	stats := statsObject(t, []byte("counters"))
	if sum(htb(1, 2)) != sum(htb(3, 2)) || sum(u32(1, 2)) != sum(u32(3, 2)) || sum(stats) != sum(statsObject(t, nil)) {
		t.Error("a counter made a difference")
	}
	if sum(htb(1, 2)) == sum(htb(1, 3)) || sum(u32(1, 2)) == sum(u32(1, 3)) {
		t.Error("a parameter made no difference")
	}
}

func TestLimitOfUnknownKind(t *testing.T) {
	if _, err := AppendNewQdisc(nil, Header{}, 1, tc.Qdisc{Kind: "sfq", Limit: 3}); err == nil {
		t.Error("no error")
	}
}

func TestParseLink(t *testing.T) {
	payload := make([]byte, ifinfomsgSize)
	payload[0] = unix.AF_BRIDGE
	native.PutUint32(payload[4:], 77)
	payload = appendString(payload, unix.IFLA_IFNAME, "eth1")
	payload = appendNested(payload, ifaPropList, func(b []byte) []byte { return appendString(appendString(b, ifaAltIfname, "one"), ifaAltIfname, "two") })
	l, err := ParseLink(payload)
	if err != nil || fmt.Sprint(l) != "{7 77 eth1 [one two]  0 0 0x0000}" {
		t.Errorf("got %v, %v", l, err)
	}
	if _, err := ParseLink(payload[:10]); !errors.Is(err, ErrMalformed) {
		t.Errorf("got %v", err)
	}
	if _, err := AddressIndex(payload[:7]); !errors.Is(err, ErrMalformed) {
		t.Errorf("got %v", err)
	}
}

// struct tc_u32_pcnt: how often the node was tried, how often it matched, and that for each key.
func TestU32Counters(t *testing.T) {
	o := object(t, AppendAddFilter(nil, Header{}, 1, tc.Filter{Kind: tc.KindU32, Handle: 1, ClassID: 0x10010}))
	if n, counted, err := o.Hits(); err != nil || counted || n != 0 {
		t.Errorf("without counters: %d, %t, %v", n, counted, err)
	}
	plain := o.Options[:len(o.Options):len(o.Options)]
	for keys := range 4 {
		counters := native.AppendUint64(native.AppendUint64(nil, 77), 1<<40+5)
		for range keys {
			counters = native.AppendUint64(counters, 99)
		}
		o.Options = appendAttr(plain, u32Counters, counters)
		if n, counted, err := o.Hits(); err != nil || !counted || n != 1<<40+5 {
			t.Errorf("%d keys: %d, %t, %v", keys, n, counted, err)
		}
	}
	for size := range u32CountersSize {
		o.Options = appendAttr(plain, u32Counters, make([]byte, size))
		if _, _, err := o.Hits(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}
