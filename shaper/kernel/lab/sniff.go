package lab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Seen is what left a server's interface, as a packet socket sees it: bytes of IPv4 frames by destination address. It is a witness
// of what is on the wire that has nothing to do with classes and filters.
type Seen struct {
	Bytes map[netip.Addr]uint64
	// Missed is how many packets came too fast to be looked at.
	Missed uint32
}

// Sniffer is somebody who looks.
type Sniffer struct {
	host string
	fd   int
	stop chan struct{}
	done chan struct{}
	seen Seen
	err  error
}

// Sniff begins to look at what leaves the interface, until Stop.
func (h *Host) Sniff() (*Sniffer, error) {
	fd, err := h.packetSocket(unix.ETH_P_ALL)
	if err != nil {
		return nil, fmt.Errorf("look at packets of %s: %w", h.Name, err)
	}
	const room, wait = 4 << 20, 50 * time.Millisecond // bytes, and how late Stop may be seen
	interval := unix.NsecToTimeval(wait.Nanoseconds())
	err = errors.Join(os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, room)),
		os.NewSyscallError("setsockopt", unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &interval)))
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("look at packets of %s: %w", h.Name, err)
	}
	s := &Sniffer{host: h.Name, fd: fd, stop: make(chan struct{}), done: make(chan struct{}), seen: Seen{Bytes: map[netip.Addr]uint64{}}}
	go s.look()
	return s, nil
}

// Stop ends the looking, after all that the socket holds.
func (s *Sniffer) Stop() (Seen, error) {
	close(s.stop)
	<-s.done
	defer unix.Close(s.fd)
	if s.err != nil {
		return s.seen, fmt.Errorf("look at packets of %s: %w", s.host, s.err)
	}
	stats, err := unix.GetsockoptTpacketStats(s.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return s.seen, fmt.Errorf("look at packets of %s: %w", s.host, os.NewSyscallError("getsockopt", err))
	}
	s.seen.Missed = stats.Drops
	return s.seen, nil
}

func (s *Sniffer) look() {
	defer close(s.done)
	head, flags := make([]byte, 64), unix.MSG_TRUNC
	for {
		n, from, err := unix.Recvfrom(s.fd, head, flags)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN) && flags&unix.MSG_DONTWAIT != 0:
			return
		case err != nil && !errors.Is(err, unix.EAGAIN):
			s.err = os.NewSyscallError("recvfrom", err)
			return
		case err == nil:
			s.take(head, n, from)
		}
		select {
		case <-s.stop:
			flags |= unix.MSG_DONTWAIT
		default:
		}
	}
}

func (s *Sniffer) take(head []byte, n int, from unix.Sockaddr) {
	const header, addressAt = 14, 16 // Ethernet, and the destination in an IPv4 header
	link, ok := from.(*unix.SockaddrLinklayer)
	if ok && link.Pkttype == unix.PACKET_OUTGOING && n >= header+20 && binary.BigEndian.Uint16(head[12:]) == unix.ETH_P_IP {
		s.seen.Bytes[netip.AddrFrom4([4]byte(head[header+addressAt:header+addressAt+4]))] += uint64(n)
	}
}

// SendFrame sends an Ethernet frame out of the server's interface so many times, past routes and neighbours, through its qdisc.
func (h *Host) SendFrame(frame []byte, times int) error {
	fd, err := h.packetSocket(0)
	if err != nil {
		return fmt.Errorf("send frame from %s: %w", h.Name, err)
	}
	defer unix.Close(fd)
	for range times {
		if _, err := unix.Write(fd, frame); err != nil {
			return fmt.Errorf("send frame from %s: %w", h.Name, os.NewSyscallError("write", err))
		}
	}
	return nil
}

// packetSocket opens a raw socket on the interface that gets frames of a protocol, 0 for none.
func (h *Host) packetSocket(protocol uint16) (fd int, err error) {
	fd = -1
	err = h.Do(func() error {
		link, err := net.InterfaceByName(Interface)
		if err != nil {
			return err
		}
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return os.NewSyscallError("socket", err)
		}
		wire := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, protocol)) // htons
		return os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: wire, Ifindex: link.Index}))
	})
	if err != nil && fd >= 0 {
		unix.Close(fd)
	}
	return fd, err
}
