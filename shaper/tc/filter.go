package tc

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Protocol is an ethertype, in host byte order (linux/if_ether.h).
type Protocol uint16

// The protocols that filters are made for.
const (
	ProtocolAll   Protocol = 0x0003
	ProtocolIP    Protocol = 0x0800
	ProtocolARP   Protocol = 0x0806
	ProtocolVLAN  Protocol = 0x8100
	ProtocolIPv6  Protocol = 0x86dd
	ProtocolQinQ  Protocol = 0x88a8
	KindU32                = "u32"
	ipDstOffset            = 16 // struct iphdr, daddr
	ipv6DstOffset          = 24 // struct ipv6hdr, daddr
)

// String is tc's name of p.
func (p Protocol) String() string {
	switch p {
	case ProtocolAll:
		return "all"
	case ProtocolIP:
		return "ip"
	case ProtocolARP:
		return "arp"
	case ProtocolVLAN:
		return "802.1q"
	case ProtocolIPv6:
		return "ipv6"
	case ProtocolQinQ:
		return "802.1ad"
	}
	return fmt.Sprintf("0x%04x", uint16(p))
}

// Flags of struct tc_u32_sel.
const (
	U32Terminal  uint8 = 1
	U32Offset    uint8 = 2
	U32VarOffset uint8 = 4
	U32Eat       uint8 = 8
)

// Key is struct tc_u32_key: the 32 bits at Off (from the network header), under Mask, must be Value. Mask and Value are in
// host byte order, so that Value of 10.0.0.1 is 0x0a000001.
type Key struct {
	Mask, Value  uint32
	Off, OffMask int32
}

// Selector is struct tc_u32_sel. A selector without keys matches every packet.
type Selector struct {
	Flags    uint8
	OffShift uint8
	OffMask  uint16
	Off      uint16
	OffOff   int16
	// HOff and HMask say which bits of the packet choose the bucket of the table that the node links to.
	HOff  int16
	HMask uint32
	Keys  []Key
	// Extra says that the node also has an action, a policer, a mark, an input device or an offload flag, which ours never
	// have: it does not do what the rest says. Read back only.
	Extra bool
}

// Filter is one object of a u32 classifier (a node, or with Divisor a hash table), or a filter of another kind, of which
// only the kind and the place are known.
type Filter struct {
	// Parent is the qdisc or class that the filter hangs on, 1:.
	Parent   Handle
	Pref     uint16
	Protocol Protocol
	Kind     string
	// Handle is the node's own. Table 0 stands for the root table of its pref in what is wanted; what is read back has the
	// kernel's number. For a foreign kind it is whatever that kind uses.
	Handle U32Handle
	// Divisor is the number of buckets of a hash table, 0 for a node.
	Divisor uint32
	// ClassID is where a matching packet goes.
	ClassID Handle
	// Link is the hash table that a matching packet is looked up in next.
	Link U32Handle
	Sel  Selector
}

// IsNode tells nodes from hash tables and from filters of other kinds.
func (f Filter) IsNode() bool { return f.Kind == KindU32 && f.Divisor == 0 && f.Handle.Node() != 0 }

// MatchID tells nodes apart by what they match: two nodes of a pref with the same MatchID match the same packets. The key
// "0 under mask 0 at 0", which tc needs to write a match of everything, counts as none. How a link chooses its bucket is not
// part of it.
func (s Selector) MatchID() string {
	b := make([]byte, 0, 16+16*len(s.Keys))
	b = append(b, s.Flags, s.OffShift)
	b = binary.BigEndian.AppendUint16(b, s.OffMask)
	b = binary.BigEndian.AppendUint16(b, s.Off)
	b = binary.BigEndian.AppendUint16(b, uint16(s.OffOff))
	for _, k := range s.Keys {
		if k == (Key{}) {
			continue
		}
		b = binary.BigEndian.AppendUint32(b, k.Mask)
		b = binary.BigEndian.AppendUint32(b, k.Value)
		b = binary.BigEndian.AppendUint32(b, uint32(k.Off))
		b = binary.BigEndian.AppendUint32(b, uint32(k.OffMask))
	}
	if s.Extra {
		b = append(b, 1)
	}
	return string(b)
}

