package inventory

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// listing is where the last whole reading found the files, as long as that is plain: without links, every server file one that lies
// in a folder which a pattern names. It never changes once it was made.
type listing struct {
	// servers are the folders with server files; every file there that is called like one is one.
	servers map[string]bool
	// visited are all folders that were looked into, and those above them.
	visited map[string]bool
	roles   string
}

// listingOf is what list found, nil where it is not plain.
func listingOf(list *lister, roles string) *listing {
	found := &listing{servers: list.servers, visited: make(map[string]bool), roles: roles}
	if list.single || len(list.links) > 0 {
		return nil
	}
	for _, folder := range append(slices.Clone(list.folders), filepath.Dir(roles)) {
		for path := folder; !found.visited[path]; path = filepath.Dir(path) {
			info, err := os.Lstat(path)
			if err != nil || !info.IsDir() {
				return nil
			}
			found.visited[path] = true
		}
	}
	if info, err := os.Lstat(roles); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	return found
}

// Plain tells of a path that a file event named whether it can only be that of a file: then the event changes nothing about which
// folders matter, and LoadChanged may be enough to follow it. It may be called while a reading is under way.
func (l *Loader) Plain(path string) bool { return l.listing.Load().plain(path) }

func (listed *listing) plain(path string) bool {
	path = filepath.Clean(path)
	folder := filepath.Dir(path)
	if listed == nil || !listed.visited[folder] || listed.visited[path] {
		return false
	}
	serverFile := wanted(filepath.Base(path)) && !samePath(path, listed.roles)
	if serverFile && !listed.servers[folder] {
		return false // it may be one that a pattern matches
	}
	info, err := os.Lstat(path)
	if err != nil { // what is gone leaves a gap that only a whole reading sees as a whole
		return !serverFile && os.IsNotExist(err)
	}
	return soleFile(info)
}

// Idle tells of a path that a file event named whether nothing that is read can depend on it: a log, an editor's file, what lies about.
// It may be called while a reading is under way.
func (l *Loader) Idle(path string) bool {
	places := l.places.Load()
	return places != nil && !wanted(filepath.Base(path)) && !samePath(path, places.roles) && places.plain(path)
}

// soleFile tells whether a path is that of a regular file which has no other.
func soleFile(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode().IsRegular() && st.Nlink == 1
}

// LoadChanged reads those of paths that are server files, and the roles file if it changed, and takes everything else to be as it was
// at the last reading. done is false where that may not be so, or where anything is wrong: then Load finds out. The paths are those of
// file events for which Plain holds; the inventory is the one that Load would give.
func (l *Loader) LoadChanged(ctx context.Context, paths []string) (inv *Inventory, done bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	listed := l.listing.Load()
	if listed == nil || l.last == nil {
		return nil, false, nil
	}
	roles := l.loadRoles()
	if len(roles.problems) > 0 {
		l.listing.Store(nil)
		return nil, false, nil
	}
	reader := newCandidateReader(l)
	defer reader.close()
	records := l.lastRecords
	for _, path := range paths {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		path = filepath.Clean(path)
		if !wanted(filepath.Base(path)) || samePath(path, listed.roles) {
			continue
		}
		read, ok := reader.readChanged(listed, path, roles.id)
		if !ok {
			l.listing.Store(nil)
			return nil, false, nil
		}
		i, known := slices.BinarySearchFunc(records, path, func(r *record, path string) int { return strings.Compare(r.server.File, path) })
		switch {
		case known && records[i] == read:
			continue
		case known:
			records = slices.Clone(records)
			records[i] = read
		default:
			records = slices.Insert(slices.Clone(records), i, read)
		}
	}
	inv, problems := l.take(roles.declared, records, l.lastWarnings)
	if len(problems) > 0 {
		l.listing.Store(nil)
		return nil, false, nil
	}
	return inv, true, nil
}

// readChanged reads a server file that an event named; false where it is not a plain one, or has anything wrong.
func (r *candidateReader) readChanged(listed *listing, path string, rolesID fileID) (*record, bool) {
	if !listed.servers[filepath.Dir(path)] {
		return nil, false
	}
	info, err := os.Lstat(path)
	if err != nil || !soleFile(info) {
		return nil, false
	}
	o, changed := r.read(candidate{path: path}, r.files[path])
	if o.record == nil || o.id.same(rolesID) || !o.id.same(idOf(info)) {
		return nil, false
	}
	if changed != nil {
		r.files[o.record.server.File] = changed
	}
	return o.record, true
}
