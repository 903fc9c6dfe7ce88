package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lister finds server files by patterns. It differs from filepath.Glob in that a folder which cannot be read is a problem and
// not an empty one, in that "*" does not match dot files, and in that it knows which folders it looked into.
type lister struct {
	// folders are those whose entries decide what is found, existing or not, in the order of the search.
	folders []string
	ids     []fileID
	// listed are those of them whose every entry may count.
	listed []string
	// links are the links that would be server files.
	links []string
	// servers are the folders of which every file may be a server's; single says that there are files that a pattern names.
	servers  map[string]bool
	single   bool
	problems Problems

	// at is when the search began, and candidates is what it found; seen has the paths of those once single is set.
	at         time.Time
	candidates []candidate
	seen       map[string]bool
	named      int // how many the pattern at hand has found, those that were found before among them
}

// visit takes down a folder, and its identity before it is read.
func (l *lister) visit(folder string) {
	l.folders = append(l.folders, folder)
	l.ids = append(l.ids, folderID(folder))
}

// changed tells whether a folder is another one, or has other entries, than when it was visited.
func (l *lister) changed() bool {
	for i, folder := range l.folders {
		if folderID(folder) != l.ids[i] {
			return true
		}
	}
	return false
}

// folderID changes with the entries of a folder; zero where there is none.
func folderID(folder string) fileID {
	info, err := os.Stat(folder)
	if err != nil {
		return fileID{}
	}
	return idOf(info)
}

func (l *lister) wrong(path, message, remedy string) {
	l.problems = append(l.problems, Problem{File: path, Message: message, Remedy: remedy})
}

const patternRemedy = "correct inventory.servers, or put the files there"

// candidate is the path of what may be a server file. One that a pattern names without any wildcard is meant, and so must be
// one; others may be litter.
type candidate struct {
	path  string
	meant bool
	// regular says that the folder calls it a regular file.
	regular bool
}

// find is everything that may be a server file under the patterns, without duplicates of a path.
func (l *lister) find(patterns []string) []candidate {
	if len(patterns) == 0 {
		l.wrong("", "no place for server files is given", "set inventory.servers to the folders that hold them")
	}
	for _, pattern := range patterns {
		before := len(l.problems)
		matches, wild := l.expand(pattern)
		l.named = 0
		for _, path := range matches {
			l.match(path, wild)
		}
		switch {
		case l.named > 0 || len(l.problems) > before:
		case len(matches) > 0:
			l.wrong(pattern, "what matches the pattern is no server file", patternRemedy)
		default:
			l.wrong(pattern, "nothing matches the pattern", patternRemedy)
		}
	}
	return l.candidates
}

// add takes a candidate that is not one already. Folders have each of their files once, so it takes a file that a pattern matches for
// any to be there twice.
func (l *lister) add(c candidate) {
	l.named++
	if l.single {
		if l.seen == nil {
			l.seen = make(map[string]bool)
			for _, other := range l.candidates {
				l.seen[other.path] = true
			}
		}
		if l.seen[c.path] {
			return
		}
		l.seen[c.path] = true
	}
	l.candidates = append(l.candidates, c)
}

// match takes one match of a pattern: a folder with server files, or a server file.
func (l *lister) match(path string, wild bool) {
	info, err := os.Stat(path)
	name := filepath.Base(path)
	switch {
	case err == nil && info.IsDir() && !(wild && strings.HasSuffix(name, ".json")):
		l.folder(path)
	case wild && wanted(name):
		l.single = true
		l.add(candidate{path: path})
	case wild:
	case errors.Is(err, fs.ErrNotExist):
		l.visit(path)
		l.wrong(path, "no such file or folder", patternRemedy)
	case err != nil:
		l.wrong(path, cause(err), UnreadableRemedy)
	case !wanted(name):
		l.wrong(path, "not the name of a server file", "name folders, or files that end in .json")
	default:
		l.visit(filepath.Dir(path))
		l.single = true
		l.add(candidate{path: path, meant: true})
	}
}

