package inventory

import (
	"context"
	"errors"
	"hash/maphash"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"bulkshaper/inventory/trust"
)

// Loader reads an inventory again and again, and each time only what changed. It is safe for use by several goroutines.
type Loader struct {
	source Source
	fields *fieldPaths
	guard  *trust.Guard
	seed   maphash.Seed
	now    func() time.Time

	// listing is nil where LoadChanged cannot do.
	listing atomic.Pointer[listing]
	// places are where the last good reading found the files, whatever came of readings since; nil where they are not plain.
	places atomic.Pointer[listing]
	// searched is the last search that had no problems.
	searched atomic.Pointer[lister]

	mu sync.Mutex
	// listed is what the reading under way makes of listing.
	listed *listing

	files map[string]*known
	roles rolesKnown
	// last is the last inventory and the files that it was made of: the same files give the same inventory.
	last         *Inventory
	lastRecords  []*record
	lastRoles    *rolesFile
	lastWarnings Problems
	// warned are the warnings of the last reading that was looked at as a whole, be it of an inventory or of one with problems.
	warned Problems
	// lastSearch found the files of the last inventory, nil where a reading failed since, or folders changed meanwhile.
	lastSearch *lister
	// reads counts the files whose content was looked at, for tests.
	reads atomic.Int64
	// found counts the problems and warnings that files were read with since the load began.
	found atomic.Int64
}

// known is what is remembered of a file: what it said when it had this identity.
type known struct {
	id    fileID
	hash  uint64
	young bool
	// record is what the file said; a file that could not be read has none and is not remembered.
	record *record
}

type rolesKnown struct {
	id       fileID
	hash     uint64
	young    bool
	read     bool
	declared *rolesFile
	problems Problems
}

// NewLoader makes a loader for src. Nothing is read yet.
func NewLoader(src Source) *Loader {
	src.Servers = slices.Clone(src.Servers)
	var guard *trust.Guard
	if !src.WritableByOthers {
		guard = trust.New()
	}
	return &Loader{source: src, guard: guard, fields: src.Fields.compile(), seed: maphash.MakeSeed(), now: time.Now, files: make(map[string]*known)}
}

// loadTries is how often the folders are read again when they change meanwhile.
const loadTries = 3

// Load reads the inventory, whole or not at all: the error is Problems, or that of ctx. What did not change since the last call
// is not read again, and where nothing did, the inventory is the very same. The caller keeps the last good one.
func (l *Loader) Load(ctx context.Context) (*Inventory, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Until it ends the old one stays: what it calls plain is so, and is read again after this reading.
	defer func() { l.listing.Store(l.listed) }()
	for try := 1; ; try++ {
		inv, problems, stable, err := l.load(ctx)
		switch {
		case err != nil:
			return nil, err
		case !stable && try < loadTries:
			continue
		case len(problems) > 0:
			return nil, problems
		}
		return inv, nil
	}
}

// Warnings are those of the last inventory that was read, also of one that has problems and so is none.
func (l *Loader) Warnings() Problems {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.warned)
}

// outcome is what became of one candidate.
type outcome struct {
	path    string
	id      fileID
	record  *record
	problem *Problem
	skipped *Problem
	err     error
}

// load is one reading. It is not stable if a folder changed, or a file vanished, meanwhile.
func (l *Loader) load(ctx context.Context) (inv *Inventory, problems Problems, stable bool, err error) {
	l.listed = nil
	roles := make(chan rolesRead, 1)
	go func() { roles <- l.loadRoles() }()
	list := l.search()
	candidates := list.candidates
	problems = append(slices.Clone(list.problems), l.untrusted(list)...)
	if l.lastSearch == list {
		r := <-roles
		if r.declared == l.lastRoles && len(problems)+len(r.problems) == 0 && l.unchanged(ctx, candidates) {
			if stable = !list.changed(); stable {
				l.listed = l.listing.Load()
			}
			return l.last, nil, stable, nil
		}
		roles <- r
	}
	l.lastSearch = nil
	l.found.Store(0)
	outcomes, changed, err := l.readAll(ctx, candidates)
	r := <-roles // it writes to l
	if err != nil {
		return nil, nil, false, err
	}
	declared, rolesID := r.declared, r.id
	problems = append(problems, r.problems...)
	stable = true
	var warnings Problems
	var kept []outcome
	files := make(map[string]*known, len(outcomes))
	for i, o := range outcomes {
		switch {
		case o.err != nil:
			stable = false
			problems = append(problems, Problem{File: o.path, Message: o.err.Error(), Remedy: "this passes when whoever writes there is done"})
		case rolesID != (fileID{}) && o.id.same(rolesID):
			continue
		case o.problem != nil:
			problems = append(problems, *o.problem)
		case o.skipped != nil:
			warnings = append(warnings, *o.skipped)
		default:
			kept = append(kept, o)
		}
		k := changed[i]
		if k == nil {
			k = l.files[o.path]
		}
		if k != nil && o.record != nil {
			files[o.record.server.File] = k // the same path, and no second copy of the string
		}
	}
	l.files = files
	kept = oncePerFile(kept)
	if len(kept) == 0 && len(problems) == 0 {
		problems = append(problems, Problem{Message: "there are no server files", Remedy: patternRemedy})
	}
	records := make([]*record, len(kept))
	for i, o := range kept {
		records[i] = o.record
	}
	stable = stable && !list.changed()
	if len(problems) > 0 {
		_, problems, l.warned = assemble(declared, records, problems, warnings)
		return nil, problems, stable, nil
	}
	if inv, problems = l.take(declared, records, warnings); len(problems) > 0 {
		return nil, problems, stable, nil
	}
	// With litter, or a file of two paths, there is more to an event than one file.
	places := listingOf(list, l.source.Roles)
	l.places.Store(places)
	if stable && len(warnings) == 0 && len(kept) == len(outcomes) {
		l.listed = places
	}
	if stable {
		l.lastSearch = l.share(list)
	}
	return inv, nil, stable, nil
}

