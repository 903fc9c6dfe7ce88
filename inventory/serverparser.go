package inventory

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unique"

	"github.com/tidwall/gjson"
)

// serverParser takes the parts of one server out of its document.
type serverParser struct {
	doc    *document
	record *record
	fields *fieldPaths
	// keys are those at the top of the object.
	keys []string
	// more counts the problems that are not told one by one.
	more int
}

func (p *serverParser) parse() {
	s := p.record.server
	gjson.Parse(p.doc.text).ForEach(func(key, _ gjson.Result) bool {
		p.keys = append(p.keys, key.Str)
		return true
	})
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

// find is every match of path. Most paths begin with a key that the object does not have: those are not looked for in the text.
func (p *serverParser) find(path fieldPath) []match {
	if path.first != "" && !slices.Contains(p.keys, path.first) {
		return nil
	}
	return path.find(p.doc)
}

// values is every value under the paths, in the order of the paths, lists taken apart.
func (p *serverParser) values(paths []fieldPath) []match {
	var all []match
	for _, path := range paths {
		for _, m := range p.find(path) {
			all = append(all, m.leaves()...)
		}
	}
	return all
}

// spelling finds keys that would be read if they were not in another case, where the file has nothing else for the field.
func (p *serverParser) spelling() {
	gjson.Parse(p.doc.text).ForEach(func(key, value gjson.Result) bool {
		for _, want := range p.fields.top[strings.ToLower(key.Str)] {
			if want.key == key.Str {
				return true
			}
		}
		for _, want := range p.fields.top[strings.ToLower(key.Str)] {
			if value.Type != gjson.Null && len(p.values(*want.paths)) == 0 {
				p.wrong(match{offset: key.Index}, &fault{fmt.Sprintf("key %q is not spelled %q and so would not be read", key.Str, want.key),
					fmt.Sprintf("write %q, or name the key in inventory.fields.%s", want.key, want.field)})
				break
			}
		}
		return true
	})
}

// names reads the name and all further names. The first value is the name; without any, the file's own name is.
func (p *serverParser) names() {
	s := p.record.server
	first := true
	var names []string
	for _, m := range append(p.values(p.fields.name), p.values(p.fields.names)...) {
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
		switch strings.ToLower(strings.TrimSpace(m.value.Str)) {
		case "decommissioned", "offline", "retired":
			return true
		}
	}
	return false
}

// word reads a cabinet or a datacenter: of the first path that has one known. A path that has two is a problem.
func (p *serverParser) word(paths []fieldPath, what string) string {
	for _, path := range paths {
		word := ""
		for _, m := range p.find(path) {
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
			return unique.Make(strings.Clone(word)).Value()
		}
	}
	return ""
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
func collect[T comparable](p *serverParser, paths []fieldPath, read func(match) (T, bool), compare func(a, b T) int) ([]T, []place) {
	type found struct {
		value T
		at    place
	}
	var list []found
	for _, m := range p.values(paths) {
		if v, ok := read(m); ok {
			f := found{value: v}
			if m.offset >= 0 {
				f.at = p.doc.placeOf(m.offset)
			}
			list = append(list, f)
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	slices.SortStableFunc(list, func(a, b found) int { return compare(a.value, b.value) })
	list = slices.CompactFunc(list, func(a, b found) bool { return a.value == b.value })
	values, places := make([]T, len(list)), make([]place, len(list))
	for i, f := range list {
		values[i], places[i] = f.value, f.at
	}
	return values, places
}
