package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	headerSize = unix.SizeofNlMsghdr
	// tcmsgSize is sizeof(struct tcmsg).
	tcmsgSize = 20
	// typeMask takes NLA_F_NESTED and NLA_F_NET_BYTEORDER off an attribute's type.
	typeMask = 0x3fff
)

// ErrMalformed is the error of bytes that are not what the kernel's headers say.
var ErrMalformed = errors.New("malformed netlink data")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
}

var native = binary.NativeEndian

// Header is struct nlmsghdr without the length.
type Header struct {
	Type, Flags uint16
	// Seq comes back in every reply.
	Seq uint32
	// Port is the socket that the message is from, 0 for the kernel; in what is sent 0 stands for the sending socket.
	Port uint32
}

// Message is one netlink message.
type Message struct {
	Header
	Payload []byte
}

// Messages are those in a datagram. The last pair has the error of a datagram that is cut short.
func Messages(datagram []byte) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for b := datagram; len(b) > 0; {
			if len(b) < headerSize {
				yield(Message{}, malformed("%d bytes of header", len(b)))
				return
			}
			size := int(native.Uint32(b))
			if size < headerSize || size > len(b) {
				yield(Message{}, malformed("message of %d bytes in %d", size, len(b)))
				return
			}
			m := Message{
				Header:  Header{Type: native.Uint16(b[4:]), Flags: native.Uint16(b[6:]), Seq: native.Uint32(b[8:]), Port: native.Uint32(b[12:])},
				Payload: b[headerSize:size:size],
			}
			if !yield(m, nil) {
				return
			}
			b = b[min(align(size), len(b)):]
		}
	}
}

// Reply is what NLMSG_ERROR and NLMSG_DONE say.
type Reply struct {
	// Errno is 0 for success.
	Errno syscall.Errno
	// Text is the kernel's explanation (extended acknowledgement), often empty.
	Text string
}

// ParseReply reads the payload of NLMSG_ERROR, or of NLMSG_DONE, which has no copy of the request.
func ParseReply(m Message) (Reply, error) {
	b := m.Payload
	if m.Type == unix.NLMSG_DONE && len(b) < 4 {
		return Reply{}, nil
	}
	if len(b) < 4 {
		return Reply{}, malformed("reply of %d bytes", len(b))
	}
	r := Reply{Errno: syscall.Errno(-int32(native.Uint32(b)))}
	b = b[4:]
	if m.Flags&unix.NLM_F_ACK_TLVS == 0 {
		return r, nil
	}
	if m.Type == unix.NLMSG_ERROR {
		if len(b) < headerSize {
			return r, malformed("reply without the header it answers")
		}
		request := headerSize
		if m.Flags&unix.NLM_F_CAPPED == 0 {
			request = align(int(native.Uint32(b)))
		}
		if request < headerSize || request > len(b) {
			return r, malformed("reply to %d bytes in %d", request, len(b))
		}
		b = b[request:]
	}
	err := attributes(b, func(typ uint16, data []byte) error {
		if typ == unix.NLMSGERR_ATTR_MSG {
			r.Text = cString(data)
		}
		return nil
	})
	return r, err
}

func align(n int) int { return (n + 3) &^ 3 }

func cString(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

// attributes calls visit for each attribute in b, until it returns an error.
func attributes(b []byte, visit func(typ uint16, data []byte) error) error {
	for len(b) > 0 {
		if len(b) < unix.SizeofRtAttr {
			return malformed("%d bytes of attribute", len(b))
		}
		size := int(native.Uint16(b))
		if size < unix.SizeofRtAttr || size > len(b) {
			return malformed("attribute of %d bytes in %d", size, len(b))
		}
		if err := visit(native.Uint16(b[2:])&typeMask, b[unix.SizeofRtAttr:size:size]); err != nil {
			return err
		}
		b = b[min(align(size), len(b)):]
	}
	return nil
}

// start begins a message; finish sets its length.
func start(b []byte, h Header) []byte {
	b = native.AppendUint32(b, 0)
	b = native.AppendUint16(b, h.Type)
	b = native.AppendUint16(b, h.Flags|unix.NLM_F_REQUEST)
	b = native.AppendUint32(b, h.Seq)
	return native.AppendUint32(b, h.Port)
}

func finish(b []byte, from int) []byte {
	native.PutUint32(b[from:], uint32(len(b)-from))
	return b
}

func appendAttr(b []byte, typ uint16, data []byte) []byte {
	b = native.AppendUint16(b, uint16(unix.SizeofRtAttr+len(data)))
	b = native.AppendUint16(b, typ)
	b = append(b, data...)
	return append(b, make([]byte, align(len(data))-len(data))...)
}

func appendUint32(b []byte, typ uint16, v uint32) []byte {
	b = native.AppendUint16(b, unix.SizeofRtAttr+4)
	b = native.AppendUint16(b, typ)
	return native.AppendUint32(b, v)
}

func appendUint64(b []byte, typ uint16, v uint64) []byte {
	b = native.AppendUint16(b, unix.SizeofRtAttr+8)
	b = native.AppendUint16(b, typ)
	return native.AppendUint64(b, v)
}

func appendString(b []byte, typ uint16, s string) []byte {
	return appendAttr(b, typ, append([]byte(s), 0))
}

// appendNested appends an attribute whose data fill appends.
func appendNested(b []byte, typ uint16, fill func([]byte) []byte) []byte {
	from := len(b)
	b = fill(append(b, 0, 0, 0, 0))
	native.PutUint16(b[from:], uint16(len(b)-from))
	native.PutUint16(b[from+2:], typ)
	return append(b, make([]byte, align(len(b)-from)-(len(b)-from))...)
}

// AskAck makes the message at the head of b ask for an acknowledgement.
func AskAck(b []byte) { native.PutUint16(b[6:], native.Uint16(b[6:])|unix.NLM_F_ACK) }