// MatchDestination is the selector of a terminal node for packets to p: the keys tc makes of "match ip dst" and "match ip6
// dst", on a header at offset 0. p of length 0 gives no key and so matches everything.
func MatchDestination(p netip.Prefix) Selector {
	address := p.Masked().Addr().AsSlice()
	offset := int32(ipDstOffset)
	if p.Addr().Is6() {
		offset = ipv6DstOffset
	}
	sel := Selector{Flags: U32Terminal}
	for bits, i := p.Bits(), 0; bits > 0; bits, i = bits-32, i+4 {
		mask := ^uint32(0)
		if bits < 32 {
			mask <<= 32 - bits
		}
		sel.Keys = append(sel.Keys, Key{Mask: mask, Value: binary.BigEndian.Uint32(address[i:]), Off: offset + int32(i)})
	}
	return sel
}

// Destination is the prefix that f matches, if that is all it matches (and, under the protocol of a VLAN tag, the IP version).
func (f Filter) Destination() (netip.Prefix, bool) {
	var address [16]byte
	protocol, keys, ok := f.untagged()
	if !ok {
		return netip.Prefix{}, false
	}
	width, offset := 4, ipDstOffset
	if protocol == ProtocolIPv6 {
		width, offset = 16, ipv6DstOffset
	}
	bits := 0
	for i, k := range keys {
		ones := 0
		for m := k.Mask; m&(1<<31) != 0; m <<= 1 {
			ones++
		}
		ordered := i*4 < width && k.Off == int32(offset+i*4) && k.OffMask == 0 && bits == i*32
		if !ordered || ones == 0 || k.Mask != ^uint32(0)<<(32-ones) || k.Value&^k.Mask != 0 {
			return netip.Prefix{}, false
		}
		binary.BigEndian.PutUint32(address[i*4:], k.Value)
		bits += ones
	}
	a, _ := netip.AddrFromSlice(address[:width])
	return netip.PrefixFrom(a, bits), true
}

// Type is the kind of object: "filter".
func (Filter) Type() string { return "filter" }

// Ident is the type and what tells this object from others of its type.
func (f Filter) Ident() string {
	id := fmt.Sprintf("filter %s pref %d %s", f.Protocol, f.Pref, f.handle())
	if d, ok := f.Destination(); ok && f.IsNode() && (f.Link == 0 || d.Bits() > 0) {
		id += " dst " + d.String()
	}
	if f.Link != 0 {
		id += " link " + f.Link.String()
	}
	return id
}

// handle is how tc writes the handle: other kinds than u32 have plain numbers.
func (f Filter) handle() string {
	if f.Kind == KindU32 {
		return f.Handle.String()
	}
	return fmt.Sprintf("0x%x", uint32(f.Handle))
}

func (f Filter) tcArgs(verb Verb, dev string) []string {
	args := []string{"filter", string(verb), "dev", dev, "parent", f.Parent.String(), "protocol", f.Protocol.String(),
		"pref", strconv.FormatUint(uint64(f.Pref), 10)}
	if f.Handle != 0 {
		args = append(args, "handle", f.handle())
	}
	args = append(args, f.Kind)
	if verb == Delete || f.Kind != KindU32 {
		return args
	}
	if f.Divisor != 0 {
		return append(args, "divisor", strconv.FormatUint(uint64(f.Divisor), 10))
	}
	if verb == Add {
		if f.Handle.Table() != 0 {
			args = append(args, "ht", MakeU32Handle(f.Handle.Table(), f.Handle.Bucket(), 0).String())
		}
		args = append(args, f.Sel.tcArgs(f)...)
	}
	if f.Link != 0 {
		args = append(args, "link", f.Link.String())
	}
	if f.ClassID != Unspec {
		args = append(args, "flowid", f.ClassID.String())
	}
	return args
}

func (s Selector) tcArgs(f Filter) []string {
	var args, destination []string
	keys := s.Keys
	if protocol, behind, ok := f.untagged(); ok && len(behind) > 0 {
		if d, ok := f.Destination(); ok {
			name := map[Protocol]string{ProtocolIP: "ip", ProtocolIPv6: "ip6"}[protocol]
			keys, destination = keys[:len(keys)-len(behind)], []string{"match", name, "dst", d.String()}
		}
	}
	for _, k := range keys {
		args = append(args, "match", "u32", fmt.Sprintf("0x%08x", k.Value), fmt.Sprintf("0x%08x", k.Mask), "at", strconv.Itoa(int(k.Off)))
	}
	if args = append(args, destination...); len(args) == 0 {
		args = append(args, "match", "u32", "0", "0")
	}
	if s.HMask != 0 {
		args = append(args, "hashkey", "mask", fmt.Sprintf("0x%08x", s.HMask), "at", strconv.Itoa(int(s.HOff)))
	}
	return args
}

// String prints f as tc(8) would take it, without the device.
func (f Filter) String() string { return strings.Join(f.tcArgs(Add, "DEV"), " ") }
