package inventory

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Folders is every folder whose entries may change the inventory, sorted: that of the roles file, those that the patterns match
// and look into, those that links lead to, and those that hold the links on the way. Some may not exist. It is another list
// once links and folders change, so ask again after every event.
func (l *Loader) Folders() []string {
	list := l.search()
	links := slices.Clone(list.links)
	if l.source.Roles != "" {
		links = append(links, l.source.Roles)
	}
	for _, c := range list.candidates {
		if c.meant {
			links = append(links, c.path)
		}
	}
	w := linkWalk{folders: make(map[string]bool), seen: make(map[string]bool)}
	for _, folder := range list.folders {
		w.folder(filepath.Clean(folder))
	}
	for _, link := range links {
		w.follow(filepath.Clean(link))
	}
	folders := make([]string, 0, len(w.folders))
	for folder := range w.folders {
		folders = append(folders, folder)
	}
	slices.Sort(folders)
	return folders
}

// linkWalk collects folders, and the folders of the links that lead to them.
type linkWalk struct {
	folders map[string]bool
	seen    map[string]bool
}

// folder takes a folder, and every link among the folders above it.
func (w *linkWalk) folder(path string) {
	if w.folders[path] {
		return
	}
	w.folders[path] = true
	for ; path != filepath.Dir(path); path = filepath.Dir(path) {
		w.follow(path)
	}
}

// maxLinks is how many links the kernel follows in one path (MAXSYMLINKS in linux/namei.h).
const maxLinks = 40

// follow goes from link to link; each one's folder decides where it leads.
func (w *linkWalk) follow(path string) {
	for range maxLinks {
		if w.seen[path] {
			return
		}
		w.seen[path] = true
		info, err := os.Lstat(path)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return
		}
		target, err := os.Readlink(path)
		if err != nil {
			return
		}
		w.folder(filepath.Dir(path))
		if !filepath.IsAbs(target) {
			target = strings.TrimSuffix(filepath.Dir(path), "/") + "/" + target
		}
		path = filepath.Clean(target)
		w.folder(filepath.Dir(path))
	}
}
