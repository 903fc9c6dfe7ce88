package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"golang.org/x/sys/unix"

	"bulkshaper/inventory"
	"bulkshaper/inventory/trust"
)

// Load reads the file at path, "" for none, under the flags and over the defaults. Its error is inventory.Problems: all that
// is wrong, each with its place.
func Load(path string, override Overrides) (*Config, error) {
	if path == "" {
		return parseTrusted("", nil, override)
	}
	var guard *trust.Guard
	if !override.on(allowFlag) {
		guard = trust.New()
	}
	data, err := readFile(path, guard)
	if err != nil {
		var others *trust.Refusal
		if errors.As(err, &others) {
			return nil, inventory.Problems{{File: others.Path, Message: others.Message,
				Remedy: others.Remedy + ", or allow it with --" + allowFlag + " (not in the config itself: whoever may write it could allow himself)"}}
		}
		var in *fs.PathError
		if errors.As(err, &in) {
			err = fmt.Errorf("%s: %w", in.Op, in.Err)
		}
		problem := inventory.Problem{File: path, Message: err.Error()}
		if errors.Is(err, fs.ErrPermission) {
			problem.Remedy = inventory.UnreadableRemedy
		}
		return nil, inventory.Problems{problem}
	}
	return parseTrusted(path, data, override)
}

// allowFlag is the flag that lets others write the files. As a key it is for all but the file that it stands in.
const allowFlag = "allow-writable-by-others"

// parseTrusted is Parse, and looks who may write the web config.
func parseTrusted(path string, data []byte, override Overrides) (*Config, error) {
	c, err := Parse(path, data, override)
	if err != nil || c.AllowWritableByOthers || c.WebConfig == "" {
		return c, err
	}
	if refusal := trust.New().Path(c.WebConfig); refusal != nil {
		return nil, inventory.Problems{inventory.Untrusted(refusal)}
	}
	return c, nil
}

