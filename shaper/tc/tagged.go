package tc

// A packet that leaves with a VLAN tag is of protocol 802.1q (or 802.1ad) to the classifier, whoever writes the tag into the frame:
// the device (tx-vlan-offload), the kernel for it, or the sender. Offsets count from the IP header all the same, behind the tag. So a
// filter of protocol ip never meets it, one of protocol 802.1q finds the destination where it always is, and has to tell IPv4 from IPv6
// by the version in the first four bits. (tcf_classify takes skb_protocol; u32 counts from the network header.)

// IsTag tells whether p is that of a VLAN tag.
func (p Protocol) IsTag() bool { return p == ProtocolVLAN || p == ProtocolQinQ }

// versionKey is the key for packets of an IP version.
func versionKey(version uint32) Key { return Key{Mask: 0xf0000000, Value: version << 28} }

// BehindTag is s, made for protocol, for use under the protocol of a tag. The key of the version comes first: the others may lie behind
// the end of a packet of another kind, and such a key ends the search in the whole pref.
func (s Selector) BehindTag(protocol Protocol) Selector {
	key := versionKey(map[Protocol]uint32{ProtocolIP: 4, ProtocolIPv6: 6}[protocol])
	keys := s.Keys
	if len(keys) > 0 && keys[0].Off == 0 && keys[0].OffMask == 0 { // tc would make one key of two for one word
		key.Mask, key.Value = key.Mask|keys[0].Mask, key.Value|keys[0].Value
		keys = keys[1:]
	}
	s.Keys = append([]Key{key}, keys...)
	return s
}

// untagged is the IP protocol that f is for and its keys, without that of the version where f is for packets with a tag; false if
// it is for none or for both.
func (f Filter) untagged() (Protocol, []Key, bool) {
	switch {
	case f.Protocol == ProtocolIP, f.Protocol == ProtocolIPv6:
		return f.Protocol, f.Sel.Keys, true
	case f.Protocol.IsTag() && len(f.Sel.Keys) > 0 && f.Sel.Keys[0] == versionKey(4):
		return ProtocolIP, f.Sel.Keys[1:], true
	case f.Protocol.IsTag() && len(f.Sel.Keys) > 0 && f.Sel.Keys[0] == versionKey(6):
		return ProtocolIPv6, f.Sel.Keys[1:], true
	}
	return 0, nil, false
}