// take makes the inventory of what was read without problems, and remembers it.
func (l *Loader) take(declared *rolesFile, records []*record, warnings Problems) (*Inventory, Problems) {
	if l.last != nil && declared == l.lastRoles && slices.Equal(records, l.lastRecords) && slices.Equal(warnings, l.lastWarnings) {
		return l.last, nil
	}
	inv, ok := (*Inventory)(nil), false
	if l.last != nil && declared == l.lastRoles && slices.Equal(warnings, l.lastWarnings) {
		inv, ok = patch(l.last, l.lastRecords, records)
	}
	if !ok {
		var problems Problems
		if inv, problems, l.warned = assemble(declared, records, nil, warnings); len(problems) > 0 {
			return nil, problems
		}
	}
	l.last, l.lastRecords, l.lastRoles, l.lastWarnings = inv, records, declared, warnings
	return inv, nil
}

// samePath tells whether two paths are spelled for the same place.
func samePath(a, b string) bool {
	if filepath.Base(a) != filepath.Base(b) {
		return false
	}
	absA, errA := filepath.Abs(a)
	absB, errB := filepath.Abs(b)
	return errA == nil && errB == nil && absA == absB
}

// rolesRead is what became of roles.json.
type rolesRead struct {
	declared *rolesFile
	id       fileID
	problems Problems
}

// loadRoles reads roles.json, if it changed.
func (l *Loader) loadRoles() rolesRead {
	path := l.source.Roles
	fail := func(message, remedy string) rolesRead {
		l.roles = rolesKnown{}
		return rolesRead{problems: Problems{{File: path, Message: message, Remedy: remedy}}}
	}
	if path == "" {
		return fail("no roles file is given", "set inventory.roles to the path of roles.json")
	}
	now := l.now()
	id, err := statFile(path)
	var irregular *notRegularError
	switch {
	case errors.Is(err, errVanished):
		return fail("no such file", "write the roles file there, or correct inventory.roles")
	case errors.As(err, &irregular):
		return fail(err.Error(), "write the roles file there, or correct inventory.roles")
	case err != nil:
		return fail("read file: "+cause(err), UnreadableRemedy)
	case l.roles.read && l.roles.id == id && !l.roles.young:
		return rolesRead{l.roles.declared, id, l.roles.problems}
	}
	reader := fileReader{guard: l.guard}
	defer reader.close()
	data, id, problem := reader.read(path)
	if problem != nil {
		l.roles = rolesKnown{}
		return rolesRead{nil, id, Problems{*problem}}
	}
	l.reads.Add(1)
	hash := maphash.Bytes(l.seed, data)
	if l.roles.read && l.roles.id.size == id.size && l.roles.hash == hash {
		l.roles.id, l.roles.young = id, id.young(now)
		return rolesRead{l.roles.declared, id, l.roles.problems}
	}
	declared, problems := parseRoles(File{Path: path, Data: data})
	l.roles = rolesKnown{id: id, hash: hash, young: id.young(now), read: true, declared: declared, problems: problems}
	return rolesRead{declared, id, problems}
}

// readAll reads candidates on all processors; changed is what to remember of each.
func (l *Loader) readAll(ctx context.Context, candidates []candidate) (outcomes []outcome, changed []*known, err error) {
	const chunk = 64 // files at once, so that a processor that is slower than the others gets fewer
	outcomes, changed = make([]outcome, len(candidates)), make([]*known, len(candidates))
	var next atomic.Int64
	var g errgroup.Group
	for range min(runtime.GOMAXPROCS(0), 1+len(candidates)/chunk) {
		g.Go(func() error {
			r := newCandidateReader(l)
			defer r.close()
			for ctx.Err() == nil {
				to := int(next.Add(chunk))
				from := min(to-chunk, len(candidates))
				if from == len(candidates) {
					break
				}
				for i := from; i < min(to, len(candidates)); i++ {
					outcomes[i], changed[i] = r.read(candidates[i], l.files[candidates[i].path])
				}
			}
			return ctx.Err()
		})
	}
	return outcomes, changed, g.Wait()
}

// oncePerFile keeps one of the outcomes that are one file by several paths (links): the path without links, else the first.
func oncePerFile(outcomes []outcome) []outcome {
	type inode struct{ dev, ino uint64 }
	first := make(map[inode]int, len(outcomes))
	kept := outcomes[:0]
	slices.SortFunc(outcomes, func(a, b outcome) int { return strings.Compare(a.path, b.path) })
	for _, o := range outcomes {
		key := inode{o.id.dev, o.id.ino}
		i, twice := first[key]
		switch {
		case !twice:
			first[key] = len(kept)
			kept = append(kept, o)
		case !isResolved(kept[i].path) && isResolved(o.path):
			kept[i] = o
		}
	}
	return kept
}

func isResolved(path string) bool {
	abs, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	real, err := filepath.EvalSymlinks(abs)
	return err == nil && real == abs
}
