package wire

import "golang.org/x/sys/unix"

const (
	ifaPropList   = 52 // IFLA_PROP_LIST
	ifaAltIfname  = 53 // IFLA_ALT_IFNAME
	ifinfomsgSize = unix.SizeofIfInfomsg
)

// Link is what a notification about a link says of who it is.
type Link struct {
	// Family is AF_UNSPEC for the link itself and AF_BRIDGE for its place in a bridge.
	Family uint8
	Index  int
	// Name is "" where the message has none.
	Name     string
	AltNames []string
}

// ParseLink reads the payload of RTM_NEWLINK and RTM_DELLINK.
func ParseLink(payload []byte) (Link, error) {
	if len(payload) < ifinfomsgSize {
		return Link{}, malformed("struct ifinfomsg of %d bytes", len(payload))
	}
	l := Link{Family: payload[0], Index: int(int32(native.Uint32(payload[4:])))}
	err := attributes(payload[ifinfomsgSize:], func(typ uint16, data []byte) error {
		switch typ {
		case unix.IFLA_IFNAME:
			l.Name = cString(data)
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
	return l, err
}

// AddressIndex is the interface that RTM_NEWADDR and RTM_DELADDR are about.
func AddressIndex(payload []byte) (int, error) {
	if len(payload) < unix.SizeofIfAddrmsg {
		return 0, malformed("struct ifaddrmsg of %d bytes", len(payload))
	}
	return int(native.Uint32(payload[4:])), nil
}
