package wire

import (
	"encoding/binary"
	"math/bits"

	"golang.org/x/sys/unix"

	"bulkshaper/shaper/tc"
)

// Attributes of u32 (linux/pkt_cls.h).
const (
	u32ClassID  = 1
	u32Hash     = 2
	u32Link     = 3
	u32Divisor  = 4
	u32Sel      = 5
	u32Police   = 6
	u32Act      = 7
	u32Indev    = 8
	u32Counters = 9 // TCA_U32_PCNT
	u32Mark     = 10
	u32Flags    = 11

	// struct tc_u32_pcnt: u64 rcnt (tried), u64 rhit (matched), u64 kcnts (for each key).
	u32CountersHits = 8
	u32CountersSize = 16

	// u32FlagsMask are the flags that somebody set (skip_hw, skip_sw); the others only say where the filter is.
	u32FlagsMask = 3

	// struct tc_u32_sel: flags, offshift, nkeys, pad, be16 offmask, u16 off, i16 offoff, i16 hoff, be32 hmask, keys.
	u32SelSize = 16
	// struct tc_u32_key: be32 mask, be32 value, i32 off, i32 offmask.
	u32KeySize = 16
	// u32BucketMask takes the node off a handle: what TCA_U32_HASH wants.
	u32BucketMask = 0xfffff000
	// MaxKeys is how many keys a selector can have: nkeys has eight bits.
	MaxKeys = 255
)

// Filter reads o as a filter. Of a kind other than u32 it reads the kind and the place.
func (o Object) Filter() (tc.Filter, error) {
	f := tc.Filter{
		Parent:   o.Parent,
		Pref:     uint16(o.Info >> 16),
		Protocol: tc.Protocol(networkOrder(uint16(o.Info))),
		Kind:     o.Kind,
		Handle:   tc.U32Handle(o.Handle),
	}
	if o.Kind != tc.KindU32 {
		return f, nil
	}
	extra := false
	err := attributes(o.Options, func(typ uint16, data []byte) error {
		switch typ {
		case u32Police, u32Act, u32Indev, u32Mark:
			extra = true
		case u32ClassID, u32Link, u32Divisor, u32Flags:
			if len(data) < 4 {
				return malformed("u32 attribute %d of %d bytes", typ, len(data))
			}
			v := native.Uint32(data)
			switch typ {
			case u32ClassID:
				f.ClassID = tc.Handle(v)
			case u32Link:
				f.Link = tc.U32Handle(v)
			case u32Divisor:
				f.Divisor = v
			case u32Flags:
				extra = extra || v&u32FlagsMask != 0
			}
		case u32Sel:
			var err error
			f.Sel, err = parseSelector(data)
			return err
		}
		return nil
	})
	f.Sel.Extra = extra
	return f, err
}

// Hits is how many packets a u32 node matched; false where the kernel does not count that, and of all else.
func (o Object) Hits() (hits uint64, counted bool, err error) {
	if o.Kind != tc.KindU32 {
		return 0, false, nil
	}
	err = attributes(o.Options, func(typ uint16, data []byte) error {
		if typ != u32Counters {
			return nil
		}
		if len(data) < u32CountersSize {
			return malformed("struct tc_u32_pcnt of %d bytes", len(data))
		}
		hits, counted = native.Uint64(data[u32CountersHits:]), true
		return nil
	})
	return hits, counted, err
}

func parseSelector(b []byte) (tc.Selector, error) {
	if len(b) < u32SelSize {
		return tc.Selector{}, malformed("struct tc_u32_sel of %d bytes", len(b))
	}
	s := tc.Selector{
		Flags: b[0], OffShift: b[1],
		OffMask: binary.BigEndian.Uint16(b[4:]),
		Off:     native.Uint16(b[6:]),
		OffOff:  int16(native.Uint16(b[8:])),
		HOff:    int16(native.Uint16(b[10:])),
		HMask:   binary.BigEndian.Uint32(b[12:]),
	}
	count := int(b[2])
	b = b[u32SelSize:]
	if len(b) < count*u32KeySize {
		return s, malformed("%d keys in %d bytes", count, len(b))
	}
	for ; count > 0; count-- {
		s.Keys = append(s.Keys, tc.Key{
			Mask: binary.BigEndian.Uint32(b), Value: binary.BigEndian.Uint32(b[4:]),
			Off: int32(native.Uint32(b[8:])), OffMask: int32(native.Uint32(b[12:])),
		})
		b = b[u32KeySize:]
	}
	return s, nil
}

