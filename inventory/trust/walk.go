package trust

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Walk judges the ways to many files at once, each folder only once. It is for one reading and one goroutine.
type Walk struct {
	guard *Guard
	// folders are those judged, by real path; ways is where paths lead, by path as it was given.
	folders map[string]*folder
	ways    map[string]*folder
	lstat   func(string, *unix.Stat_t) error // for tests: only root may give files away
}

// Walk begins a reading. That of a nil guard finds everything right.
func (g *Guard) Walk() *Walk {
	return &Walk{guard: g, folders: make(map[string]*folder), ways: make(map[string]*folder), lstat: unix.Lstat}
}

// folder is one that exists.
type folder struct {
	real string // without links
	// shared says that others may make entries beside ours, but not touch ours.
	shared bool
	stat   unix.Stat_t
	// refusal is why nothing below it is to be believed.
	refusal *Refusal
}

// maxLinks is how many links the kernel follows in one path (MAXSYMLINKS in linux/namei.h).
const maxLinks = 40

// To judges the folders and the links that lead to a file, not the file. What does not exist, or cannot be looked at, is for the
// reading to tell.
func (w *Walk) To(path string) *Refusal {
	if w.guard == nil {
		return nil
	}
	dir, name := split(path)
	return w.to(w.way(dir), name, maxLinks)
}

// Into judges a folder of which every entry counts, and the way to it. Then others may not even add some.
func (w *Walk) Into(path string) *Refusal {
	if w.guard == nil {
		return nil
	}
	switch f := w.way(path); {
	case f == nil:
		return nil
	case f.refusal == nil && f.shared:
		return w.open(f)
	default:
		return f.refusal
	}
}

// split is a path's folder and its last name. Other than filepath.Split it leaves names before ".." alone: they may be links.
func split(path string) (folder, name string) {
	path = strings.TrimRight(path, "/")
	i := strings.LastIndexByte(path, '/')
	return path[:i+1], path[i+1:]
}

// way is the folder that a path leads to, nil where there is none.
func (w *Walk) way(path string) *folder {
	if f, ok := w.ways[path]; ok {
		return f
	}
	f := w.root()
	if !filepath.IsAbs(path) {
		here, err := os.Getwd()
		if err != nil {
			return nil
		}
		f = w.follow(f, here, maxLinks)
	}
	f = w.follow(f, path, maxLinks)
	w.ways[path] = f
	return f
}

// to follows the name in f as long as it is a link.
func (w *Walk) to(f *folder, name string, links int) *Refusal {
	for ; f != nil && f.refusal == nil; links-- {
		target, refusal := w.link(f, name)
		if target == "" || refusal != nil || links == 0 {
			return refusal
		}
		var dir string
		dir, name = split(target)
		f = w.follow(w.start(f, target), dir, links)
	}
	if f == nil {
		return nil
	}
	return f.refusal
}

// link is where the link of this name leads, "" where it is none. In a shared folder only its owner could have put it there.
func (w *Walk) link(f *folder, name string) (target string, refusal *Refusal) {
	path := filepath.Join(f.real, name)
	var st unix.Stat_t
	if err := w.lstat(path, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return "", nil
	}
	if f.shared && !w.guard.owner(st.Uid) {
		return "", belongs(path, "the link", &st)
	}
	buffer := make([]byte, unix.PathMax)
	n, err := unix.Readlink(path, buffer)
	if err != nil {
		return "", nil
	}
	return string(buffer[:n]), nil
}

// start is the folder that the target of a link in f begins at.
func (w *Walk) start(f *folder, target string) *folder {
	if filepath.IsAbs(target) {
		return w.root()
	}
	return f
}

// follow walks from f, name by name.
func (w *Walk) follow(f *folder, path string, links int) *folder {
	for name := range strings.SplitSeq(path, "/") {
		switch {
		case f == nil || f.refusal != nil:
			return f
		case name == "" || name == ".":
		case name == "..":
			f = w.at(filepath.Dir(f.real))
		default:
			target, refusal := w.link(f, name)
			switch {
			case refusal != nil:
				return &folder{real: f.real, refusal: refusal}
			case target == "":
				f = w.at(filepath.Join(f.real, name))
			case links == 0:
				return nil
			default:
				links--
				f = w.follow(w.start(f, target), target, links)
			}
		}
	}
	return f
}

func (w *Walk) root() *folder { return w.at("/") }

// at judges the folder at a path without links, whose parent was judged.
func (w *Walk) at(real string) *folder {
	if f, ok := w.folders[real]; ok {
		return f
	}
	f := &folder{real: real}
	if err := w.lstat(real, &f.stat); err != nil || f.stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		f = nil
	} else {
		w.judge(f)
	}
	w.folders[real] = f
	return f
}

func (w *Walk) judge(f *folder) {
	switch who := w.who(f); {
	case !w.guard.owner(f.stat.Uid):
		f.refusal = belongs(f.real, "this folder", &f.stat)
	case who == "" || volume(f):
	case f.stat.Mode&unix.S_ISVTX != 0:
		f.shared = true
	default:
		f.refusal = w.open(f)
	}
}

func (w *Walk) who(f *folder) string {
	return w.guard.writers(&f.stat, func() (int, error) { return unix.Lgetxattr(f.real, aclName, nil) })
}

// open refuses a folder in which others may make files.
func (w *Walk) open(f *folder) *Refusal { return written(f.real, "this folder", w.who(f), &f.stat) }

// volume tells whether the folder is one that the kubelet made for a ConfigMap or the like: root's, mounted here read-only, and
// with the link ..data that it turns to new files.
func volume(f *folder) bool {
	var fs unix.Statfs_t
	if f.stat.Uid != 0 || unix.Statfs(f.real, &fs) != nil || fs.Flags&unix.ST_RDONLY == 0 {
		return false
	}
	var stx unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, f.real, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS, &stx) != nil || stx.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return false
	}
	var data unix.Stat_t
	return unix.Lstat(filepath.Join(f.real, "..data"), &data) == nil && data.Mode&unix.S_IFMT == unix.S_IFLNK && data.Uid == 0
}
