package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"bulkshaper/inventory/trust"
)

// fileID changes whenever a file's content does, but for changes within one tick of the file system's clock.
type fileID struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64 // nanoseconds
}

func idOf(info fs.FileInfo) fileID {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{size: info.Size(), mtime: info.ModTime().UnixNano()}
	}
	return fileID{dev: uint64(st.Dev), ino: st.Ino, size: info.Size(), mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano()}
}

// clockTick is the coarsest file time of those file systems that have one (FAT has 2 s).
const clockTick = 2 * time.Second

// young tells whether the file may still change without its times showing it.
func (id fileID) young(now time.Time) bool {
	return max(id.mtime, id.ctime) > now.Add(-clockTick).UnixNano()
}

// same tells whether both are one file, whatever it contains.
func (id fileID) same(other fileID) bool { return id.dev == other.dev && id.ino == other.ino }

// errVanished says that a file was gone between listing and reading.
var errVanished = errors.New("file vanished while the folder was being read")

// notRegularError says that a path is something that is never read, and what.
type notRegularError struct{ what string }

func (e *notRegularError) Error() string { return "not read: it is " + e.what }

// statFile is the identity of a regular file. A path that never gives one is a *notRegularError; one that was there a moment
// ago and is no longer is errVanished.
func statFile(path string) (fileID, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP) {
		if link, lerr := os.Lstat(path); lerr == nil && link.Mode()&fs.ModeSymlink != 0 {
			return fileID{}, &notRegularError{"a link to what does not exist"}
		}
		return fileID{}, errVanished
	}
	if err != nil {
		return fileID{}, err
	}
	return idOf(info), regular(info.Mode())
}

// regular refuses everything but regular files by what it is.
func regular(mode fs.FileMode) error {
	switch {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return &notRegularError{"a folder"}
	case mode&fs.ModeNamedPipe != 0:
		return &notRegularError{"a FIFO"}
	case mode&fs.ModeSocket != 0:
		return &notRegularError{"a socket"}
	}
	return &notRegularError{"a device"}
}

// minBuffer is the least size of a buffer for files, in bytes.
const minBuffer = 16 << 10

// readTries is how often a file is read that changes meanwhile.
const readTries = 3

// fileReader reads files, with one buffer for all of them.
type fileReader struct {
	guard  *trust.Guard
	in     openFolder
	buffer []byte
}

func (r *fileReader) close() { r.in.close() }

// read reads a regular file of at most MaxFileSize, and its identity when that content was in it. It never waits for a
// writer: what is opened may have become a FIFO since it was looked at. The content is valid until the next call.
// What guard refuses is not read, by what fstat says of the file that is open.
func (r *fileReader) read(path string) ([]byte, fileID, *Problem) {
	refuse := func(message, remedy string) ([]byte, fileID, *Problem) {
		return nil, fileID{}, &Problem{File: path, Message: message, Remedy: remedy}
	}
	for range readTries {
		// System calls of our own: os.File takes two more, which for thousands of small files is a third of the time.
		fd, err := r.in.openFile(path)
		if err != nil {
			return refuse("read file: "+cause(err), UnreadableRemedy)
		}
		data, id, stable, err := r.readOpen(fd, path)
		_ = unix.Close(fd) // nothing was written
		var large *tooLargeError
		var others *trust.Refusal
		switch {
		case errors.As(err, &others):
			problem := Untrusted(others)
			return nil, fileID{}, &problem
		case errors.As(err, &large):
			return refuse(tooLarge(large.size))
		case err != nil:
			return refuse("read file: "+cause(err), UnreadableRemedy)
		case stable:
			return data, id, nil
		}
	}
	return refuse("file changes while it is read", "write it under another name and rename it")
}

type tooLargeError struct{ size int64 }

func (e *tooLargeError) Error() string { return fmt.Sprintf("file of %d bytes", e.size) }

// again repeats a system call that a signal interrupted.
func again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// readOpen reads an open file into the buffer, which grows as it must. stable is false if the file changed meanwhile.
func (r *fileReader) readOpen(fd int, path string) (data []byte, id fileID, stable bool, err error) {
	var before, after unix.Stat_t
	if err := again(func() error { return unix.Fstat(fd, &before) }); err != nil {
		return nil, id, false, err
	}
	if err := regular(modeOf(before.Mode)); err != nil {
		return nil, id, false, err
	}
	if refusal := r.guard.File(fd, path, &before); refusal != nil {
		return nil, id, false, refusal
	}
	if before.Size > MaxFileSize {
		return nil, id, false, &tooLargeError{before.Size}
	}
	if int64(len(r.buffer)) <= before.Size {
		r.buffer = make([]byte, max(before.Size+1, minBuffer))
	}
	data = r.buffer[:before.Size+1] // one more, to see it grow
	n := 0
	for n < int(before.Size) {
		var more int
		if err := again(func() (err error) { more, err = unix.Read(fd, data[n:]); return err }); err != nil {
			return nil, id, false, err
		}
		if more == 0 {
			break
		}
		n += more
	}
	if err := again(func() error { return unix.Fstat(fd, &after) }); err != nil {
		return nil, id, false, err
	}
	id = idOfStat(&before)
	return data[:n], id, id == idOfStat(&after) && int64(n) == before.Size, nil
}

func idOfStat(st *unix.Stat_t) fileID {
	return fileID{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano()}
}

// modeOf is the kind of a file in the words of io/fs.
func modeOf(mode uint32) fs.FileMode {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return 0
	case unix.S_IFDIR:
		return fs.ModeDir
	case unix.S_IFIFO:
		return fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return fs.ModeSocket
	}
	return fs.ModeDevice
}
