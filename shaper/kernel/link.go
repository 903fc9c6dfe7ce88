package kernel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"bulkshaper/shaper/tc"
)

// readLink reads what the kernel says of the interface.
func (k *Kernel) readLink() (tc.Link, error) {
	link, err := k.link()
	if err != nil {
		return tc.Link{}, err
	}
	a := link.Attrs()
	l := tc.Link{
		Index: a.Index, Name: a.Name, MTU: a.MTU, TxQueueLen: a.TxQLen, TxQueues: a.NumTxQueues,
		Up: a.Flags&net.FlagUp != 0, Speed: k.speed(a.Name),
	}
	addresses, err := k.links.AddrList(link, netlink.FAMILY_ALL)
	if errors.Is(err, netlink.ErrDumpInterrupted) {
		return l, errTorn
	}
	if err != nil {
		return l, fmt.Errorf("read addresses of %s: %w", k.name, err)
	}
	for _, a := range addresses {
		if a.IPNet == nil {
			continue
		}
		if ip, ok := netip.AddrFromSlice(a.IP); ok && !ip.Unmap().IsLinkLocalUnicast() {
			l.Addresses = append(l.Addresses, ip.Unmap())
		}
	}
	if l.Tags, l.Bond, err = k.read.above(l.Index); err != nil {
		return l, fmt.Errorf("read the links above %s: %w", k.name, err)
	}
	slices.SortFunc(l.Addresses, netip.Addr.Compare)
	l.Addresses = slices.Compact(l.Addresses)
	return l, nil
}

const (
	ethtoolGetLinkSettings = 0x4c // ETHTOOL_GLINKSETTINGS
	// linkModeWords is the most words a link mode mask can have: the kernel says how many by a signed byte.
	linkModeWords = 127
)

// linkSettings is struct ethtool_link_settings with room for its three masks (linux/ethtool.h).
type linkSettings struct {
	cmd, speed                                     uint32
	duplex, port, phyAddress, autoneg, mdioSupport uint8
	tpMDIX, tpMDIXControl                          uint8
	maskWords                                      int8
	transceiver, slaveConfig, slaveState, matching uint8
	reserved                                       [7]uint32
	masks                                          [3 * linkModeWords]uint32
}

// speed is the link's own speed; 0 where the driver does not know it. The ioctl goes through the netlink socket, which
// is in the right namespace; it needs no privilege, neither /proc nor /sys.
func (k *Kernel) speed(name string) tc.BitRate {
	var s linkSettings
	// The first call says how many words a mask has, as a negative number; the second one gets the settings.
	for range 2 {
		s.cmd = ethtoolGetLinkSettings
		if ethtool(k.read.fd, name, unsafe.Pointer(&s)) != nil {
			return 0
		}
		if s.maskWords >= 0 {
			break
		}
		s.maskWords = -s.maskWords
	}
	const unknown = 1<<32 - 1 // SPEED_UNKNOWN
	if s.speed == unknown {
		return 0
	}
	return tc.BitRate(s.speed) * 1_000_000
}

// ethtool does SIOCETHTOOL with data, one of ethtool's structures.
func ethtool(fd int, name string, data unsafe.Pointer) error {
	// struct ifreq: the name, then a union of 24 bytes.
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: data}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return errno
	}
	return nil
}
