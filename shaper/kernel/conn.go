package kernel

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"bulkshaper/shaper/kernel/wire"
	"bulkshaper/shaper/tc"
)

const (
	socketProtocol = unix.NETLINK_ROUTE
	// socketBuffer takes the answers to a batch in which every message fails, and bursts of notifications.
	socketBuffer = 8 << 20
	// datagramSize is over the 32 KiB that the kernel puts into a datagram of a dump.
	datagramSize = 64 << 10
	// answerWaitMilliseconds is how long an answer may take. The kernel makes it before the send returns, so this only guards against a kernel
	// that does not answer at all.
	answerWaitMilliseconds = 10_000
)

var (
	errClosed = errors.New("kernel is closed")
	// errTorn says that a dump was not of one moment.
	errTorn = errors.New("the kernel's tables changed while they were read")
	// errLost says that answers to a batch are missing.
	errLost = errors.New("the kernel's answers did not fit into the socket's buffer: whether it was done is not known")
)

// conn is a netlink socket for requests and their answers.
type conn struct {
	// mu is held from a request to the last of its answers.
	mu     sync.Mutex
	socket *nl.NetlinkSocket
	fd     int
	port   uint32
	seq    uint32
	in     []byte
	out    []byte
	closed bool
	dumps  *dumps // nil where nobody counts
}

func openConn(ns netns.NsHandle) (*conn, error) {
	socket, err := nl.GetNetlinkSocketAt(ns, netns.None(), socketProtocol)
	if err != nil {
		return nil, err
	}
	c := &conn{socket: socket, fd: socket.GetFd(), in: make([]byte, datagramSize)}
	if c.port, err = socket.GetPid(); err != nil {
		c.close()
		return nil, err
	}
	enlarge(c.fd)
	// Without these two (before 4.12, 4.3) messages are poorer or longer, no more.
	_ = socket.SetExtAck(true)
	_ = unix.SetsockoptInt(c.fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1)
	return c, nil
}

// enlarge sets the buffers of a socket: past the system's limit where that is permitted, else up to it.
func enlarge(fd int) {
	for forced, plain := range map[int]int{unix.SO_RCVBUFFORCE: unix.SO_RCVBUF, unix.SO_SNDBUFFORCE: unix.SO_SNDBUF} {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, forced, socketBuffer) != nil {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, plain, socketBuffer)
		}
	}
}

// close closes the socket; the caller holds mu.
func (c *conn) close() {
	if !c.closed {
		c.closed = true
		c.socket.Close()
	}
}

// next is a fresh sequence number. 0 is left out, as it is that of notifications without a request.
func (c *conn) next() uint32 {
	if c.seq++; c.seq == 0 {
		c.seq++
	}
	return c.seq
}

func (c *conn) send(b []byte) error {
	if c.closed {
		return errClosed
	}
	for {
		err := unix.Sendto(c.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		if err != unix.EINTR {
			return os.NewSyscallError("sendto", err)
		}
	}
}

// exchange sends messages with the sequence numbers from first on in one sendto, which the kernel runs to its end whatever
// becomes of this process, and returns the reply to each; only the last one may ask for an acknowledgement. errLost says that
// answers did not fit into the socket's buffer: replies that are there are right, but a message without one may have failed.
func (c *conn) exchange(b []byte, first uint32, count int) ([]wire.Reply, error) {
	a := answers{port: c.port, first: first, replies: make([]wire.Reply, count)}
	if err := c.send(b); err != nil {
		return nil, err
	}
	lost := false
	for {
		datagram, err := c.receive(lost)
		switch {
		case errors.Is(err, unix.ENOBUFS):
			lost = true
			continue
		case lost && errors.Is(err, unix.EAGAIN):
			return a.replies, errLost
		case err != nil:
			return a.replies, err
		}
		done, err := a.take(datagram)
		switch {
		case err != nil:
			return a.replies, err
		case done && lost:
			return a.replies, errLost
		case done:
			return a.replies, nil
		}
	}
}

// answers are the replies to messages with the sequence numbers from first on.
type answers struct {
	port, first uint32
	replies     []wire.Reply
}

// take reads a datagram; done says that the last message was answered.
func (a *answers) take(datagram []byte) (done bool, err error) {
	for m, err := range wire.Messages(datagram) {
		if err != nil {
			return false, err
		}
		i := int(m.Seq - a.first)
		if m.Port != a.port || m.Type != unix.NLMSG_ERROR || i < 0 || i >= len(a.replies) {
			continue
		}
		if a.replies[i], err = wire.ParseReply(m); err != nil {
			return false, err
		}
		done = done || i == len(a.replies)-1
	}
	return done, nil
}

// receive reads one datagram from the kernel; it is valid until the next one. Where nothing is there it waits, or with empty
// answers EAGAIN.
func (c *conn) receive(empty bool) ([]byte, error) {
	for {
		n, from, err := unix.Recvfrom(c.fd, c.in, unix.MSG_DONTWAIT|unix.MSG_TRUNC)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN && !empty:
			if err := c.wait(); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, os.NewSyscallError("recvfrom", err)
		case n > len(c.in):
			return nil, fmt.Errorf("datagram of %d bytes does not fit into %d", n, len(c.in))
		}
		if sender, ok := from.(*unix.SockaddrNetlink); ok && sender.Pid == 0 {
			return c.in[:n], nil
		}
	}
}

