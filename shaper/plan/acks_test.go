package plan_test

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"bulkshaper/shaper/kernel/kerneltest"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/u32"
)

// segment is a packet of TCP, made of what a filter for acknowledgements has to tell apart.
type segment struct {
	name    string
	flags   byte
	payload int
	options int // bytes of TCP options
	ip      int // bytes of IPv4 options; with IPv6 an extension header of 8 bytes where it is not 0
	frag    uint16
	udp     bool
	ack     bool // what it should be taken for
}

const fin, syn, rst, psh, ack, ece, cwr = 1, 2, 4, 8, 0x10, 0x40, 0x80

func segments() []segment {
	return []segment{
		{name: "acknowledgement", flags: ack, ack: true},
		{name: "with time stamps", flags: ack, options: 12, ack: true},
		{name: "with all options there may be", flags: ack, options: 40, ack: true},
		{name: "with an echo of congestion", flags: ack | ece | cwr, options: 12, ack: true},
		{name: "SYN", flags: syn, options: 20},
		{name: "SYN and ACK", flags: syn | ack, options: 20},
		{name: "FIN", flags: fin | ack, options: 12},
		{name: "RST", flags: rst},
		{name: "RST and ACK", flags: rst | ack},
		{name: "a short request", flags: psh | ack, options: 12, payload: 20},
		{name: "data", flags: ack, options: 12, payload: 1000},
		{name: "IP options", flags: ack, options: 12, ip: 4},
		{name: "first fragment", flags: ack, options: 12, frag: 0x2000},
		{name: "last fragment", flags: ack, options: 12, frag: 0x00ff},
		{name: "do not fragment", flags: ack, options: 12, frag: 0x4000, ack: true},
		{name: "UDP", flags: ack, udp: true},
	}
}

func (s segment) packet(dst netip.Addr) ([]byte, tc.Protocol) {
	tcp := make([]byte, 20+s.options+s.payload)
	tcp[12], tcp[13] = byte(20+s.options)/4<<4, s.flags
	protocol := byte(6)
	if s.udp {
		protocol = 17
	}
	if dst.Is4() {
		b := make([]byte, 20+s.ip, 20+s.ip+len(tcp))
		b[0] = 0x40 | byte(len(b)/4)
		binary.BigEndian.PutUint16(b[2:], uint16(cap(b)))
		binary.BigEndian.PutUint16(b[6:], s.frag)
		b[8], b[9] = 64, protocol
		copy(b[16:], dst.AsSlice())
		return append(b, tcp...), tc.ProtocolIP
	}
	extension := []byte{}
	if s.ip > 0 || s.frag&0x3fff != 0 {
		extension = []byte{protocol, 0, 1, 4, 0, 0, 0, 0} // hop by hop options, padded
		protocol = 0
	}
	b := make([]byte, 40)
	b[0] = 0x60
	binary.BigEndian.PutUint16(b[4:], uint16(len(extension)+len(tcp)))
	b[6], b[7] = protocol, 64
	copy(b[24:], dst.AsSlice())
	return append(append(b, extension...), tcp...), tc.ProtocolIPv6
}

// TestAcks sends segments of all kinds through the real kernel, and holds the model of u32 against it.
func TestAcks(t *testing.T) {
	for layout, base := range map[string]input{"list": acks(), "hash": func() input { in := acks(); in.config.Layout = "hash"; return in }()} {
		t.Run(layout, func(t *testing.T) {
			n, k := open(t)
			p, err := base.build()
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range k.Apply(t.Context(), observe(t, k).Link, install(t, p)) {
				if r.Err != nil {
					t.Fatalf("%s: %v", r.Op, r.Err)
				}
			}
			filters := observe(t, k).Filters
			counted := func() map[tc.Handle]uint64 {
				stats, err := k.Stats(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				all := map[tc.Handle]uint64{}
				for _, c := range stats.Classes {
					all[c.Class.ID] = c.SentPackets
				}
				return all
			}
			acks, same, standard := tc.MakeHandle(1, 0x40), tc.MakeHandle(1, 0x10), tc.MakeHandle(1, 0x100)
			for dst, class := range map[string]tc.Handle{
				"10.241.28.14": same, "192.0.2.1": standard, "2001:db8:241:28::14": same, "2001:db8::99": standard,
			} {
				for _, s := range segments() {
					want := class
					if s.ack {
						want = acks
					}
					packet, protocol := s.packet(netip.MustParseAddr(dst))
					if got := u32.Classify(filters, packet, protocol); got.Matched && got.ClassID != want || !got.Matched && want != standard {
						t.Errorf("%s to %s: the model says %s, want %s", s.name, dst, got.ClassID, want)
					}
					before := counted()
					n.SendFrame(t, kerneltest.EthernetFrame(uint16(protocol), packet), 1)
					after := counted()
					for id, packets := range after {
						if extra := packets - before[id]; extra != 0 && id != want || extra != 1 && id == want {
							t.Errorf("%s to %s: %d packets in class %s, want one in %s", s.name, dst, extra, id, want)
						}
					}
				}
				packet, protocol := u32.Ack(netip.MustParseAddr(dst))
				if got := u32.Classify(filters, packet, protocol); got.ClassID != acks {
					t.Errorf("the model's own acknowledgement to %s goes to %s", dst, got.ClassID)
				}
			}
		})
	}
}

// TestAckClassMustBeALeaf: the kernel would take filters to a class that is none, and give the packets to the default class.
func TestAckClassMustBeALeaf(t *testing.T) {
	for _, class := range []string{"nothing", "control", "all"} {
		in := tree()
		in.config.AckClass = class
		if p, err := in.build(); err == nil || !strings.Contains(err.Error(), class) {
			t.Errorf("%q: %v, %v", class, p, err)
		}
	}
}

// TestAcksAreNoDestination: a class has as many destinations with acknowledgements as without.
func TestAcksAreNoDestination(t *testing.T) {
	in := acks()
	in.config.AckClass = "same-cabinet"
	p, err := in.build()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range p.Classes {
		if c.Name == "same-cabinet" && c.Destinations != 3 {
			t.Errorf("%d destinations, want 3", c.Destinations)
		}
	}
	for pref, protocol := range map[uint16]tc.Protocol{plan.PrefAckIPv4: tc.ProtocolIP, plan.PrefAckIPv6: tc.ProtocolIPv6} {
		if got, own := plan.OwnPref(pref); !own || got != protocol {
			t.Errorf("pref %d: %s, %v", pref, got, own)
		}
	}
}
