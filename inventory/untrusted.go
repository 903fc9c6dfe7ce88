package inventory

import "bulkshaper/inventory/trust"

// Untrusted is the problem that others may write a file, or what leads to it. It may be allowed.
func Untrusted(r *trust.Refusal) Problem {
	return Problem{File: r.Path, Message: r.Message,
		Remedy: r.Remedy + ", or allow it with --allow-writable-by-others (in the config, allow_writable_by_others: true)"}
}

// untrusted is who else may exchange the files that were found, or add some: by a folder or a link on the way to them. The files
// themselves are looked at when they are read. It costs a system call or two for each folder and link.
func (l *Loader) untrusted(list *lister) (problems Problems) {
	w := l.guard.Walk()
	told := make(map[string]bool)
	tell := func(r *trust.Refusal) {
		if r != nil && !told[r.Path] {
			told[r.Path] = true
			problems = append(problems, Untrusted(r))
		}
	}
	if l.source.Roles != "" {
		tell(w.To(l.source.Roles))
	}
	for _, folder := range list.listed {
		tell(w.Into(folder))
	}
	for _, link := range list.links {
		tell(w.To(link))
	}
	for _, c := range list.candidates {
		if c.meant {
			tell(w.To(c.path))
		}
	}
	return problems
}
