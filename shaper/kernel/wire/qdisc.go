package wire

import (
	"fmt"

	"golang.org/x/sys/unix"

	"bulkshaper/shaper/tc"
)

// Attributes of HTB (linux/pkt_sched.h).
const (
	htbParms  = 1
	htbInit   = 2
	htbRate64 = 6
	htbCeil64 = 7

	// struct tc_htb_glob: version, rate2quantum, defcls, debug, direct_pkts.
	htbGlobSize   = 20
	htbGlobDirect = 16
	htbVersion    = 3 // what htb_init insists on
)

// limitAttributes are the kinds that have a limit as an attribute of their own, in packets. The fifos are not here: their options are
// struct tc_fifo_qopt, which is the limit and nothing else.
func limitAttribute(kind string) (attr uint16, ok bool) {
	switch kind {
	case "fq", "fq_pie":
		return 1, true
	case tc.KindFQCodel, "codel", "pie":
		return 2, true
	}
	return 0, false
}

func isFIFO(kind string) bool {
	return kind == tc.KindPFIFO || kind == tc.KindBFIFO || kind == "pfifo_head_drop"
}

// Qdisc reads o as a qdisc. Of kinds that it does not know it reads where they are and what they are.
func (o Object) Qdisc() (tc.Qdisc, error) {
	q := tc.Qdisc{Handle: tc.Handle(o.Handle), Parent: o.Parent, Kind: o.Kind}
	if o.Options == nil {
		return q, nil
	}
	if isFIFO(o.Kind) {
		if len(o.Options) < 4 {
			return q, malformed("struct tc_fifo_qopt of %d bytes", len(o.Options))
		}
		q.Limit = native.Uint32(o.Options)
		return q, nil
	}
	limit, hasLimit := limitAttribute(o.Kind)
	if !hasLimit && o.Kind != tc.KindHTB {
		return q, nil
	}
	err := attributes(o.Options, func(typ uint16, data []byte) error {
		switch {
		case o.Kind == tc.KindHTB && typ == htbInit:
			if len(data) < htbGlobSize {
				return malformed("struct tc_htb_glob of %d bytes", len(data))
			}
			q.HTB = tc.HTB{R2Q: native.Uint32(data[4:]), Default: native.Uint32(data[8:]), DirectPackets: native.Uint32(data[htbGlobDirect:])}
		case hasLimit && typ == limit:
			if len(data) < 4 {
				return malformed("limit of %d bytes", len(data))
			}
			q.Limit = native.Uint32(data)
		}
		return nil
	})
	return q, err
}

// AppendNewQdisc appends RTM_NEWQDISC. A limit that is not 0 for a kind whose limit is not known here is an error.
func AppendNewQdisc(b []byte, h Header, index int, q tc.Qdisc) ([]byte, error) {
	limit, hasLimit := limitAttribute(q.Kind)
	if q.Limit != 0 && !hasLimit && !isFIFO(q.Kind) {
		return b, fmt.Errorf("a qdisc of kind %s takes no limit here", q.Kind)
	}
	from := len(b)
	h.Type = unix.RTM_NEWQDISC
	b = appendTcmsg(start(b, h), index, uint32(q.Handle), q.Parent, 0)
	b = appendString(b, tcaKind, q.Kind)
	switch {
	case q.Kind == tc.KindHTB:
		b = appendNested(b, tcaOptions, func(b []byte) []byte {
			return appendNested(b, htbInit, func(b []byte) []byte {
				b = native.AppendUint32(b, htbVersion)
				b = native.AppendUint32(b, q.HTB.R2Q)
				b = native.AppendUint32(b, q.HTB.Default)
				return append(b, make([]byte, 8)...)
			})
		})
	case q.Limit != 0 && isFIFO(q.Kind):
		b = appendUint32(b, tcaOptions, q.Limit)
	case q.Limit != 0:
		b = appendNested(b, tcaOptions, func(b []byte) []byte { return appendUint32(b, limit, q.Limit) })
	}
	return finish(b, from), nil
}

// AppendDeleteQdisc appends RTM_DELQDISC for the qdisc at q's parent; with handle 0 whatever stands there.
func AppendDeleteQdisc(b []byte, h Header, index int, q tc.Qdisc) []byte {
	from := len(b)
	h.Type = unix.RTM_DELQDISC
	return finish(appendTcmsg(start(b, h), index, uint32(q.Handle), q.Parent, 0), from)
}

// AppendProbeQdisc appends a message that asks whether the kernel knows a kind of qdisc, without effect. It asks for a root
// qdisc that cannot be made: qdisc_create looks the kind up first (ENOENT, "Specified qdisc kind is unknown"), then refuses the
// ingress block, which nothing that works on what is sent can have (EOPNOTSUPP, from 4.16), then the rate estimator
// with an interval that does not exist (EINVAL), all before it attaches anything.
func AppendProbeQdisc(b []byte, h Header, index int, handle tc.Handle, kind string) []byte {
	from := len(b)
	h.Type = unix.RTM_NEWQDISC
	b = appendTcmsg(start(b, h), index, uint32(handle), tc.Root, 0)
	b = appendString(b, tcaKind, kind)
	b = appendAttr(b, tcaRate, []byte{127, 0}) // struct tc_estimator: interval (-2 to 3), ewma_log
	return finish(appendUint32(b, tcaIngressBlock, 1), from)
}
