// Package scratch makes a folder for one run of a demo, and removes what earlier runs have left that were killed.
package scratch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// prefix is how all folders are called.
const prefix = "bulkshaper-demo-"

// Folder is a folder that is this process's while it lives.
type Folder struct {
	Path string
	// held is locked (flock(2)), which ends with the process in whatever way that ends.
	held *os.File
}

// New makes a folder among temporary files. What dead processes of this user left there is removed; what cannot be removed stays.
func New() (*Folder, error) {
	sweep(os.TempDir())
	// Under another name until it is held, so that nobody takes it for a dead one's.
	path, err := os.MkdirTemp("", ".new-"+prefix)
	if err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	held, err := hold(path)
	if err == nil {
		final := filepath.Join(filepath.Dir(path), strings.TrimPrefix(filepath.Base(path), ".new-"))
		if err = os.Rename(path, final); err == nil {
			return &Folder{final, held}, nil
		}
		err = errors.Join(err, held.Close())
	}
	return nil, errors.Join(fmt.Errorf("make folder: %w", err), os.Remove(path))
}

// Remove removes it with all that is in it.
func (f *Folder) Remove() error {
	return errors.Join(os.RemoveAll(f.Path), f.held.Close())
}

// hold locks a folder; the error is unix.EWOULDBLOCK where another process has it.
func hold(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// sweep removes the folders in dir that nobody holds and that are this user's own.
func sweep(dir string) {
	found, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
	if err != nil {
		return // dir itself is a pattern that is none
	}
	for _, path := range found {
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
			continue
		}
		if held, err := hold(path); err == nil {
			_ = os.RemoveAll(path) // the next run tries again
			_ = held.Close()
		}
	}
}