func (c *conn) wait() error {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}, answerWaitMilliseconds)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return os.NewSyscallError("poll", err)
		case n == 0:
			return errors.New("no answer from the kernel")
		default:
			return nil
		}
	}
}

// dump calls visit for each object of a type, RTM_GETTCLASS for example. The object is valid during the call only. errTorn says
// that the kernel marked the dump as not of one moment or that a part of it got lost.
func (c *conn) dump(typ uint16, index int, parent tc.Handle, visit func(wire.Object) error) error {
	c.dumps.count(typ)
	d := dumping{port: c.port, seq: c.next(), visit: ofObjects(visit)}
	c.out = wire.AppendDump(c.out[:0], typ, d.seq, index, parent)
	return c.finishDump(&d)
}

// ofObjects makes of a visitor of objects one of payloads.
func ofObjects(visit func(wire.Object) error) func([]byte) error {
	return func(payload []byte) error {
		o, err := wire.ParseObject(payload)
		if err != nil {
			return err
		}
		return visit(o)
	}
}

// finishDump sends c.out, the request, and takes all answers.
func (c *conn) finishDump(d *dumping) error {
	if err := c.send(c.out); err != nil {
		return err
	}
	// A dump is read to its end whatever happens: until then the socket takes no other.
	for {
		datagram, err := c.receive(false)
		if errors.Is(err, unix.ENOBUFS) {
			d.fail(errTorn)
			continue
		}
		if err != nil {
			return err
		}
		if d.take(datagram) {
			return d.failed
		}
	}
}

// dumping is a dump under way.
type dumping struct {
	port, seq uint32
	visit     func(payload []byte) error
	// failed is the first thing that went wrong.
	failed error
}

func (d *dumping) fail(err error) {
	if d.failed == nil {
		d.failed = err
	}
}

// take reads a datagram; done says that it was the last.
func (d *dumping) take(datagram []byte) (done bool) {
	for m, err := range wire.Messages(datagram) {
		if err != nil {
			d.fail(err)
			break
		}
		if m.Seq != d.seq || m.Port != d.port {
			continue
		}
		if m.Flags&unix.NLM_F_DUMP_INTR != 0 {
			d.fail(errTorn)
		}
		switch m.Type {
		case unix.NLMSG_DONE, unix.NLMSG_ERROR:
			reply, err := wire.ParseReply(m)
			if err != nil {
				d.fail(err)
			} else if reply.Errno != 0 {
				d.fail(explain(reply))
			}
			return true
		case unix.NLMSG_NOOP:
		default:
			if err := d.visit(m.Payload); err != nil {
				d.fail(err)
			}
		}
	}
	return false
}

// kernelError is an error of the kernel with its own explanation.
type kernelError struct {
	errno syscall.Errno
	text  string
}

func (e *kernelError) Error() string {
	if e.text == "" {
		return e.errno.Error()
	}
	return e.text + " (" + e.errno.Error() + ")"
}

func (e *kernelError) Unwrap() error { return e.errno }

// explain is the error of a reply, nil for an acknowledgement.
func explain(r wire.Reply) error {
	err := &kernelError{r.Errno, r.Text}
	switch r.Errno {
	case 0:
		return nil
	case unix.EPERM:
		return fmt.Errorf("%w: %w", tc.ErrPermission, err)
	case unix.ENODEV:
		return fmt.Errorf("%w: %w", tc.ErrNoInterface, err)
	}
	return err
}

// socketPorts are the netlink ports of all sockets of the process. Without /proc there are none: then changes made through go-tc
// look like somebody else's, which costs a reading of the kernel and no more.
func socketPorts() map[uint32]bool {
	ports := map[uint32]bool{}
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if protocol, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL); err != nil || protocol != socketProtocol {
			continue
		}
		address, err := unix.Getsockname(fd)
		if own, ok := address.(*unix.SockaddrNetlink); err == nil && ok && own.Pid != 0 {
			ports[own.Pid] = true
		}
	}
	return ports
}
