package watch

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
)

// folderID tells folders apart, whatever their path.
type folderID struct{ dev, ino uint64 }

// identify is the identity of the folder that path leads to.
func identify(path string) (folderID, bool) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return folderID{}, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return folderID{}, false
	}
	return folderID{uint64(st.Dev), st.Ino}, true
}

// armTries bounds how often the folders are asked for again because those found first led to more.
const armTries = 5

// arm watches the folders that are wanted now and no others. What happens in a folder between the moment it was looked into and
// the moment it is watched would be missed, so it looks again until nothing new is watched.
func (w *Watcher) arm() {
	for range armTries {
		if w.notify == nil {
			n, err := w.open()
			if err != nil {
				w.poll(err)
				return
			}
			w.notify = n
		}
		more, err := w.watch(chooseFolders(w.folders(), w.watched))
		if err != nil {
			w.poll(err)
			return
		}
		if !more {
			break
		}
	}
	if w.polling {
		w.opts.Log.Info("folders are watched again")
		w.polling = false
	}
}

// chooseFolders is what to watch, by path: each folder once, since inotify has one watch for all paths of a folder and removing
// one path would remove it. In the place of a folder that does not exist it is the nearest above that does, where the missing
// one will appear. A path that is watched already goes before others.
func chooseFolders(folders []string, watched map[string]folderID) map[string]folderID {
	paths := make(map[string]folderID)
	for _, folder := range folders {
		for path := filepath.Clean(folder); ; path = filepath.Dir(path) {
			if id, ok := identify(path); ok {
				paths[path] = id
				break
			}
			if path == filepath.Dir(path) {
				break
			}
		}
	}
	order := make([]string, 0, len(paths))
	for path := range paths {
		order = append(order, path)
	}
	slices.SortFunc(order, func(a, b string) int {
		if first, second := watched[a] == paths[a], watched[b] == paths[b]; first != second {
			if first {
				return -1
			}
			return 1
		}
		if a < b {
			return -1
		}
		return 1
	})
	chosen := make(map[string]folderID, len(paths))
	taken := make(map[folderID]bool, len(paths))
	for _, path := range order {
		if id := paths[path]; !taken[id] {
			taken[id] = true
			chosen[path] = id
		}
	}
	return chosen
}

// watch makes the watches those of wanted. more says that a new one was made. The error says that watching is not possible.
func (w *Watcher) watch(wanted map[string]folderID) (more bool, err error) {
	alive := make(map[string]bool)
	for _, path := range w.notify.WatchList() {
		alive[path] = true
	}
	for path, id := range w.watched {
		if alive[path] && wanted[path] == id {
			continue
		}
		if err := w.notify.Remove(path); err != nil && !errors.Is(err, fsnotify.ErrNonExistentWatch) {
			w.opts.Log.Debug("remove watch", zap.String("folder", path), zap.Error(err))
		}
		delete(w.watched, path)
	}
	for path, id := range wanted {
		if w.watched[path] == id {
			continue
		}
		switch err := w.notify.Add(path); {
		case err == nil:
			w.watched[path] = id
			more = true
		case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE),
			errors.Is(err, syscall.ENOMEM), errors.Is(err, fsnotify.ErrClosed):
			return false, err
		default: // gone meanwhile, or not to be read: reading says so, and the next event or rescan tries again
			w.opts.Log.Debug("watch folder", zap.String("folder", path), zap.Error(err))
		}
	}
	return more, nil
}
