package u32

import (
	"encoding/binary"
	"net/netip"

	"bulkshaper/shaper/tc"
)

// Packet is a small UDP packet to dst, from the network header on, and the protocol that its frame would say. Check sums are 0:
// no filter looks at them.
func Packet(dst netip.Addr) ([]byte, tc.Protocol) {
	const udp, header, payload = 17, 8, 4
	if dst = dst.Unmap(); dst.Is4() {
		b := make([]byte, 20+header+payload)
		b[0] = 0x45
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
		b[8], b[9] = 64, udp
		copy(b[16:], dst.AsSlice())
		binary.BigEndian.PutUint16(b[24:], header+payload)
		return b, tc.ProtocolIP
	}
	b := make([]byte, 40+header+payload)
	b[0] = 0x60
	binary.BigEndian.PutUint16(b[4:], header+payload)
	b[6], b[7] = udp, 64
	copy(b[24:], dst.AsSlice())
	binary.BigEndian.PutUint16(b[44:], header+payload)
	return b, tc.ProtocolIPv6
}
