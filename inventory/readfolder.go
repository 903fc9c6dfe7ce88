package inventory

import (
	"bytes"
	"encoding/binary"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// entry is a name in a folder and what it is of: a DT_ constant of readdir(3).
type entry struct {
	name string
	kind uint8
}

// folderBuffer is how many bytes of a folder are read at once.
const folderBuffer = 64 << 10

// readFolder is what is in a folder, sorted by name and never nil. os.ReadDir does the same in twice the time, for it makes an object of
// each entry, and of a folder with 10,000 files that is a tenth of the time that reading them takes.
func readFolder(path string) ([]entry, error) {
	var fd int
	err := again(func() (err error) {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd) // nothing was written
	entries := []entry{}
	buffer := make([]byte, folderBuffer)
	for {
		n := 0
		if err := again(func() (err error) { n, err = unix.Getdents(fd, buffer); return err }); err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		if entries, err = appendEntries(entries, buffer[:n]); err != nil {
			return nil, err
		}
	}
	for i, e := range entries {
		if e.kind == unix.DT_UNKNOWN { // by file systems that do not keep it there
			var st unix.Stat_t
			if err := again(func() error { return unix.Fstatat(fd, e.name, &st, unix.AT_SYMLINK_NOFOLLOW) }); err == nil {
				entries[i].kind = uint8(st.Mode & unix.S_IFMT >> 12) // IFTODT of dirent.h
			}
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return entries, nil
}

// appendEntries takes apart what getdents64(2) gave: each entry is struct linux_dirent64, the inode, an offset, the entry's length, its
// kind, and the name with a zero behind it.
func appendEntries(entries []entry, b []byte) ([]entry, error) {
	const lengthAt, kindAt, nameAt = 16, 18, 19
	text := string(b) // one copy, which the names are parts of
	for at := 0; at < len(b); {
		rest := b[at:]
		if len(rest) < nameAt {
			return nil, os.NewSyscallError("getdents64", unix.EIO)
		}
		length := int(binary.NativeEndian.Uint16(rest[lengthAt:]))
		if length < nameAt || length > len(rest) {
			return nil, os.NewSyscallError("getdents64", unix.EIO)
		}
		end := bytes.IndexByte(rest[nameAt:length], 0)
		if end < 0 {
			return nil, os.NewSyscallError("getdents64", unix.EIO)
		}
		name := text[at+nameAt : at+nameAt+end]
		if binary.NativeEndian.Uint64(rest) != 0 && name != "." && name != ".." { // without an inode it is gone
			entries = append(entries, entry{name: name, kind: rest[kindAt]})
		}
		at += length
	}
	return entries, nil
}
