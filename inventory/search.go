package inventory

import (
	"context"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// searchAgain is how long a search stands at most. A folder's time of change tells when to search again; this is for file systems that
// do not keep it.
const searchAgain = 10 * time.Minute

// search finds the files. Where no folder that it looks into changed, that is what it found before. It may be called by several
// goroutines at once, and what it returns may not be changed.
func (l *Loader) search() *lister {
	if last := l.searched.Load(); last != nil && l.now().Before(last.at.Add(searchAgain)) && !last.changed() {
		return last
	}
	list := &lister{at: l.now()}
	if l.source.Roles != "" {
		list.visit(filepath.Dir(l.source.Roles))
	}
	roles := filepath.Base(l.source.Roles)
	list.candidates = slices.DeleteFunc(list.find(l.source.Servers), func(c candidate) bool {
		return strings.HasSuffix(c.path, roles) && samePath(c.path, l.source.Roles)
	})
	young := func(id fileID) bool { return id.young(list.at) } // it may change again and show the same times
	if len(list.problems) == 0 && !slices.ContainsFunc(list.ids, young) {
		l.searched.Store(list)
	}
	return list
}

// share takes the paths of known files for those that were found, so that there is one copy of each.
func (l *Loader) share(list *lister) *lister {
	shared := *list
	shared.candidates = slices.Clone(list.candidates)
	for i, c := range shared.candidates {
		if k := l.files[c.path]; k != nil {
			shared.candidates[i].path = k.record.server.File
		}
	}
	l.searched.CompareAndSwap(list, &shared)
	return &shared
}

// unchanged tells whether every candidate is the file that it was when it was read.
func (l *Loader) unchanged(ctx context.Context, candidates []candidate) bool {
	const chunk = 1024 // files a task
	var changed atomic.Bool
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for from := 0; from < len(candidates); from += chunk {
		g.Go(func() error {
			var in openFolder
			defer in.close()
			for _, c := range candidates[from:min(from+chunk, len(candidates))] {
				before := l.files[c.path]
				if changed.Load() || ctx.Err() != nil || before == nil || before.young || !in.holds(c.path, before.id) {
					changed.Store(true)
					return nil
				}
			}
			return nil
		})
	}
	_ = g.Wait() // no task fails
	return !changed.Load()
}

// openFolder looks at files in one folder after the other, with the way to the folder gone only once.
type openFolder struct {
	path string
	fd   int
	open bool
}

func (f *openFolder) close() {
	if f.open {
		unix.Close(f.fd)
		f.open = false
	}
}

// at is an open folder and the name in it that path is.
func (f *openFolder) at(path string) (fd int, name string, err error) {
	folder, name := filepath.Split(path)
	if f.open && f.path == folder {
		return f.fd, name, nil
	}
	f.close()
	where := folder
	if where == "" {
		where = "."
	}
	err = again(func() error {
		fd, err = unix.Open(where, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return 0, "", err
	}
	f.path, f.fd, f.open = folder, fd, true
	return fd, name, nil
}

// openFile opens a file for reading, whatever it has become.
func (f *openFolder) openFile(path string) (fd int, err error) {
	folder, name, err := f.at(path)
	if err != nil {
		return 0, err
	}
	err = again(func() error {
		fd, err = unix.Openat(folder, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		return err
	})
	return fd, err
}

// identify is statFile without the way to the folder.
func (f *openFolder) identify(path string) (fileID, error) {
	var st unix.Stat_t
	folder, name, err := f.at(path)
	if err == nil {
		err = again(func() error { return unix.Fstatat(folder, name, &st, 0) })
	}
	if err != nil {
		return statFile(path) // which knows what it means
	}
	return idOfStat(&st), regular(modeOf(st.Mode))
}

// holds tells whether path is the regular file of this identity.
func (f *openFolder) holds(path string, id fileID) bool {
	folder, name, err := f.at(path)
	if err != nil {
		return false
	}
	var st unix.Stat_t
	err = again(func() error { return unix.Fstatat(folder, name, &st, 0) })
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && id == idOfStat(&st)
}
