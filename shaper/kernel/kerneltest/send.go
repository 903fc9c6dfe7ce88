package kerneltest

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

const discardPort = 9

// FrameBytes is what the kernel's counters add for one packet of Send: Ethernet, IPv4 or IPv6, and UDP headers and the payload.
func FrameBytes(dst netip.Addr) uint64 {
	if dst.Is4() {
		return 14 + 20 + 8 + payloadBytes
	}
	return 14 + 40 + 8 + payloadBytes
}

const payloadBytes = 18

// Send sends n small UDP packets from the namespace to dst, port 9, and returns when they were handed to the kernel. It
// does not wait for packets that a class holds back.
func (n *Namespace) Send(t testing.TB, dst netip.Addr, packets int) {
	t.Helper()
	conn := n.listenPacket(t, dst)
	defer conn.Close()
	payload := make([]byte, payloadBytes)
	for range packets {
		if _, err := conn.WriteToUDPAddrPort(payload, netip.AddrPortFrom(dst, discardPort)); err != nil {
			t.Fatalf("send to %s: %v", dst, err)
		}
	}
}

func (n *Namespace) listenPacket(t testing.TB, dst netip.Addr) *net.UDPConn {
	t.Helper()
	network := "udp4"
	if dst.Is6() {
		network = "udp6"
	}
	var conn *net.UDPConn
	var err error
	n.Do(func() { conn, err = net.ListenUDP(network, nil) })
	if err != nil {
		t.Fatalf("open socket for %s: %v", dst, err)
	}
	return conn
}

// SendFrame sends an Ethernet frame out of the namespace's end of the pair n times, past routing and neighbours.
func (n *Namespace) SendFrame(t testing.TB, frame []byte, times int) {
	t.Helper()
	n.SendFrames(t, slices.Repeat([][]byte{frame}, times)...)
}

// SendFrames sends Ethernet frames as SendFrame does. To close its socket takes the kernel some milliseconds, so many go better at once.
func (n *Namespace) SendFrames(t testing.TB, frames ...[]byte) {
	t.Helper()
	name := PeerInterface
	if n.node {
		name = Interface
	}
	n.Do(func() {
		link, err := net.InterfaceByName(name)
		if err != nil {
			t.Fatalf("find %s: %v", name, err)
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatalf("open packet socket: %v", err)
		}
		defer unix.Close(fd)
		to := &unix.SockaddrLinklayer{Ifindex: link.Index, Halen: 6}
		for _, frame := range frames {
			if err := unix.Sendto(fd, frame, 0, to); err != nil {
				t.Fatalf("send frame: %v", err)
			}
		}
	})
}

// EthernetFrame is payload behind an Ethernet header from the node to its peer, with ethertype protocol.
func EthernetFrame(protocol uint16, payload []byte) []byte {
	frame := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, byte(protocol >> 8), byte(protocol)}
	return append(frame, payload...)
}
