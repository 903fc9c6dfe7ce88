package wire

import (
	"math"

	"golang.org/x/sys/unix"

	"bulkshaper/shaper/tc"
)

const (
	// struct tc_htb_opt: two struct tc_ratespec, then buffer, cbuffer, quantum, level, prio.
	htbOptSize   = 44
	rateSpecSize = 12
	rateSpecRate = 8
	// linkLayerEthernet is TC_LINKLAYER_ETHERNET; with it the kernel computes what a packet costs and needs no rate table.
	linkLayerEthernet = 1
)

// Class reads o as an HTB class.
func (o Object) Class() (tc.Class, error) {
	c := tc.Class{ID: tc.Handle(o.Handle), Parent: o.Parent, Leaf: tc.Handle(o.Info)}
	var rate, ceil, rate64, ceil64 uint64
	seen := false
	err := attributes(o.Options, func(typ uint16, data []byte) error {
		switch typ {
		case htbParms:
			if len(data) < htbOptSize {
				return malformed("struct tc_htb_opt of %d bytes", len(data))
			}
			seen = true
			rate = uint64(native.Uint32(data[rateSpecRate:]))
			ceil = uint64(native.Uint32(data[rateSpecSize+rateSpecRate:]))
			c.Buffer, c.Cbuffer = tc.Ticks(native.Uint32(data[24:])), tc.Ticks(native.Uint32(data[28:]))
			c.Quantum, c.Level, c.Prio = native.Uint32(data[32:]), native.Uint32(data[36:]), native.Uint32(data[40:])
		case htbRate64, htbCeil64:
			if len(data) < 8 {
				return malformed("rate of %d bytes", len(data))
			}
			if typ == htbRate64 {
				rate64 = native.Uint64(data)
			} else {
				ceil64 = native.Uint64(data)
			}
		}
		return nil
	})
	if err == nil && !seen {
		err = malformed("class %s without struct tc_htb_opt", c.ID)
	}
	c.Rate, c.Ceil = bitRate(max(rate, rate64)), bitRate(max(ceil, ceil64))
	return c, err
}

// bitRate is bytes per second in bits; the largest rate there is where that would overflow.
func bitRate(bytes uint64) tc.BitRate {
	if bytes > math.MaxUint64/8 {
		return math.MaxUint64 &^ 7
	}
	return tc.BitRate(bytes * 8)
}

// ParentOf is the parent that a message about c has to name: the qdisc for a class without a parent class.
func ParentOf(c tc.Class) tc.Handle {
	if c.Parent == tc.Root {
		return tc.MakeHandle(c.ID.Major(), 0)
	}
	return c.Parent
}

// AppendNewClass appends RTM_NEWTCLASS for an HTB class. A rate from 2^32 bytes per second up goes into an attribute of its own; its place in
// struct tc_htb_opt then holds the largest number, since 0 there is EINVAL.
func AppendNewClass(b []byte, h Header, index int, c tc.Class) []byte {
	from := len(b)
	h.Type = unix.RTM_NEWTCLASS
	b = appendTcmsg(start(b, h), index, uint32(c.ID), ParentOf(c), 0)
	b = appendString(b, tcaKind, tc.KindHTB)
	b = appendNested(b, tcaOptions, func(b []byte) []byte {
		rate, ceil := c.Rate.BytesPerSecond(), c.Ceil.BytesPerSecond()
		if rate > math.MaxUint32 {
			b = appendUint64(b, htbRate64, rate)
		}
		if ceil > math.MaxUint32 {
			b = appendUint64(b, htbCeil64, ceil)
		}
		return appendNested(b, htbParms, func(b []byte) []byte {
			b = appendRateSpec(appendRateSpec(b, rate), ceil)
			for _, v := range [...]uint32{uint32(c.Buffer), uint32(c.Cbuffer), c.Quantum, 0, c.Prio} {
				b = native.AppendUint32(b, v)
			}
			return b
		})
	})
	return finish(b, from)
}

// appendRateSpec appends struct tc_ratespec: cell_log, linklayer, overhead, cell_align, mpu, rate.
func appendRateSpec(b []byte, rate uint64) []byte {
	b = append(b, 0, linkLayerEthernet, 0, 0, 0, 0, 0, 0)
	return native.AppendUint32(b, uint32(min(rate, math.MaxUint32)))
}

// AppendDeleteClass appends RTM_DELTCLASS.
func AppendDeleteClass(b []byte, h Header, index int, c tc.Class) []byte {
	from := len(b)
	h.Type = unix.RTM_DELTCLASS
	return finish(appendTcmsg(start(b, h), index, uint32(c.ID), 0, 0), from)
}
