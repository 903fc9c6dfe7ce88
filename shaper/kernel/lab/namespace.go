package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// ErrPermission is the error where namespaces may not be made.
var ErrPermission = errors.New("no permission to make network namespaces: run it as root, or allow user namespaces (sysctl user.max_user_namespaces)")

// ownNamespace is the namespace of the thread that opens it.
const ownNamespace = "/proc/thread-self/ns/net"

// Namespace is an anonymous network namespace. It may be used by several goroutines at once.
type Namespace struct {
	name string
	file *os.File
	// congestion is the congestion control of the sockets opened here, "" for the kernel's default.
	congestion string
}

// newNamespace makes a namespace on a thread of its own, which ends with the goroutine.
func newNamespace(name string) (*Namespace, error) {
	type result struct {
		file *os.File
		err  error
	}
	made := make(chan result)
	go func() {
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			made <- result{err: err}
			return
		}
		file, err := os.Open(ownNamespace)
		made <- result{file, err}
	}()
	r := <-made
	if errors.Is(r.err, unix.EPERM) {
		return nil, ErrPermission
	}
	if r.err != nil {
		return nil, fmt.Errorf("make network namespace %s: %w", name, r.err)
	}
	return &Namespace{name: name, file: r.file}, nil
}

// FD is a descriptor of the namespace, open until the cluster is closed.
func (n *Namespace) FD() int { return int(n.file.Fd()) }

// Do runs f with its thread inside the namespace and returns f's error. Sockets that f opens belong to the namespace for good;
// goroutines that f starts do not run there.
func (n *Namespace) Do(f func() error) error {
	runtime.LockOSThread()
	home, err := os.Open(ownNamespace)
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("open own namespace: %w", err)
	}
	defer home.Close()
	if err := unix.Setns(n.FD(), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter namespace of %s: %w", n.name, err)
	}
	defer func() {
		// A thread that cannot go home stays locked, so that Go ends it with its goroutine.
		if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
	}()
	return f()
}

// netlink does something with a handle on the namespace's links, addresses and routes.
func (n *Namespace) netlink(f func(*netlink.Handle) error) error {
	h, err := netlink.NewHandleAt(netns.NsHandle(n.FD()), unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink socket for %s: %w", n.name, err)
	}
	defer h.Close()
	return f(h)
}

// sysctl writes values under /proc/sys/net; a key is a path, as in ipv4/ip_forward. Those of IPv6 are left out where the kernel
// has none.
func (n *Namespace) sysctl(values map[string]string) error {
	return n.Do(func() error {
		for key, value := range values {
			err := os.WriteFile(filepath.Join("/proc/sys/net", key), []byte(value), 0)
			if errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(key, "ipv6/") {
				continue
			}
			if err != nil {
				return fmt.Errorf("set sysctl of %s: %w", n.name, err)
			}
		}
		return nil
	})
}

// Listen opens a TCP port in the namespace.
func (n *Namespace) Listen(ctx context.Context, at netip.AddrPort) (*net.TCPListener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var set error
		err := raw.Control(func(fd uintptr) { set = n.setCongestion(int(fd)) })
		return errors.Join(err, set)
	}}
	config.SetMultipathTCP(false)
	var l net.Listener
	err := n.Do(func() (err error) {
		l, err = config.Listen(ctx, "tcp", at.String()) // what it accepts is like it
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.name, err)
	}
	return l.(*net.TCPListener), nil
}

// Dial connects from the namespace to a TCP port. No thread waits for the connection, so there may be many at once.
func (n *Namespace) Dial(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error) {
	conn, err := n.dial(ctx, to)
	if err != nil {
		return nil, fmt.Errorf("%s: connect to %s: %w", n.name, to, err)
	}
	return conn, nil
}

func (n *Namespace) dial(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error) {
	fd := -1
	err := n.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
		return os.NewSyscallError("socket", err)
	})
	if err != nil {
		return nil, err
	}
	if err := n.setCongestion(fd); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()})
	file := os.NewFile(uintptr(fd), "tcp")
	defer file.Close()
	if err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return nil, os.NewSyscallError("connect", err)
	}
	if err := connected(ctx, file); err != nil {
		return nil, err
	}
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	tcp := conn.(*net.TCPConn)
	return tcp, tcp.SetNoDelay(true)
}

// setCongestion gives a socket the namespace's congestion control. The sysctl of a namespace takes only those that the machine allows to
// everybody, a socket those that it has.
func (n *Namespace) setCongestion(fd int) error {
	if n.congestion == "" {
		return nil
	}
	if err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, n.congestion); err != nil {
		return fmt.Errorf("use congestion control %s (see net.ipv4.tcp_available_congestion_control): %w", n.congestion, err)
	}
	return nil
}

// connected waits until a socket has connected.
func connected(ctx context.Context, file *os.File) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = file.SetWriteDeadline(time.Unix(1, 0)) }) // it fails only when nobody waits any more
	defer stop()
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		if _, err := unix.Getpeername(int(fd)); err == nil {
			return true
		}
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if err != nil {
			failed = os.NewSyscallError("getsockopt", err)
		} else if code != 0 {
			failed = os.NewSyscallError("connect", unix.Errno(code))
		}
		return failed != nil
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case failed != nil:
		return failed
	}
	return err
}

// ListenUDP opens a UDP port in the namespace.
func (n *Namespace) ListenUDP(at netip.AddrPort) (*net.UDPConn, error) {
	var c *net.UDPConn
	err := n.Do(func() (err error) {
		c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.name, err)
	}
	return c, nil
}
