package inventory

import (
	"errors"
	"hash/maphash"
	"path/filepath"
)

// candidateReader reads candidates for a Loader. What one needs is used again for the next.
type candidateReader struct {
	*Loader
	file   fileReader
	server *serverReader
	// folder is that of the last file, and datacenter what it stands for.
	folder, datacenter string
}

func newCandidateReader(l *Loader) *candidateReader {
	return &candidateReader{Loader: l, file: fileReader{guard: l.guard}, server: newServerReader(l.fields)}
}

func (r *candidateReader) close() { r.file.close() }

// read is what a candidate says; changed is what to remember of it, nil where that is what is known already.
func (r *candidateReader) read(c candidate, before *known) (o outcome, changed *known) {
	o.path = c.path
	now := r.now()
	var err error
	if before != nil || !c.regular { // of a file not seen before, reading tells as much
		o.id, err = r.file.in.identify(c.path)
	}
	var irregular *notRegularError
	switch {
	case errors.Is(err, errVanished):
		o.err = err
		return o, nil
	case errors.As(err, &irregular) && c.meant:
		o.problem = &Problem{File: c.path, Message: err.Error(), Remedy: "name folders, or regular files, in inventory.servers"}
		return o, nil
	case errors.As(err, &irregular):
		o.skipped = &Problem{File: c.path, Message: err.Error(), Remedy: "move it out of the folder"}
		return o, nil
	case err != nil:
		o.problem = &Problem{File: c.path, Message: "read file: " + cause(err), Remedy: UnreadableRemedy}
		return o, nil
	case before != nil && before.id == o.id && !before.young:
		o.record = before.record
		return o, nil
	}
	data, id, problem := r.file.read(c.path)
	if problem != nil {
		if _, err := statFile(c.path); errors.Is(err, errVanished) {
			o.err = errVanished
			return o, nil
		}
		o.problem = problem
		return o, nil
	}
	r.reads.Add(1)
	changed = &known{id: id, hash: maphash.Bytes(r.seed, data), young: id.young(now)}
	o.id = id
	if before != nil && before.id.size == id.size && before.hash == changed.hash {
		changed.record = before.record
	} else {
		changed.record = r.server.read(File{Path: c.path, Data: data, Datacenter: r.datacenterOf(c.path)})
		if n := len(changed.record.problems) + len(changed.record.warnings); r.found.Add(int64(n)) > maxFound {
			changed.record.shorten()
		}
	}
	o.record = changed.record
	return o, changed
}

// datacenterOf is DatacenterOf for a path that may be relative.
func (r *candidateReader) datacenterOf(path string) string {
	folder, _ := filepath.Split(path)
	if r.folder == folder && folder != "" {
		return r.datacenter
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	r.folder, r.datacenter = folder, DatacenterOf(path)
	return r.datacenter
}
