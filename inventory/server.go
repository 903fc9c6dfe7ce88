package inventory

import (
	"path/filepath"
	"strings"
	"unique"
)

// record is what one server file says, and where, for problems that only show when all files are seen together. It holds
// nothing of the file's text.
type record struct {
	// server has no roles yet.
	server *Server
	// retired servers are known by name and are nothing else.
	retired bool
	// broken says that problems kept the file from being understood: the server then goes by the file's own name.
	broken bool
	// namePlace is where the name stands; zero if it is the file's. addressPlaces and prefixPlaces go with the server's lists.
	namePlace                   place
	addressPlaces, prefixPlaces []place
	problems, warnings          Problems
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

// parseServer reads one server file.
func parseServer(f File, fields *fieldPaths) *record {
	r := &record{server: &Server{File: f.Path, Name: fileName(f.Path), Datacenter: unique.Make(f.Datacenter).Value()}, broken: true}
	r.server.Names = []string{r.server.Name}
	doc, problem := openDocument(f.Path, f.Data)
	if problem != nil {
		r.problems = Problems{*problem}
		return r
	}
	if r.problems = checkSyntax(doc, fields.significant); len(r.problems) > 0 {
		return r
	}
	if trimmed := strings.TrimLeft(doc.text, " \t\r\n"); trimmed[0] != '{' {
		r.problems = Problems{doc.problem(len(doc.text)-len(trimmed), "file has no JSON object", "a server's file is one object in braces")}
		return r
	}
	p := serverParser{doc: doc, record: r, fields: fields}
	p.parse()
	r.broken = len(r.problems) > 0
	return r
}

// fileName is the name of a server whose JSON gives none: the file's, without .json.
func fileName(path string) string {
	return CanonicalName(strings.TrimSuffix(filepath.Base(path), ".json"))
}
