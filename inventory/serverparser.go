package inventory

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unique"

	"github.com/tidwall/gjson"
)

// serverReader reads server files, one after the other. What it needs for one it uses again for the next.
type serverReader struct {
	fields *fieldPaths
	glance glance
	// places has for each first key of a path the number of the member that has it, from 1; 0 for none.
	places []int
	found  []match
	// words has one copy of each cabinet and datacenter.
	words map[string]string
}

func newServerReader(fields *fieldPaths) *serverReader {
	return &serverReader{fields: fields, places: make([]int, len(fields.first)), words: make(map[string]string)}
}

// serverParser takes the parts of one server out of its document.
type serverParser struct {
	*serverReader
	doc    *document
	record *record
	// members are those at the top of the object.
	members []member
	// more counts the problems that are not told one by one.
	more int
}

// membersOf is the members of a document's object as gjson sees them.
func membersOf(doc *document) (members []member) {
	gjson.Parse(doc.text).ForEach(func(key, value gjson.Result) bool {
		members = append(members, member{key: key.Str, at: key.Index, value: value.Index, to: value.Index + len(value.Raw)})
		return true
	})
	return members
}

// take begins with a document whose members are these.
func (p *serverParser) take(members []member) {
	p.members = members
	clear(p.places)
	for i, m := range members {
		if number, ok := p.fields.first[m.key]; ok && p.places[number] == 0 {
			p.places[number] = i + 1
		}
	}
}

// value is that of a member, as gjson would find it.
func (p *serverParser) value(m member) gjson.Result {
	v := gjson.Parse(p.doc.text[m.value:m.to])
	v.Index = m.value
	return v
}

func (p *serverParser) parse() {
	s := p.record.server
	p.spelling()
	p.names()
	p.record.retired = p.retired()
	if !p.record.retired { // of a server that is gone nothing but the name matters
		s.Cabinet = p.word(p.fields.cabinet, "cabinet")
		if d := p.word(p.fields.datacenter, "datacenter"); d != "" {
			s.Datacenter = d
		}
		s.Addresses, p.record.addressPlaces = collect(p, p.fields.addresses, p.address, netip.Addr.Compare)
		s.Prefixes, p.record.prefixPlaces = collect(p, p.fields.prefixes, p.prefix, netip.Prefix.Compare)
	}
	switch {
	case p.more > 0:
		p.record.problems = append(p.record.problems, p.doc.problem(-1, fmt.Sprintf("%d more problems in this file", p.more), ""))
	case len(p.record.problems) > 0 || p.record.retired:
		return
	}
	if len(s.Addresses)+len(s.Prefixes) == 0 {
		p.warn(match{offset: -1}, "server "+s.Name+" has no address", "write it, or name the key that has it in inventory.fields.addresses")
	}
	if s.Cabinet == "" {
		p.warn(match{offset: -1}, "server "+s.Name+" has no cabinet", "write it, or name the key that has it in inventory.fields.cabinet")
	}
}

func (p *serverParser) wrong(m match, f *fault) {
	if len(p.record.problems) == maxFileProblems {
		p.more++
		return
	}
	p.record.problems = append(p.record.problems, p.doc.problem(m.offset, f.message, f.remedy))
}

func (p *serverParser) warn(m match, message, remedy string) {
	if len(p.record.warnings) < maxFileProblems {
		p.record.warnings = append(p.record.warnings, p.doc.problem(m.offset, message, remedy))
	}
}

// find is every match of path, added to into. Most paths begin with a key that the object does not have, and most others are a key and
// no more: for those the text is not gone through again.
func (p *serverParser) find(into []match, path *fieldPath) []match {
	switch {
	case p.hasNot(path):
	case !path.whole:
		into = append(into, path.find(p.doc)...)
	default:
		if v := p.value(p.members[p.places[path.number]-1]); v.Type != gjson.Null {
			into = append(into, match{value: v, offset: v.Index})
		}
	}
	return into
}

// hasNot tells of most paths at once that they match nothing.
func (p *serverParser) hasNot(path *fieldPath) bool {
	return path.first != "" && p.places[path.number] == 0
}

// values is every value under the paths, in the order of the paths, lists taken apart. They are valid until the next call.
func (p *serverParser) values(lists ...[]fieldPath) []match {
	all := p.found[:0]
	for _, paths := range lists {
		for i := range paths {
			if p.hasNot(&paths[i]) {
				continue
			}
			from := len(all)
			all = p.find(all, &paths[i])
			if !slices.ContainsFunc(all[from:], func(m match) bool { return m.value.Type == gjson.JSON || m.value.Type == gjson.Null }) {
				continue
			}
			matches := slices.Clone(all[from:])
			all = all[:from]
			for _, m := range matches {
				all = m.appendLeaves(all)
			}
		}
	}
	p.found = all
	return all
}

