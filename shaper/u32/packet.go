package u32

import (
	"encoding/binary"
	"net/netip"

	"bulkshaper/shaper/tc"
)

const (
	protocolTCP = 6
	protocolUDP = 17
)

// Packet is a small UDP packet to dst, from the network header on, and the protocol that its frame would say. Check sums are 0:
// no filter looks at them.
func Packet(dst netip.Addr) ([]byte, tc.Protocol) {
	const header, payload = 8, 4
	udp := make([]byte, header+payload)
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	return packet(dst, protocolUDP, udp)
}

// Ack is a pure TCP acknowledgement to dst, with time stamps as Linux sends them, likewise.
func Ack(dst netip.Addr) ([]byte, tc.Protocol) {
	const header, options, ack = 20, 12, 0x10
	tcp := make([]byte, header+options)
	tcp[12], tcp[13] = (header+options)/4<<4, ack
	return packet(dst, protocolTCP, tcp)
}

func packet(dst netip.Addr, protocol byte, content []byte) ([]byte, tc.Protocol) {
	if dst = dst.Unmap(); dst.Is4() {
		b := make([]byte, 20, 20+len(content))
		b[0] = 0x45
		binary.BigEndian.PutUint16(b[2:], uint16(cap(b)))
		b[8], b[9] = 64, protocol
		copy(b[16:], dst.AsSlice())
		return append(b, content...), tc.ProtocolIP
	}
	b := make([]byte, 40, 40+len(content))
	b[0] = 0x60
	binary.BigEndian.PutUint16(b[4:], uint16(len(content)))
	b[6], b[7] = protocol, 64
	copy(b[24:], dst.AsSlice())
	return append(b, content...), tc.ProtocolIPv6
}
