package wire

import (
	"io"

	"golang.org/x/sys/unix"

	"bulkshaper/shaper/tc"
)

// Attributes of all traffic control messages (linux/rtnetlink.h).
const (
	tcaKind         = 1
	tcaOptions      = 2
	tcaRate         = 5
	tcaStats2       = 7
	tcaChain        = 11
	tcaIngressBlock = 13
)

// Object is a qdisc, class or filter as the kernel sends it.
type Object struct {
	// Index is the interface's.
	Index int
	// Handle is a qdisc's handle, a classid, or what the kind of filter uses.
	Handle uint32
	Parent tc.Handle
	// Info is the leaf qdisc of a class; of a filter pref<<16 and the ethertype in network byte order.
	Info uint32
	Kind string
	// Options is TCA_OPTIONS, of which the format depends on the kind; nil if there was none.
	Options []byte
	// Chain is the filter chain, 0 for that which packets begin with.
	Chain uint32
	stats []byte
}

// ParseObject reads the payload of RTM_NEWQDISC, RTM_NEWTCLASS and RTM_NEWTFILTER and of the messages for deletion.
func ParseObject(payload []byte) (Object, error) {
	if len(payload) < tcmsgSize {
		return Object{}, malformed("struct tcmsg of %d bytes", len(payload))
	}
	o := Object{
		Index:  int(int32(native.Uint32(payload[4:]))),
		Handle: native.Uint32(payload[8:]),
		Parent: tc.Handle(native.Uint32(payload[12:])),
		Info:   native.Uint32(payload[16:]),
	}
	err := attributes(payload[tcmsgSize:], func(typ uint16, data []byte) error {
		switch typ {
		case tcaKind:
			o.Kind = kindOf(data)
		case tcaOptions:
			o.Options = data
		case tcaStats2:
			o.stats = data
		case tcaChain:
			if len(data) < 4 {
				return malformed("chain of %d bytes", len(data))
			}
			o.Chain = native.Uint32(data)
		}
		return nil
	})
	return o, err
}

// Fingerprint writes to h all of o that is not a counter: two objects that write the same are set up alike.
func (o Object) Fingerprint(h io.Writer) {
	var fixed [20]byte
	native.PutUint32(fixed[0:], uint32(o.Index))
	native.PutUint32(fixed[4:], o.Handle)
	native.PutUint32(fixed[8:], uint32(o.Parent))
	native.PutUint32(fixed[12:], o.Info)
	native.PutUint32(fixed[16:], uint32(len(o.Options)))
	h.Write(fixed[:])
	io.WriteString(h, o.Kind)
	switch o.Kind {
	case tc.KindU32:
		h.Write(withoutCounters(o.Options))
	case tc.KindHTB:
		// A malformed rest is left out here: whoever decodes o gets the error.
		_ = attributes(o.Options, func(typ uint16, data []byte) error {
			if typ == htbInit && len(data) >= htbGlobSize {
				data = data[:htbGlobDirect]
			}
			h.Write([]byte{byte(typ)})
			h.Write(data)
			return nil
		})
	default:
		h.Write(o.Options)
	}
}

// withoutCounters is the options of a u32 filter without what counts: TCA_U32_PCNT, which many kernels do not have, and what is in actions
// and policers, which tell since when they have been there. Where there is nothing of that they are returned as they are.
func withoutCounters(options []byte) []byte {
	var kept []byte
	from := 0 // of what is not yet in kept
	for b, at := options, 0; len(b) >= unix.SizeofRtAttr; {
		size := align(int(native.Uint16(b)))
		if size < unix.SizeofRtAttr || size > len(b) {
			break
		}
		switch native.Uint16(b[2:]) & typeMask {
		case u32Counters:
			kept = append(kept, options[from:at]...)
			from = at + size
		case u32Act, u32Police:
			kept = append(kept, options[from:at+unix.SizeofRtAttr]...)
			from = at + size
		}
		b, at = b[size:], at+size
	}
	if from == 0 {
		return options
	}
	return append(kept, options[from:]...)
}

// kindOf is cString without a copy for the kinds that come by the thousand.
func kindOf(data []byte) string {
	switch string(data) {
	case tc.KindU32 + "\x00":
		return tc.KindU32
	case tc.KindHTB + "\x00":
		return tc.KindHTB
	}
	return cString(data)
}

// appendTcmsg appends struct tcmsg.
func appendTcmsg(b []byte, index int, handle uint32, parent tc.Handle, info uint32) []byte {
	b = append(b, unix.AF_UNSPEC, 0, 0, 0)
	b = native.AppendUint32(b, uint32(index))
	b = native.AppendUint32(b, handle)
	b = native.AppendUint32(b, uint32(parent))
	return native.AppendUint32(b, info)
}

// AppendDump appends a request for all objects of a type, RTM_GETQDISC for example. Of classes and filters it gets those of
// one interface and below one qdisc; of qdiscs the kernel sends those of all interfaces whatever is asked.
func AppendDump(b []byte, typ uint16, seq uint32, index int, parent tc.Handle) []byte {
	from := len(b)
	b = start(b, Header{Type: typ, Flags: unix.NLM_F_DUMP, Seq: seq})
	return finish(appendTcmsg(b, index, 0, parent, 0), from)
}