// spelling finds keys that would be read if they were not in another case, where the file has nothing else for the field.
func (p *serverParser) spelling() {
	for _, m := range p.members {
		wanted := p.fields.top[strings.ToLower(m.key)]
		if slices.ContainsFunc(wanted, func(want topKey) bool { return want.key == m.key }) {
			continue
		}
		for _, want := range wanted {
			if p.value(m).Type != gjson.Null && len(p.values(*want.paths)) == 0 {
				p.wrong(match{offset: m.at}, &fault{fmt.Sprintf("key %q is not spelled %q and so would not be read", m.key, want.key),
					fmt.Sprintf("write %q, or name the key in inventory.fields.%s", want.key, want.field)})
				break
			}
		}
	}
}

// names reads the name and all further names. The first value is the name; without any, the file's own name is.
func (p *serverParser) names() {
	s := p.record.server
	first := true
	matches := p.values(p.fields.name, p.fields.names)
	names := make([]string, 0, max(len(matches), 1))
	for _, m := range matches {
		if m.value.Type != gjson.String {
			p.wrong(m, &fault{"name is " + describe(m.value), "write a host name in quotes"})
			continue
		}
		name := strings.Clone(CanonicalName(m.value.Str))
		if name == "" && strings.TrimSpace(m.value.Str) == "" {
			continue
		}
		if f := checkServerName(name); f != nil {
			p.wrong(m, f)
			continue
		}
		if first {
			s.Name = name
			if m.offset >= 0 {
				p.record.namePlace = p.doc.placeOf(m.offset)
			}
			first = false
		}
		names = append(names, name)
	}
	if first {
		if f := checkServerName(s.Name); f != nil {
			p.wrong(match{offset: -1}, &fault{"the JSON has no name, and as the file's own " + f.message, "write the server's name into the file"})
		}
		names = append(names, s.Name)
	}
	s.Names = slices.Clip(sortedSet(names, strings.Compare))
}

// retired tells whether the status says that the server is gone.
func (p *serverParser) retired() bool {
	for _, m := range p.values(p.fields.status) {
		switch {
		case m.value.IsObject(): // another path looks into it
			continue
		case m.value.Type != gjson.String:
			p.wrong(m, &fault{"status is " + describe(m.value), "write a word in quotes, or name the right key in inventory.fields.status"})
			continue
		}
		word := strings.ToLower(strings.TrimSpace(m.value.Str))
		if slices.Contains(goneWords(), word) {
			return true
		}
		if !slices.Contains(liveWords(), word) {
			p.record.status = unique.Make(abbreviate(word)).Value()
		}
	}
	return false
}

// word reads a cabinet or a datacenter: of the first path that has one known. A path that has two is a problem.
func (p *serverParser) word(paths []fieldPath, what string) string {
	for i := range paths {
		if p.hasNot(&paths[i]) {
			continue
		}
		word := ""
		p.found = p.find(p.found[:0], &paths[i])
		for _, m := range p.found {
			w, f := cabinetOf(m.value, what)
			switch {
			case f != nil:
				p.wrong(m, f)
			case word != "" && w != "" && w != word:
				p.wrong(m, &fault{fmt.Sprintf("%s is %q and also %q", what, abbreviate(word), abbreviate(w)),
					"a server stands in one: correct it, or name a path in inventory.fields." + what + " that has one value"})
			case w != "":
				word = w
			}
		}
		if word != "" {
			return p.shared(word)
		}
	}
	return ""
}

// shared is word, in one copy for all files.
func (p *serverReader) shared(word string) string {
	one, known := p.words[word]
	if !known {
		one = unique.Make(strings.Clone(word)).Value()
		p.words[one] = one
	}
	return one
}

func (p *serverParser) address(m match) (netip.Addr, bool) {
	a, ok, f := addressOf(m.value)
	if f != nil {
		p.wrong(m, f)
	}
	if ok && a.IsLinkLocalUnicast() {
		p.warn(m, fmt.Sprintf("address %s is link-local and is left out", a), "write an address that is reached from other networks too")
		return a, false
	}
	return a, ok
}

func (p *serverParser) prefix(m match) (netip.Prefix, bool) {
	v, ok, f := prefixOf(m.value)
	if f != nil {
		p.wrong(m, f)
	}
	return v, ok
}

// collect reads the values under paths into a sorted list without duplicates, each with its place.
func collect[T comparable](p *serverParser, paths []fieldPath, read func(match) (T, bool), compare func(a, b T) int) (values []T, places []place) {
	matches := p.values(paths)
	ascending := true
	for _, m := range matches {
		v, ok := read(m)
		if !ok {
			continue
		}
		var at place
		if m.offset >= 0 {
			at = p.doc.placeOf(m.offset)
		}
		if values == nil {
			values, places = make([]T, 0, len(matches)), make([]place, 0, len(matches))
		}
		ascending = ascending && (len(values) == 0 || compare(values[len(values)-1], v) < 0)
		values, places = append(values, v), append(places, at)
	}
	if ascending {
		return values, places
	}
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return compare(values[i], values[j]) })
	order = slices.CompactFunc(order, func(i, j int) bool { return values[i] == values[j] })
	sortedValues, sortedPlaces := make([]T, len(order)), make([]place, len(order))
	for to, from := range order {
		sortedValues[to], sortedPlaces[to] = values[from], places[from]
	}
	return sortedValues, sortedPlaces
}