// readFile reads a regular file of at most a byte more than may be. It does not wait for a writer of a FIFO. What guard refuses is
// a *trust.Refusal.
func readFile(path string, guard *trust.Guard) ([]byte, error) {
	if refusal := guard.Walk().To(path); refusal != nil {
		return nil, refusal
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("is not a regular file (mode %s)", info.Mode())
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	if refusal := guard.File(int(f.Fd()), path, &st); refusal != nil {
		return nil, refusal
	}
	return io.ReadAll(io.LimitReader(f, maxFileSize+1))
}

// Parse reads data, the content of the file called name, under the flags and over the defaults. Relative paths in it are
// relative to the file's folder; those in flags stay as they are. Its error is inventory.Problems.
func Parse(name string, data []byte, override Overrides) (*Config, error) {
	c, d := decode(name, data, override)
	if len(d.problems) > 0 {
		return nil, d.sorted()
	}
	slices.SortFunc(c.Classes, func(a, b Class) int { return int(a.ID) - int(b.ID) })
	return c, nil
}

// decode reads what can be read; it is good only where the decoder has no problems.
func decode(name string, data []byte, override Overrides) (*Config, *decoder) {
	root, problems := readYAML(name, data)
	d := &decoder{file: name, problems: problems, places: map[string]inventory.Problem{}}
	c := Default()
	c.File = name
	if root != nil {
		d.config(root, c)
	}
	d.badInventory = d.badInventory || root == nil && len(problems) > 0
	d.override(override, c)
	c.Source.WritableByOthers = c.AllowWritableByOthers
	if root != nil || len(problems) == 0 {
		d.check(c)
	}
	c.Warnings = d.warnings
	return c, d
}

// decoder collects problems while it fills a Config.
type decoder struct {
	file     string
	problems inventory.Problems
	// places are where settings come from, by their YAML path.
	places map[string]inventory.Problem
	// warnings are what is right and probably not meant.
	warnings inventory.Problems
	// badInventory says that something is wrong in the section inventory, unknownAtTop that a key at the top is not known.
	badInventory, unknownAtTop bool
	// hasInterface says that the file gives an interface, be it a wrong one.
	hasInterface bool
	// unsure says that the list of classes is not what was meant, so that what refers to it cannot be checked.
	unsure bool
}

func (d *decoder) place(n *node) inventory.Problem {
	return inventory.Problem{File: d.file, Line: n.line, Column: n.column}
}

// add reports something wrong at n.
func (d *decoder) add(n *node, remedy, format string, args ...any) {
	d.addAt(d.place(n), remedy, format, args...)
}

func (d *decoder) addAt(place inventory.Problem, remedy, format string, args ...any) {
	place.Message, place.Remedy = readable(fmt.Sprintf(format, args...)), readable(remedy)
	d.problems = append(d.problems, place)
}

// wrong reports an error of a value at n. What its text says behind a semicolon is what to do.
func (d *decoder) wrong(n *node, what string, err error) {
	message, remedy, _ := strings.Cut(err.Error(), "; ")
	d.add(n, remedy, "%s: %s", what, message)
}

// readable is a message as one line of a length that people read, whatever was written in the file: the middle is left out, and
// what would move a terminal's cursor is marked.
func readable(s string) string {
	const start, end = 300, 200
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
	if len(s) <= start+end {
		return s
	}
	return strings.ToValidUTF8(s[:start], "") + " ... " + strings.ToValidUTF8(s[len(s)-end:], "")
}

// sorted are the problems in the order of their places. What several aliases brought up at their anchor is told once.
func (d *decoder) sorted() inventory.Problems {
	slices.SortStableFunc(d.problems, func(a, b inventory.Problem) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	told := map[inventory.Problem]bool{}
	return slices.DeleteFunc(d.problems, func(p inventory.Problem) bool {
		before := told[p]
		told[p] = true
		return before
	})
}

// nodeKey is the key of this node's name.
const nodeKey = "node"

// override applies the flags.
func (d *decoder) override(o Overrides, c *Config) {
	for _, s := range settings() {
		values, ok := o.given[s.Flag]
		if !ok {
			continue
		}
		place := inventory.Problem{File: "--" + s.Flag}
		d.places[s.YAML] = place
		if err := s.set(c, values); err != nil {
			message, remedy, _ := strings.Cut(err.Error(), "; ")
			d.addAt(place, remedy, "%s", message)
			continue
		}
		switch s.YAML {
		case linkRateKey:
			d.bytesMeant(place, s.YAML, values[0])
		case nodeKey:
			c.NodeByFlag = c.Node != ""
		}
	}
}

// field is a key that a mapping may have.
type field struct {
	key  string
	read func(v *node)
}

// mapping reads a mapping by its fields; prefix stands before its keys in messages. It tells which keys were there, also those
// with an empty value, which is as if they were left out.
func (d *decoder) mapping(n *node, prefix string, fields []field) map[string]bool {
	seen := map[string]bool{}
	d.entries(n, strings.TrimSuffix(prefix, "."), func(key, value *node) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == key.text })
		if i < 0 {
			d.unknownKey(key, prefix, fields)
			return
		}
		seen[key.text] = true
		if value.kind != nullNode && value.kind != badNode {
			fields[i].read(value)
		}
	})
	return seen
}

func (d *decoder) unknownKey(key *node, prefix string, fields []field) {
	var known []string
	for _, f := range fields {
		known = append(known, f.key)
	}
	remedy := didYouMean(key.text, known)
	for _, s := range settings() {
		section, name, nested := strings.Cut(s.YAML, ".")
		if !nested {
			section, name = "", section
		}
		if name == fold(key.text) && section+"." != prefix && (section != "" || prefix != "") {
			remedy = "did you mean " + s.YAML + "?"
			if section == "" {
				remedy = "did you mean " + s.YAML + " at the top?"
			}
		}
	}
	where := ""
	d.unknownAtTop = d.unknownAtTop || prefix == ""
	if prefix != "" {
		where = " in " + strings.TrimRight(prefix, ".: ")
	}
	d.add(key, remedy, "unknown key %q%s", key.text, where)
}

