package kernel

import (
	"fmt"

	"golang.org/x/sys/unix"

	"bulkshaper/shaper/tc"
)

// Permitted is nil where the process has CAP_NET_ADMIN, and else wraps tc.ErrPermission. Without it the kernel refuses every change; with
// it, it still does where a network namespace belongs to another user namespace.
func Permitted() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData // of 64 capabilities
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("read own capabilities: %w", err)
	}
	if data[0].Effective&(1<<unix.CAP_NET_ADMIN) == 0 {
		return tc.ErrPermission
	}
	return nil
}
