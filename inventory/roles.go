package inventory

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
)

// rolesFile is what roles.json says, before anything is made of it.
type rolesFile struct {
	file           string
	servers, roles []word
	mapping        []mapEntry
}

// word is a name at its place.
type word struct {
	text string
	at   place
}

// mapEntry is one member of the mapping: a role and its servers, or a server and its roles.
type mapEntry struct {
	key    word
	values []word
}

// problem is a problem at the place of w.
func (r *rolesFile) problem(w word, message, remedy string) Problem {
	return Problem{File: r.file, Line: int(w.at.line), Column: int(w.at.column), Message: message, Remedy: remedy}
}

// parseRoles reads roles.json. The problems are those of the file alone; what it says of unknown names is told by assemble.
func parseRoles(f File) (*rolesFile, Problems) {
	doc, problem := openDocument(f.Path, f.Data)
	if problem != nil {
		if problem.Message == emptyFile {
			problem.Remedy = "write it again; " + rolesShape
		}
		return nil, Problems{*problem}
	}
	if problems := checkSyntax(doc, func(depth int, _ string) bool { return depth <= 2 }); len(problems) > 0 {
		return nil, problems
	}
	p := rolesParser{scanner: newScanner(doc), out: &rolesFile{file: f.Path}, seen: make(map[string]bool)}
	if err := p.parse(); err != nil && !errors.Is(err, io.EOF) {
		p.wrong(-1, err.Error(), "")
	}
	if len(p.problems) > 0 {
		return nil, p.problems
	}
	return p.out, nil
}

// rolesParser takes the parts of roles.json, whose grammar was checked before.
type rolesParser struct {
	*scanner
	out      *rolesFile
	seen     map[string]bool
	problems Problems
}

func (p *rolesParser) wrong(offset int, message, remedy string) {
	if len(p.problems) < maxFileProblems {
		p.problems = append(p.problems, p.doc.problem(offset, message, remedy))
	}
}

const rolesShape = `roles.json is {"servers": [...], "roles": [...], "mapping": {"role": ["server", ...], ...}}`

func (p *rolesParser) parse() error {
	t, err := p.next()
	if err != nil {
		return err
	}
	if t.kind != jsontext.KindBeginObject {
		p.wrong(t.offset, "file has no JSON object", rolesShape)
		return nil
	}
	var others []string
	for {
		key, err := p.next()
		if err != nil {
			return err
		}
		if key.kind == jsontext.KindEndObject {
			break
		}
		switch key.text {
		case "servers":
			p.out.servers, err = p.words("servers", "server", p.server)
		case "roles":
			p.out.roles, err = p.words("roles", "role", p.role)
		case "mapping":
			err = p.mapping()
		default:
			others = append(others, key.text)
			err = p.dec.SkipValue()
		}
		if err != nil {
			return err
		}
		p.seen[key.text] = true
	}
	for _, key := range []string{"servers", "roles", "mapping"} {
		if p.seen[key] {
			continue
		}
		remedy := rolesShape
		if near := nearest(key, others); near != "" {
			remedy = fmt.Sprintf("write %q in the place of %q", key, near)
		}
		p.wrong(0, fmt.Sprintf("key %q is missing", key), remedy)
	}
	return nil
}

// words reads a list of names, or, for a mapping, one alone.
func (p *rolesParser) words(where, what string, check func(token) (string, bool)) ([]word, error) {
	t, err := p.next()
	if err != nil {
		return nil, err
	}
	if t.kind != jsontext.KindBeginArray {
		p.wrong(t.offset, fmt.Sprintf("%q is no list", where), fmt.Sprintf("write a list of %s names in brackets", what))
		return nil, p.skip(t)
	}
	return p.list(what, check)
}

// list reads the names of a list whose bracket was read.
func (p *rolesParser) list(what string, check func(token) (string, bool)) ([]word, error) {
	var words []word
	for {
		t, err := p.next()
		switch {
		case err != nil:
			return nil, err
		case t.kind == jsontext.KindEndArray:
			return words, nil
		case t.kind != jsontext.KindString:
			p.wrong(t.offset, what+" is no string", "write names in quotes")
			if err := p.skip(t); err != nil {
				return nil, err
			}
			continue
		}
		if text, ok := check(t); ok {
			words = append(words, word{text, p.doc.placeOf(t.offset)})
		}
	}
}

// skip goes to the end of the list or object that t opens.
func (p *rolesParser) skip(t token) error {
	if !opens(t.kind) {
		return nil
	}
	for depth := p.dec.StackDepth(); p.dec.StackDepth() >= depth; {
		if _, err := p.next(); err != nil {
			return err
		}
	}
	return nil
}

func (p *rolesParser) mapping() error {
	const remedy = `write {"role": ["server", ...], ...} or {"server": ["role", ...], ...}`
	t, err := p.next()
	if err != nil {
		return err
	}
	if t.kind != jsontext.KindBeginObject {
		p.wrong(t.offset, `"mapping" is no object`, remedy)
		return p.skip(t)
	}
	for {
		key, err := p.next()
		if err != nil {
			return err
		}
		if key.kind == jsontext.KindEndObject {
			return nil
		}
		entry := mapEntry{}
		text, ok := p.name(key)
		entry.key = word{text, p.doc.placeOf(key.offset)}
		switch t, err = p.next(); {
		case err != nil:
			return err
		case t.kind == jsontext.KindBeginArray:
			if entry.values, err = p.list("mapped name", p.name); err != nil {
				return err
			}
		case t.kind == jsontext.KindString:
			if text, ok := p.name(t); ok {
				entry.values = []word{{text, p.doc.placeOf(t.offset)}}
			}
		case t.kind != jsontext.KindNull:
			p.wrong(t.offset, fmt.Sprintf("mapping of %q is neither a name nor a list of names", abbreviate(key.text)), remedy)
			if err := p.skip(t); err != nil {
				return err
			}
		}
		if ok {
			p.out.mapping = append(p.out.mapping, entry)
		}
	}
}

// name reads a name that may be a role's or a server's.
func (p *rolesParser) name(t token) (string, bool) {
	text := strings.TrimSpace(t.text)
	if text == "" || strings.ContainsFunc(text, unicode.IsControl) {
		p.wrong(t.offset, fmt.Sprintf("%q is no name", abbreviate(t.text)), "write the name of a role or a server")
		return "", false
	}
	if f := tooLong("name", text); f != nil {
		p.wrong(t.offset, f.message, f.remedy)
		return "", false
	}
	return text, true
}

func (p *rolesParser) role(t token) (string, bool) { return p.name(t) }

func (p *rolesParser) server(t token) (string, bool) {
	name := CanonicalName(t.text)
	if f := checkServerName(name); f != nil {
		p.wrong(t.offset, f.message, f.remedy)
		return "", false
	}
	return name, true
}
