// Package claim sees to it that one daemon shapes an interface, whatever run folder each has.
//
// A claim is a listening unix socket with an abstract name. Such names belong to a network namespace, as interfaces do: a container with the
// host's network meets the host's daemon there, one with a network of its own does not, and no folder has to be shared or writable. The
// name is free again when its process ends in whatever way. Anybody may take an abstract name, so a claim counts only if its holder may
// shape the interface anyway.
package claim

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long Take waits for a daemon that is just ending.
const patience = time.Second

// Holder is the process that has a claim.
type Holder struct {
	// PID is its number, 0 where it is in a PID namespace that is not to be seen from here.
	PID int
	UID uint32
}

// String names the process.
func (h Holder) String() string {
	if h.PID == 0 {
		return fmt.Sprintf("a process of uid %d in another PID namespace", h.UID)
	}
	return fmt.Sprintf("process %d", h.PID)
}

// HeldError says that another daemon shapes the interface.
type HeldError struct {
	Interface string
	Holder    Holder
}

// Error says who and what to do.
func (e *HeldError) Error() string {
	return fmt.Sprintf("another bulkshaper (%s) shapes %s: two would undo each other's shaping; stop that one (`systemctl stop bulkshaper`, or its container)",
		e.Holder, e.Interface)
}

func name(iface string) string { return "@bulkshaper-" + iface }

// Take claims the interface until what it returns is closed. Where another daemon has it the error is a *HeldError; any other says that
// it could not be found out.
func Take(iface string) (io.Closer, error) {
	for end := time.Now().Add(patience); ; time.Sleep(patience / 20) {
		listener, err := net.Listen("unix", name(iface))
		if err == nil {
			go hangUp(listener)
			return listener, nil
		}
		if !errors.Is(err, unix.EADDRINUSE) {
			return nil, err
		}
		holder, held := find(iface)
		switch {
		case !held || time.Now().Before(end): // it goes, or may be about to
			if time.Now().After(end) {
				return nil, err
			}
		case !holder.mayShape():
			return nil, fmt.Errorf("the socket %s is taken by %s (uid %d), which may not shape: end it", name(iface), holder, holder.UID)
		default:
			return nil, &HeldError{iface, holder}
		}
	}
}

// hangUp ends the connections of those who ask, so that there is always room for the next.
func hangUp(listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		_ = connection.Close()
	}
}

// Find gives the daemon that shapes the interface in this network namespace, if one does.
func Find(iface string) (Holder, bool) {
	holder, held := find(iface)
	return holder, held && holder.mayShape()
}

// find asks the kernel who listens: its word, and not that of the process.
func find(iface string) (h Holder, held bool) {
	connection, err := net.DialTimeout("unix", name(iface), patience)
	if err != nil {
		return h, false
	}
	defer connection.Close()
	raw, err := connection.(*net.UnixConn).SyscallConn()
	if err != nil {
		return h, false
	}
	err = raw.Control(func(fd uintptr) {
		credentials, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			h, held = Holder{int(credentials.Pid), credentials.Uid}, true
		}
	})
	return h, held && err == nil
}

// mayShape tells whether the holder could shape the interface as far as can be seen: it is root, this process's user, or has CAP_NET_ADMIN in
// our user namespace. In one of its own everybody has that.
func (h Holder) mayShape() bool {
	if h.UID == 0 || h.UID == uint32(os.Geteuid()) {
		return true
	}
	if h.PID == 0 {
		return false
	}
	theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/user", h.PID))
	if err != nil {
		return false
	}
	ours, err := os.Readlink("/proc/self/ns/user")
	if err != nil || theirs != ours {
		return false
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.PID))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "CapEff:"); ok {
			mask, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
			return err == nil && mask&(1<<unix.CAP_NET_ADMIN) != 0
		}
	}
	return false
}
