package main

import (
	"fmt"
	"net/netip"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	discardPort  = 9
	payloadBytes = 18
	// packetsAtOnce go out in one system call, whose own cost would else hide that of the packets.
	packetsAtOnce = 64
)

// sender sends small UDP packets as Ethernet frames: routing and the sockets of UDP would add a cost that has nothing to do with qdiscs.
type sender struct{ fd int }

// targets are packets to destinations as the kernel wants them: an array of struct mmsghdr for sendmmsg(2).
type targets struct {
	messages []message
	frames   [][]byte
	vectors  []unix.Iovec
}

// message is struct mmsghdr.
type message struct {
	header unix.Msghdr
	length uint32
	_      [4]byte
}

func newTargets(addresses []netip.Addr) *targets {
	// The first ones stand at the end again, so that any part of a round is one array.
	n := len(addresses)
	t := &targets{messages: make([]message, n+packetsAtOnce), frames: make([][]byte, n), vectors: make([]unix.Iovec, n)}
	for i, a := range addresses {
		t.frames[i] = frame(a)
		t.vectors[i].Base = &t.frames[i][0]
		t.vectors[i].SetLen(len(t.frames[i]))
	}
	for i := range t.messages {
		h := &t.messages[i].header
		h.Iov = &t.vectors[i%n]
		h.SetIovlen(1)
	}
	return t
}

// frame is a UDP packet to an address, in an Ethernet frame that the far end drops since it is for another station. Checksums are not
// looked at on the way.
func frame(to netip.Addr) []byte {
	const hops, udp, versionIHL, version6 = 64, unix.IPPROTO_UDP, 0x45, 0x60
	b := []byte{2, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 1}
	if to.Is4() {
		from := netip.MustParseAddr(node4).As4()
		b = append(b, 0x08, 0x00, versionIHL, 0, 0, 20+8+payloadBytes, 0, 0, 0, 0, hops, udp, 0, 0)
		b = append(append(b, from[:]...), to.AsSlice()...)
	} else {
		from := netip.MustParseAddr(node6).As16()
		b = append(b, 0x86, 0xdd, version6, 0, 0, 0, 0, 8+payloadBytes, udp, hops)
		b = append(append(b, from[:]...), to.AsSlice()...)
	}
	b = append(b, 0, discardPort, 0, discardPort, 0, 8+payloadBytes, 0, 0)
	return append(b, make([]byte, payloadBytes)...)
}

// newSender opens a socket on a bed's interface.
func newSender(b *bed) (*sender, error) {
	s := &sender{fd: -1}
	err := enter(b.near, func() (err error) {
		if s.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err == nil {
			err = unix.Bind(s.fd, &unix.SockaddrLinklayer{Ifindex: b.index})
		}
		return err
	})
	if err != nil {
		s.close()
		return nil, fmt.Errorf("open packet socket: %w", err)
	}
	return s, nil
}

func (s *sender) close() {
	if s.fd >= 0 {
		unix.Close(s.fd)
	}
}

// send sends packets to the targets in turn, beginning at from, and returns the nanoseconds of processor time that one takes. Sending
// over veth runs in this thread to the far end, so this is the whole cost.
func (s *sender) send(to *targets, from, packets int) (float64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start, err := threadTime()
	if err != nil {
		return 0, err
	}
	n := len(to.frames)
	for next, left := from%n, packets; left > 0; {
		count := min(left, packetsAtOnce)
		sent, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&to.messages[next])), uintptr(count), 0, 0, 0)
		if errno != 0 {
			return 0, fmt.Errorf("send: %w", errno)
		}
		left -= int(sent)
		next = (next + int(sent)) % n
	}
	end, err := threadTime()
	runtime.KeepAlive(to)
	return float64(end-start) / float64(packets), err
}

// threadTime is the processor time of this thread in nanoseconds: what others do on a busy machine is not in it.
func threadTime() (int64, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	return t.Nano(), nil
}
