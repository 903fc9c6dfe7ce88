package claim

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"bulkshaper/shaper/kernel/kerneltest"
)

// TestClaims are one an interface and a network namespace, are held by a process that is named, and are free again when they are closed.
func TestClaims(t *testing.T) {
	here, elsewhere := kerneltest.New(t), kerneltest.New(t)
	take := func(n *kerneltest.Namespace, iface string) (release func(), err error) {
		n.Do(func() {
			c, failed := Take(iface)
			err = failed
			release = func() { c.Close() }
		})
		return release, err
	}
	release, err := take(here, "eth1")
	if err != nil {
		t.Fatal(err)
	}
	var held *HeldError
	if _, err := take(here, "eth1"); !errors.As(err, &held) || held.Holder.PID != os.Getpid() || !strings.Contains(err.Error(), fmt.Sprintf("another bulkshaper (process %d) shapes eth1", os.Getpid())) {
		t.Errorf("twice: %v", err)
	}
	for name, n := range map[string]*kerneltest.Namespace{"eth2": here, "eth1": elsewhere} {
		other, err := take(n, name)
		if err != nil {
			t.Fatal(err)
		}
		other()
	}
	here.Do(func() {
		if h, ok := Find("eth1"); !ok || h.PID != os.Getpid() {
			t.Errorf("found %v %v", h, ok)
		}
	})
	release()
	here.Do(func() {
		if h, ok := Find("eth1"); ok {
			t.Errorf("found %v", h)
		}
	})
	if release, err = take(here, "eth1"); err != nil {
		t.Fatal(err)
	}
	release()
}

// TestClaimOfAnybody does not count: a user who may not shape cannot keep a daemon from starting by taking the name.
func TestClaimOfAnybody(t *testing.T) {
	here := kerneltest.New(t)
	here.Do(func() {
		var listener net.Listener
		var err error
		// This thread alone is nobody while it listens, which is what the kernel notes.
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 65534, ^uintptr(0)); errno != 0 {
			t.Fatal(errno)
		}
		listener, err = net.Listen("unix", name("eth1"))
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 0, ^uintptr(0)); errno != 0 {
			t.Fatal(errno)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		if h, held := find("eth1"); !held || h.UID != 65534 {
			t.Fatalf("%v %v", h, held)
		}
	})
	if (Holder{UID: 65534}).mayShape() {
		t.Error("who cannot be seen, and is not root, may shape")
	}
	for want, capabilities := range map[bool][]uintptr{false: nil, true: {unix.CAP_NET_ADMIN}} {
		cmd := exec.Command("sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: capabilities, Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if got := (Holder{PID: cmd.Process.Pid, UID: 65534}).mayShape(); got != want {
			t.Errorf("with the capabilities %v it may shape: %v", capabilities, got)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}
