package wire

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"bulkshaper/shaper/tc"
)

// Attributes of links (linux/if_link.h).
const (
	iflaLink     = 5  // IFLA_LINK: the interface that this one stands on
	iflaMaster   = 10 // IFLA_MASTER
	iflaLinkInfo = 18 // IFLA_LINKINFO
	iflaNetns    = 37 // IFLA_LINK_NETNSID: where IFLA_LINK is, if elsewhere
	ifaPropList  = 52 // IFLA_PROP_LIST
	ifaAltIfname = 53 // IFLA_ALT_IFNAME

	infoKind = 1 // IFLA_INFO_KIND
	infoData = 2 // IFLA_INFO_DATA

	vlanProtocol    = 5 // IFLA_VLAN_PROTOCOL, in network byte order
	bridgeFiltering = 7 // IFLA_BR_VLAN_FILTERING
	bridgeProtocol  = 8 // IFLA_BR_VLAN_PROTOCOL, in network byte order

	ifinfomsgSize = unix.SizeofIfInfomsg
)

// Link is what a message about a link says of who it is and what it stands on.
type Link struct {
	// Family is AF_UNSPEC for the link itself and AF_BRIDGE for its place in a bridge.
	Family uint8
	Index  int
	// Name is "" where the message has none.
	Name     string
	AltNames []string
	// Kind is "vlan", "bridge" and so on, "" for a card.
	Kind string
	// On is the link that this one stands on, 0 for none and where that is in another namespace.
	On int
	// Master is the bridge, bond or the like that this link is a port of, 0 for none.
	Master int
	// Tag is the protocol of the tags that a VLAN device puts on, or a bridge that knows of VLANs; 0 for all else.
	Tag tc.Protocol
}

// ParseLink reads the payload of RTM_NEWLINK and RTM_DELLINK.
func ParseLink(payload []byte) (Link, error) {
	if len(payload) < ifinfomsgSize {
		return Link{}, malformed("struct ifinfomsg of %d bytes", len(payload))
	}
	l := Link{Family: payload[0], Index: int(int32(native.Uint32(payload[4:])))}
	elsewhere := false
	err := attributes(payload[ifinfomsgSize:], func(typ uint16, data []byte) error {
		switch typ {
		case unix.IFLA_IFNAME:
			l.Name = cString(data)
		case iflaLink, iflaMaster:
			if len(data) < 4 {
				return malformed("link attribute %d of %d bytes", typ, len(data))
			}
			if typ == iflaLink {
				l.On = int(int32(native.Uint32(data)))
			} else {
				l.Master = int(int32(native.Uint32(data)))
			}
		case iflaNetns:
			elsewhere = true
		case iflaLinkInfo:
			return l.info(data)
		case ifaPropList:
			return attributes(data, func(typ uint16, data []byte) error {
				if typ == ifaAltIfname {
					l.AltNames = append(l.AltNames, cString(data))
				}
				return nil
			})
		}
		return nil
	})
	if elsewhere {
		l.On = 0
	}
	return l, err
}

// info reads IFLA_LINKINFO, in which the kind comes first.
func (l *Link) info(b []byte) error {
	return attributes(b, func(typ uint16, data []byte) error {
		switch typ {
		case infoKind:
			l.Kind = cString(data)
		case infoData:
			switch l.Kind {
			case "vlan":
				return l.tag(data, vlanProtocol, 0)
			case "bridge":
				return l.tag(data, bridgeProtocol, bridgeFiltering)
			}
		}
		return nil
	})
}

// tag reads the protocol of tags, if there is no switch or it is on.
func (l *Link) tag(b []byte, protocol, onOff uint16) error {
	on := onOff == 0
	err := attributes(b, func(typ uint16, data []byte) error {
		switch typ {
		case protocol:
			if len(data) < 2 {
				return malformed("VLAN protocol of %d bytes", len(data))
			}
			l.Tag = tc.Protocol(binary.BigEndian.Uint16(data))
		case onOff:
			on = on || len(data) > 0 && data[0] != 0
		}
		return nil
	})
	if !on {
		l.Tag = 0
	}
	return err
}

// AppendDumpLinks appends a request for all links.
func AppendDumpLinks(b []byte, seq uint32) []byte {
	from := len(b)
	b = start(b, Header{Type: unix.RTM_GETLINK, Flags: unix.NLM_F_DUMP, Seq: seq})
	return finish(append(b, make([]byte, ifinfomsgSize)...), from)
}

// AddressIndex is the interface that RTM_NEWADDR and RTM_DELADDR are about.
func AddressIndex(payload []byte) (int, error) {
	if len(payload) < unix.SizeofIfAddrmsg {
		return 0, malformed("struct ifaddrmsg of %d bytes", len(payload))
	}
	return int(native.Uint32(payload[4:])), nil
}
