package inventory

import (
	"strings"

	"github.com/tidwall/gjson"
)

// fieldPath is a gjson path made ready. gjson takes only the first member that a wildcard matches, and none of a list's; we
// want every match. So a path is cut at the keys with wildcards, and at "#", and we go through members and elements ourselves.
type fieldPath struct {
	text  string
	steps []step
	// first is the key that an object must have for the path to match anything, "" where that is not so simple; number is that of the key
	// among those of all paths.
	first  string
	number int
	// whole says that the path is this key and no more.
	whole bool
}

// step is one part of a path: what gjson finds under get, or, where get is empty, every member whose key matches each (every
// element of a list, if each is "*").
type step struct{ get, each string }

// match is one value found, and where: offset is -1 where gjson made the value and it stands nowhere.
type match struct {
	value  gjson.Result
	offset int
}

// compilePath cuts path into steps. A path with a pipe or a modifier is left to gjson whole.
func compilePath(path string) fieldPath {
	p := fieldPath{text: path}
	parts, plain := splitPath(path)
	if !plain {
		p.steps = []step{{get: path}}
		return p
	}
	if strings.Trim(strings.ToLower(parts[0]), "abcdefghijklmnopqrstuvwxyz0123456789_-") == "" {
		p.first, p.whole = parts[0], len(parts) == 1
	}
	var get []string
	flush := func(each string) {
		if len(get) > 0 {
			p.steps = append(p.steps, step{get: strings.Join(get, ".")})
			get = nil
		}
		if each != "" {
			p.steps = append(p.steps, step{each: each})
		}
	}
	for i, part := range parts {
		last := i == len(parts)-1
		switch {
		case part == "#" && !last:
			flush("*")
		case strings.HasPrefix(part, "#(") && strings.HasSuffix(part, ")#") && !last:
			get = append(get, part)
			flush("*")
		case hasWildcard(part):
			flush(part)
		default:
			get = append(get, part)
		}
	}
	flush("")
	return p
}

// splitPath cuts path at the dots that stand outside of brackets and quotes. plain is false where the path has a pipe, a
// modifier, a literal or a multipath.
func splitPath(path string) (parts []string, plain bool) {
	depth, start := 0, 0
	quoted := false
	plain = true
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case c == '\\':
			i++
		case c == '"' && depth > 0:
			quoted = !quoted
		case quoted:
		case c == '(' || c == '[' || c == '{':
			plain = plain && c == '('
			depth++
		case c == ')' || c == ']' || c == '}':
			depth--
		case depth > 0:
		case c == '|' || (c == '@' || c == '!') && i == start:
			plain = false
		case c == '.':
			parts = append(parts, path[start:i])
			start = i + 1
		}
	}
	return append(parts, path[start:]), plain
}

func hasWildcard(key string) bool {
	if strings.HasPrefix(key, "#") {
		return false
	}
	for i := 0; i < len(key); i++ {
		switch key[i] {
		case '\\':
			i++
		case '*', '?':
			return true
		}
	}
	return false
}

// find is every match of p in doc, in the order of the text. Values of null are not matches.
func (p fieldPath) find(doc *document) []match {
	if len(p.steps) == 1 && p.steps[0].get != "" { // as most are
		v := gjson.Get(doc.text, p.steps[0].get)
		if v.Type == gjson.Null { // or nothing
			return nil
		}
		return []match{doc.matchOf(v)}
	}
	found := []gjson.Result{{Type: gjson.JSON, Raw: doc.text}}
	for _, s := range p.steps {
		var next []gjson.Result
		for _, r := range found {
			if s.get != "" {
				if v := r.Get(s.get); v.Exists() {
					next = append(next, v)
				}
			} else if r.Type == gjson.JSON {
				list := r.IsArray()
				r.ForEach(func(key, value gjson.Result) bool {
					if list && s.each == "*" || !list && wildcard(s.each, key.Str) {
						next = append(next, value)
					}
					return true
				})
			}
		}
		found = next
	}
	var matches []match
	for _, r := range found {
		if r.Type == gjson.Null {
			continue
		}
		matches = append(matches, doc.matchOf(r))
	}
	return matches
}

// matchOf is what gjson found in the document, with its place where it has one.
func (d *document) matchOf(r gjson.Result) match {
	m := match{value: r, offset: r.Index}
	if m.offset <= 0 || m.offset > len(d.text) || !strings.HasPrefix(d.text[m.offset:], r.Raw) {
		m.offset = -1
	}
	return m
}

// appendLeaves takes lists apart, down to what is no list; nulls are left out.
func (m match) appendLeaves(leaves []match) []match {
	if !m.value.IsArray() {
		if m.value.Type == gjson.Null {
			return leaves
		}
		return append(leaves, m)
	}
	i := 0
	m.value.ForEach(func(_, v gjson.Result) bool {
		offset := -1
		if m.value.Indexes != nil {
			if i < len(m.value.Indexes) {
				offset = m.value.Indexes[i]
			}
		} else if m.offset >= 0 {
			offset = v.Index
		}
		i++
		leaves = match{value: v, offset: offset}.appendLeaves(leaves)
		return true
	})
	return leaves
}

// wildcard tells whether s matches a pattern of "*" (any number of bytes), "?" (one byte) and "\" before a byte as it is.
func wildcard(pattern, s string) bool {
	star, from := -1, 0
	p, i := 0, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, i
			p++
			continue
		case p < len(pattern) && pattern[p] == '?':
			p, i = p+1, i+1
			continue
		case p+1 < len(pattern) && pattern[p] == '\\' && pattern[p+1] == s[i]:
			p, i = p+2, i+1
			continue
		case p < len(pattern) && pattern[p] != '\\' && pattern[p] == s[i]:
			p, i = p+1, i+1
			continue
		}
		if star < 0 {
			return false
		}
		from++
		p, i = star+1, from
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