func appendSelector(b []byte, s tc.Selector) []byte {
	return appendNested(b, u32Sel, func(b []byte) []byte {
		b = append(b, s.Flags, s.OffShift, byte(len(s.Keys)), 0)
		b = binary.BigEndian.AppendUint16(b, s.OffMask)
		b = native.AppendUint16(b, s.Off)
		b = native.AppendUint16(b, uint16(s.OffOff))
		b = native.AppendUint16(b, uint16(s.HOff))
		b = binary.BigEndian.AppendUint32(b, s.HMask)
		for _, k := range s.Keys {
			b = binary.BigEndian.AppendUint32(b, k.Mask)
			b = binary.BigEndian.AppendUint32(b, k.Value)
			b = native.AppendUint32(b, uint32(k.Off))
			b = native.AppendUint32(b, uint32(k.OffMask))
		}
		return b
	})
}

// AppendAddFilter appends RTM_NEWTFILTER for a u32 node or hash table that is to be made.
//
// A node of table 0 goes into the root table of its pref, whose number only the kernel knows: its handle holds the node alone and
// TCA_U32_HASH is left out. A number written there would be another pref's table.
func AppendAddFilter(b []byte, h Header, index int, f tc.Filter) []byte {
	from := len(b)
	b = startFilter(b, h, unix.RTM_NEWTFILTER, index, f)
	b = appendString(b, tcaKind, f.Kind)
	b = appendNested(b, tcaOptions, func(b []byte) []byte {
		if f.Divisor != 0 {
			return appendUint32(b, u32Divisor, f.Divisor)
		}
		if f.Handle.Table() != 0 {
			b = appendUint32(b, u32Hash, uint32(f.Handle)&u32BucketMask)
		}
		if f.Link != 0 {
			b = appendUint32(b, u32Link, uint32(f.Link))
		}
		if f.ClassID != tc.Unspec {
			b = appendUint32(b, u32ClassID, uint32(f.ClassID))
		}
		return appendSelector(b, f.Sel)
	})
	return finish(b, from)
}

// AppendChangeFilter appends RTM_NEWTFILTER that gives the u32 node of f's handle the class and the link of f. Keys cannot be
// changed: the kernel ignores a selector here. Both attributes are always sent, since the kernel takes one that is
// missing as none for the class, and as no change for the link.
func AppendChangeFilter(b []byte, h Header, index int, f tc.Filter) []byte {
	from := len(b)
	b = startFilter(b, h, unix.RTM_NEWTFILTER, index, f)
	b = appendString(b, tcaKind, f.Kind)
	b = appendNested(b, tcaOptions, func(b []byte) []byte {
		b = appendUint32(b, u32Link, uint32(f.Link))
		if f.ClassID != tc.Unspec {
			b = appendUint32(b, u32ClassID, uint32(f.ClassID))
		}
		return b
	})
	return finish(b, from)
}

// AppendDeleteFilter appends RTM_DELTFILTER for f's handle. Handle 0 would be the whole pref: the caller keeps it away.
func AppendDeleteFilter(b []byte, h Header, index int, f tc.Filter) []byte {
	from := len(b)
	return finish(appendString(startFilter(b, h, unix.RTM_DELTFILTER, index, f), tcaKind, f.Kind), from)
}

// AppendDeletePref appends RTM_DELTFILTER for all that stands at a pref.
func AppendDeletePref(b []byte, h Header, index int, p tc.Pref) []byte {
	return AppendDeleteFilter(b, h, index, tc.Filter{Parent: p.Parent, Pref: p.Number, Protocol: p.Protocol, Kind: p.Kind})
}

func startFilter(b []byte, h Header, typ uint16, index int, f tc.Filter) []byte {
	h.Type = typ
	info := uint32(f.Pref)<<16 | uint32(networkOrder(uint16(f.Protocol)))
	return appendTcmsg(start(b, h), index, uint32(f.Handle), f.Parent, info)
}

// networkOrder turns an ethertype between host and network byte order.
func networkOrder(v uint16) uint16 {
	if native.Uint16([]byte{0, 1}) == 1 {
		return v
	}
	return bits.ReverseBytes16(v)
}
