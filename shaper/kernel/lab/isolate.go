package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// InUserNamespace runs this program again with args as root of a user namespace, which is all that a lab needs, and returns
// its exit code. When ctx ends the program is told so by SIGTERM. The error is ErrPermission where the machine does not let
// its users make user namespaces.
func InUserNamespace(ctx context.Context, args []string) (int, error) {
	process, err := os.StartProcess("/proc/self/exe", append([]string{os.Args[0]}, args...), &os.ProcAttr{
		Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys: &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL, Setpgid: true,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		},
	})
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EUSERS) {
		return 0, fmt.Errorf("%w (%w)", ErrPermission, err)
	}
	if err != nil {
		return 0, fmt.Errorf("start in a user namespace: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = process.Signal(syscall.SIGTERM) }) // one that has ended needs no telling
	defer stop()
	state, err := process.Wait()
	if err != nil {
		return 0, fmt.Errorf("wait for process %d: %w", process.Pid, err)
	}
	if !state.Exited() {
		return 0, fmt.Errorf("process %d: %s", process.Pid, state)
	}
	return state.ExitCode(), nil
}
