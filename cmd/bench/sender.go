package main

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	discardPort  = 9
	payloadBytes = 18
)

// sender sends small UDP packets, one system call each.
type sender struct {
	fd4, fd6 int
}

// target is a destination as the kernel wants it.
type target struct {
	address [unix.SizeofSockaddrInet6]byte
	size    uintptr
	v6      bool
}

func targets(addresses []netip.Addr) []target {
	list := make([]target, len(addresses))
	for i, a := range addresses {
		t := &list[i]
		binary.BigEndian.PutUint16(t.address[2:], discardPort)
		if a.Is4() {
			binary.NativeEndian.PutUint16(t.address[:], unix.AF_INET)
			copy(t.address[4:], a.AsSlice())
			t.size = unix.SizeofSockaddrInet4
			continue
		}
		binary.NativeEndian.PutUint16(t.address[:], unix.AF_INET6)
		copy(t.address[8:], a.AsSlice())
		t.size, t.v6 = unix.SizeofSockaddrInet6, true
	}
	return list
}

// newSender opens sockets in a namespace.
func newSender(namespace *os.File) (*sender, error) {
	s := &sender{fd4: -1, fd6: -1}
	err := enter(namespace, func() (err error) {
		if s.fd4, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err == nil {
			s.fd6, err = unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		}
		return err
	})
	if err != nil {
		s.close()
		return nil, fmt.Errorf("open sockets: %w", err)
	}
	return s, nil
}

func (s *sender) close() {
	for _, fd := range []int{s.fd4, s.fd6} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// send sends packets to the targets in turn, beginning at from, and returns the nanoseconds that one takes. Sending over veth runs
// in this thread to the far end, so this is the whole cost.
func (s *sender) send(to []target, from, packets int) (float64, error) {
	var payload [payloadBytes]byte
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := time.Now()
	for i, next := 0, from%len(to); i < packets; i++ {
		t := &to[next]
		fd := s.fd4
		if t.v6 {
			fd = s.fd6
		}
		_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&payload)), payloadBytes, 0,
			uintptr(unsafe.Pointer(&t.address)), t.size)
		if errno != 0 {
			return 0, fmt.Errorf("send: %w", errno)
		}
		if next++; next == len(to) {
			next = 0
		}
	}
	return float64(time.Since(start).Nanoseconds()) / float64(packets), nil
}
