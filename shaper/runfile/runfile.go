// Package runfile reads and writes the files of the run folder, which is kept while the machine runs: it is gone with a reboot.
//
// The folder belongs to the daemon's user, and root writes into it, too. So a file is read only if one of these wrote it, and written
// only under a new name that cannot be foreseen, which then takes the place of the old file in one step. The package imports nothing of ours.
package runfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Read gives the content of a file of the folder. A file that belongs to neither root nor this process's user nor the folder's owner,
// one that others may write, or that is larger than limit bytes, is an error. One that does not exist is fs.ErrNotExist.
func Read(dir, name string, limit int64) ([]byte, error) {
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := trusted(f, dir); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return data, err
}

func trusted(f *os.File, dir string) error {
	var file, folder unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &file); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	if err := unix.Stat(dir, &folder); err != nil {
		return fmt.Errorf("stat %s: %w", dir, err)
	}
	switch {
	case folder.Mode&0o002 != 0 && folder.Mode&unix.S_ISVTX == 0:
		return folderProblem(dir, folder.Mode)
	case file.Mode&unix.S_IFMT != unix.S_IFREG:
		return errors.New("it is not a regular file; remove it")
	case !slices.Contains([]uint32{0, uint32(os.Geteuid()), folder.Uid}, file.Uid):
		return fmt.Errorf("it belongs to uid %d, neither root nor the daemon's user; remove it", file.Uid)
	case file.Mode&0o022 != 0:
		return fmt.Errorf("its mode %#o lets others write it; remove it", file.Mode&0o777)
	}
	return nil
}

// Check says what is wrong with who may write into the folder; nil also where there is none. In a folder with the sticky bit nobody can take
// away the files of others, which is all that is needed.
func Check(dir string) error {
	var folder unix.Stat_t
	if err := unix.Stat(dir, &folder); err != nil || folder.Mode&unix.S_IFMT != unix.S_IFDIR || folder.Mode&0o002 == 0 || folder.Mode&unix.S_ISVTX != 0 {
		return nil
	}
	return folderProblem(dir, folder.Mode)
}

func folderProblem(dir string, mode uint32) error {
	return fmt.Errorf("the mode %#o of the run folder %s lets everybody put files there, and take away the daemon's; chmod o-w %s", mode&0o7777, dir, dir)
}

// Write puts a file of that mode into the folder, in the place of one of the same name.
func Write(dir, name string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(dir, "."+name+"-*")
	if err != nil {
		return meant(err, dir, name)
	}
	_, err = f.Write(data)
	err = errors.Join(meant(err, dir, name), f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// meant names the file that was meant in an error of the temporary one, whose name tells nobody anything and is another each time.
func meant(err error, dir, name string) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		at.Path = filepath.Join(dir, name)
	}
	return err
}

// ErrLocked says that another process holds the lock.
var ErrLocked = errors.New("another process holds the lock; try again")

// lockPoll is how often a lock is tried while another process has it.
const lockPoll = 5 * time.Millisecond

// Lock holds a file or a folder (flock(2)) until what it returns is closed, by this process and those that inherited it. It waits for
// another holder as long as patience, then the error is ErrLocked.
func Lock(path string, flags int, patience time.Duration) (*os.File, error) {
	f, err := os.OpenFile(path, flags|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(patience); ; time.Sleep(lockPoll) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return f, nil
		case !errors.Is(err, unix.EWOULDBLOCK):
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		case !time.Now().Before(end):
			return nil, errors.Join(ErrLocked, f.Close())
		}
	}
}
