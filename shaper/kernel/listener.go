package kernel

import (
	"errors"
	"os"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"bulkshaper/shaper/kernel/wire"
)

// listener tells whether an interface's traffic control changed while something was done. The kernel sends its notifications under the
// lock that each part of a dump takes, so what changed between two parts has been told when the dump is at its end.
type listener struct {
	socket *nl.NetlinkSocket
	fd     int
	in     []byte
}

func (k *Kernel) openListener() (*listener, error) {
	socket, err := nl.SubscribeAt(k.handle(), netns.None(), socketProtocol) // to no group yet
	if err != nil {
		return nil, err
	}
	return &listener{socket: socket, fd: socket.GetFd(), in: make([]byte, datagramSize)}, nil
}

func (l *listener) close() { l.socket.Close() }

// during does something and says whether qdiscs, classes and filters of the interface with the index stood still meanwhile. It listens
// no longer than that: of 100,000 changes of our own in one go nothing is kept for it.
func (l *listener) during(index int, do func() error) (still bool, err error) {
	if err := l.member(unix.NETLINK_ADD_MEMBERSHIP); err != nil {
		return false, err
	}
	failed := do()
	if err := l.member(unix.NETLINK_DROP_MEMBERSHIP); err != nil {
		return false, err
	}
	still, err = l.heardNothing(index)
	return still && failed == nil, errors.Join(failed, err)
}

func (l *listener) member(option int) error {
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(l.fd, unix.SOL_NETLINK, option, unix.RTNLGRP_TC))
}

// heardNothing reads all that was told, and says whether it is of other interfaces.
func (l *listener) heardNothing(index int) (bool, error) {
	still := true
	for {
		n, _, err := unix.Recvfrom(l.fd, l.in, unix.MSG_DONTWAIT)
		switch {
		case err == unix.EAGAIN:
			return still, nil
		case err == unix.EINTR:
			continue
		case err == unix.ENOBUFS: // more than fits: of whom is not known
			still = false
			continue
		case err != nil:
			return false, os.NewSyscallError("recvfrom", err)
		}
		for m, err := range wire.Messages(l.in[:n]) {
			if err != nil || concerns(m, index) {
				still = false
				break
			}
		}
	}
}

// concerns says whether a notification is of a qdisc, class, filter or chain of the interface, or cannot be read.
func concerns(m wire.Message, index int) bool {
	switch m.Type {
	case unix.RTM_NEWQDISC, unix.RTM_DELQDISC, unix.RTM_NEWTCLASS, unix.RTM_DELTCLASS, unix.RTM_NEWTFILTER, unix.RTM_DELTFILTER,
		unix.RTM_NEWCHAIN, unix.RTM_DELCHAIN:
		o, err := wire.ParseObject(m.Payload)
		return err != nil || o.Index == index
	}
	return false
}