// folder takes the files of a folder.
func (l *lister) folder(path string) {
	if l.servers[path] {
		l.named++ // by another pattern, which told of a folder without any
		return
	}
	if l.servers == nil {
		l.servers = make(map[string]bool)
	}
	l.servers[path] = true
	entries := l.entries(path)
	l.candidates = slices.Grow(l.candidates, len(entries))
	before := path + "/"
	switch path { // as filepath.Join has it
	case ".":
		before = ""
	case "/":
		before = "/"
	}
	files := 0
	for _, e := range entries {
		if wanted(e.name) {
			l.add(candidate{path: strings.Clone(before + e.name), regular: e.kind == unix.DT_REG})
			files++
		}
	}
	if files == 0 && entries != nil {
		l.wrong(path, "folder has no *.json files", patternRemedy)
	}
}

// wanted tells server files from dot files and editor litter (.x.json.swp, x.json~, #x.json#, 4913, x.json.rpmsave) by name.
func wanted(name string) bool {
	return strings.HasSuffix(name, ".json") && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "#") && !strings.HasPrefix(name, "~")
}

// expand is every path that pattern matches, sorted, and whether it has a wildcard. Without one it is the path itself,
// existing or not.
func (l *lister) expand(pattern string) (matches []string, wild bool) {
	pattern = filepath.Clean(pattern)
	paths := []string{"."}
	rest := pattern
	if filepath.IsAbs(pattern) {
		paths, rest = []string{"/"}, strings.TrimPrefix(pattern, "/")
	}
	parts := strings.Split(rest, "/")
	for i, part := range parts {
		last := i == len(parts)-1
		if !strings.ContainsAny(part, `*?[\`) {
			for j := range paths {
				paths[j] = filepath.Join(paths[j], part)
			}
			if wild {
				paths = l.existing(paths, !last)
			}
			continue
		}
		if _, err := filepath.Match(part, ""); err != nil {
			l.wrong(pattern, "pattern is malformed", "close the bracket, or write a backslash before it")
			return nil, true
		}
		wild = true
		var next []string
		for _, path := range paths {
			for _, name := range l.read(path) {
				if ok, _ := filepath.Match(part, name); ok && (name[0] != '.' || part[0] == '.') {
					next = append(next, filepath.Join(path, name))
				}
			}
		}
		if !last {
			next = l.existing(next, true)
		}
		paths = next
	}
	return paths, wild
}

// existing keeps what exists, and is a folder where it must be one. The folder of what does not exist is remembered.
func (l *lister) existing(paths []string, folder bool) []string {
	var kept []string
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case err == nil && (info.IsDir() || !folder):
			kept = append(kept, path)
		case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
			l.visit(filepath.Dir(path))
		default:
			l.wrong(path, cause(err), UnreadableRemedy)
		}
	}
	return kept
}

// read is the names in a folder, sorted; nil where there is none.
func (l *lister) read(folder string) []string {
	entries := l.entries(folder)
	if entries == nil {
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.name
	}
	return names
}

// entries is what is in a folder, sorted; nil where there is none.
func (l *lister) entries(folder string) []entry {
	l.visit(folder)
	l.listed = append(l.listed, folder)
	entries, err := readFolder(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil
	case err != nil:
		l.wrong(folder, "read folder: "+cause(err), UnreadableRemedy)
		return nil
	}
	for _, e := range entries {
		if e.kind == unix.DT_LNK && wanted(e.name) {
			l.links = append(l.links, filepath.Join(folder, e.name))
		}
	}
	return entries
}

// UnreadableRemedy is what to do about what cannot be read.
const UnreadableRemedy = "let the user that bulkshaper runs as read it (chmod, chown, and search permission on all folders above)"

// cause is the kernel's own words, without the operation and the path that os puts before them.
func cause(err error) string {
	var number syscall.Errno
	if errors.As(err, &number) {
		return number.Error()
	}
	return fmt.Sprint(err)
}
