package metrics

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// socketMode lets the owner's user and group ask: the daemon runs as a user of its own, root may anyway.
const socketMode = 0o660

// listenTCP opens address. A host name or an address of one family limits it to that; ":9825" is both families.
func listenTCP(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, fmt.Errorf("listen on %s: %w: another program has the port; end it or set metrics.listen to another", address, err)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return nil, fmt.Errorf("listen on %s: %w: no interface of this node has that address; set metrics.listen to one that it has", address, err)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w: metrics.listen is an address like :9825 or 127.0.0.1:9825", address, err)
	}
	return listener, nil
}

// listenUnix opens a socket at path. One that a killed process left is removed, but only when nobody answers there.
func listenUnix(path string) (net.Listener, error) {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("listen on %s: it exists and is no socket; remove it or set run_dir to another folder", path)
	default:
		connection, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			_ = connection.Close() // it was only to see whether somebody is there
			return nil, fmt.Errorf("listen on %s: another bulkshaper answers there; stop it or set run_dir to another folder", path)
		}
		if !errors.Is(err, unix.ECONNREFUSED) {
			return nil, fmt.Errorf("listen on %s: see who is there: %w", path, err)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("listen on %s: remove what a dead process left: %w", path, err)
		}
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", path, err), listener.Close())
	}
	return listener, nil
}
