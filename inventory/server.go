package inventory

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// record is what one server file says, and where, for problems that only show when all files are seen together. It holds
// nothing of the file's text.
type record struct {
	// server has no roles yet.
	server *Server
	// retired servers are known by name and are nothing else.
	retired bool
	// status is what a status says that is neither known as live nor as gone; "" for none. Such a server counts as live.
	status string
	// broken says that problems kept the file from being understood: the server then goes by the file's own name.
	broken bool
	// namePlace is where the name stands; zero if it is the file's. addressPlaces and prefixPlaces go with the server's lists.
	namePlace                   place
	addressPlaces, prefixPlaces []place
	problems, warnings          Problems
}

// maxFound is how many problems and warnings are kept in all before a file keeps only its first few. Far fewer are told; a broken export
// of 100,000 servers could have any number.
const maxFound = 100 * maxProblems

// shorten keeps the first few problems and warnings, and how many more there were.
func (r *record) shorten() {
	const few = 3
	first := func(ps Problems, what string) Problems {
		if len(ps) <= few+1 {
			return ps
		}
		return append(slices.Clone(ps[:few]), Problem{File: r.server.File, Message: fmt.Sprintf("%d more %s in this file", len(ps)-few, what),
			Remedy: "bulkshaper check tells them when other files have fewer"})
	}
	r.problems, r.warnings = first(r.problems, "problems"), first(r.warnings, "warnings")
}

// DatacenterOf is the datacenter that a server file's place stands for: the folder that holds the folder "jsons" with the
// file. "" where the file lies otherwise.
func DatacenterOf(path string) string {
	folder := filepath.Dir(path)
	if filepath.Base(folder) != "jsons" {
		return ""
	}
	above := filepath.Base(filepath.Dir(folder))
	if above == "." || above == ".." || above == string(filepath.Separator) {
		return ""
	}
	return above
}

// read reads one server file.
func (sr *serverReader) read(f File) *record {
	r := &record{server: &Server{File: f.Path, Name: fileName(f.Path), Datacenter: sr.shared(f.Datacenter)}, broken: true}
	p := serverParser{serverReader: sr, record: r}
	if r.problems = p.open(f); len(r.problems) == 0 {
		p.parse()
		r.broken = len(r.problems) > 0
	}
	if r.server.Names == nil {
		r.server.Names = []string{r.server.Name}
	}
	return r
}

// open takes the document of f, or says what keeps it from being read.
func (p *serverParser) open(f File) Problems {
	doc, problem := openDocument(f.Path, f.Data)
	if problem != nil {
		return Problems{*problem}
	}
	p.doc = doc
	if members, certain := p.glance.at(doc.text); certain {
		p.take(members)
		return nil
	}
	if problems := checkSyntax(doc, p.fields.significant); len(problems) > 0 {
		return problems
	}
	if trimmed := strings.TrimLeft(doc.text, " \t\r\n"); trimmed[0] != '{' {
		return Problems{doc.problem(len(doc.text)-len(trimmed), "file has no JSON object", "a server's file is one object in braces")}
	}
	p.take(membersOf(doc))
	return nil
}

// fileName is the name of a server whose JSON gives none: the file's, without .json.
func fileName(path string) string {
	return CanonicalName(strings.TrimSuffix(filepath.Base(path), ".json"))
}