// entries calls read with each key and value of a mapping, own keys before merged ones, none twice. A key given twice is a
// problem.
func (d *decoder) entries(n *node, what string, read func(key, value *node)) {
	if n.kind != mappingNode {
		if n.kind != badNode {
			if what == "" {
				what = "the file"
			}
			d.add(n, "write key: value lines, or {key: value}", "%s is %s, not a mapping of keys to values", what, n.what())
		}
		return
	}
	first := map[string]*node{}
	for _, p := range n.pairs {
		if p.merged {
			continue
		}
		if before, twice := first[p.key.text]; twice {
			d.add(p.key, "keep one of the two", "key %q is given twice, first in line %d", p.key.text, before.line)
			continue
		}
		first[p.key.text] = p.key
		read(p.key, p.value)
	}
	for _, p := range n.pairs {
		if _, known := first[p.key.text]; p.merged && !known {
			first[p.key.text] = p.key
			read(p.key, p.value)
		}
	}
}

// scalar is the text of a single value.
func (d *decoder) scalar(n *node, what string) (string, bool) {
	if n.isScalar() {
		return strings.TrimSpace(n.text), true
	}
	if n.kind != badNode {
		d.add(n, "write one value behind the colon", "%s is %s, not a single value", what, n.what())
	}
	return "", false
}

// list is a list, or a single value that stands for a list of one.
func (d *decoder) list(n *node) []*node {
	switch n.kind {
	case badNode:
		return nil
	case sequenceNode:
		return n.items
	}
	return []*node{n}
}

// config reads the top of the file.
func (d *decoder) config(n *node, c *Config) {
	sections := map[string][]field{"": nil}
	var order []string
	for _, s := range settings() {
		section, key, nested := strings.Cut(s.YAML, ".")
		if !nested {
			section, key = "", s.YAML
		} else if _, known := sections[section]; !known {
			order = append(order, section)
		}
		sections[section] = append(sections[section], field{key, func(v *node) { d.setting(s, v, c) }})
	}
	sections["inventory"] = append(sections["inventory"], field{"fields", func(v *node) { d.fields(v, &c.Source.Fields) }})
	top := append(sections[""],
		field{"classes", func(v *node) { d.classes(v, c) }},
		field{"rules", func(v *node) { d.rules(v, c) }})
	for _, name := range order {
		top = append(top, field{name, func(v *node) {
			before := len(d.problems)
			d.mapping(v, name+".", sections[name])
			d.badInventory = d.badInventory || name == "inventory" && len(d.problems) > before
		}})
	}
	seen := d.mapping(n, "", top)
	d.hasInterface = n.kind != mappingNode
	for _, p := range n.pairs {
		d.hasInterface = d.hasInterface || p.key.text == "interface" && p.value.kind != nullNode && p.value.text != ""
		if key := p.key.text; seen[key] && p.value.kind == nullNode && (key == "classes" || key == "rules") {
			d.add(p.key, "leave the key out for the packaged ones", "%s is empty", key)
		}
	}
}

// setting reads one setting.
func (d *decoder) setting(s setting, n *node, c *Config) {
	var values []string
	nodes := []*node{n}
	if s.Kind == Paths {
		nodes = d.list(n)
	}
	for _, v := range nodes {
		value, ok := d.scalar(v, s.YAML)
		if !ok {
			return
		}
		if (s.Kind == Path || s.Kind == Paths) && value != "" && !filepath.IsAbs(value) {
			value = relativeTo(d.file, value, s.Kind == Paths)
		}
		values = append(values, value)
	}
	d.places[s.YAML] = d.place(n)
	if err := s.set(c, values); err != nil {
		d.wrong(n, s.YAML, err)
	} else if s.YAML == linkRateKey {
		d.bytesMeant(d.place(n), s.YAML, values[0])
	}
}

// relativeTo is path seen from the folder of file. In a glob pattern the folder itself is to be taken literally.
func relativeTo(file, path string, glob bool) string {
	folder := filepath.Dir(file)
	if glob {
		folder = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(folder)
	}
	return filepath.Join(folder, path)
}
