package kernel

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAMarkedDumpIsTorn: where the kernel marks a message of a dump with NLM_F_DUMP_INTR, as it does for links and addresses (for traffic
// control it has no mark), what was read does not count, whichever message has the mark; and the dump is read to its end all the same.
//
// PROMISES.md: The kernel's tables change while they are read
func TestAMarkedDumpIsTorn(t *testing.T) {
	const port, seq = 4242, 17
	for marked := range 4 { // 3: none is
		d := dumping{port: port, seq: seq, visit: func([]byte) error { return nil }}
		for i := range 3 {
			typ, flags, body := uint16(unix.RTM_NEWLINK), uint16(unix.NLM_F_MULTI), make([]byte, unix.SizeofNlMsghdr+unix.SizeofIfInfomsg)
			if i == 2 {
				typ, body = unix.NLMSG_DONE, make([]byte, unix.SizeofNlMsghdr+4)
			}
			body[0] = byte(len(body))
			if i == marked {
				flags |= unix.NLM_F_DUMP_INTR
			}
			if ended := d.take(answered(port, seq, typ, flags, body)); ended != (i == 2) {
				t.Fatalf("mark on message %d: message %d: ended %v", marked, i, ended)
			}
		}
		if torn := errors.Is(d.failed, errTorn); torn != (marked < 3) {
			t.Errorf("mark on message %d: %v", marked, d.failed)
		}
	}
}
