package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bulkshaper/inventory"
	"bulkshaper/inventory/bound"
	"bulkshaper/shaper/tc"
)

// FuzzConfig holds what is true of every file: either problems or a config that keeps its promises, the same each time.
//
// PROMISES.md: Any bytes are in the files, in flags or in what the kernel answers
func FuzzConfig(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, "reference.yaml") {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var c *Config
		var err error
		bound.Check(t, len(data), memoryPerByte, func() { c, err = Parse("c.yaml", data, Overrides{}) })
		again, err2 := Parse("c.yaml", data, Overrides{})
		if d := cmp.Diff(c, again, exact()); d != "" {
			t.Errorf("read twice: %s", d)
		}
		if err != nil {
			var ps inventory.Problems
			if !errors.As(err, &ps) || len(ps) == 0 || err2 == nil || err.Error() != err2.Error() {
				t.Fatalf("got %T %v, then %v", err, err, err2)
			}
			for _, p := range ps {
				checkProblem(t, p)
			}
			return
		}
		holds(t, c)
		for _, backward := range []bool{false, true} {
			text := written(c, backward)
			again, err := Parse("c.yaml", []byte(text), Overrides{})
			if err != nil {
				t.Fatalf("what was read is refused when it is written: %v\n%s", err, text)
			}
			if d := cmp.Diff(c, again, exact()); d != "" {
				t.Fatalf("written and read again (-first +second): %s\n%s", d, text)
			}
		}
	})
}

// memoryPerByte is what a config may take from the heap for each byte of it: the YAML library takes some 2 KiB for each token.
const memoryPerByte = 20_000

// longestMessage bounds what one problem says, whatever was written.
const longestMessage = 600

// checkProblem wants a problem to say where, what and what to do, in a line that people can read.
func checkProblem(t *testing.T, p inventory.Problem) {
	t.Helper()
	whole := strings.HasPrefix(p.Message, "is ") || strings.HasPrefix(p.Message, "its aliases ") || p.Message == "no interface is given" ||
		strings.HasPrefix(p.Message, "default_class: ") || strings.HasPrefix(p.Message, "the packaged rules ") || strings.HasPrefix(p.Message, "packaged rule ")
	switch {
	case p.Message == "" || p.File != "c.yaml" || p.Line == 0 && !whole || p.Line > 0 && p.Column == 0:
		t.Errorf("%+v has no message or place", p)
	case p.Remedy == "":
		t.Errorf("%q has no remedy", p)
	case len(p.Message) > longestMessage || len(p.Remedy) > longestMessage:
		t.Errorf("a problem of %d and %d bytes: %.300q", len(p.Message), len(p.Remedy), p)
	case strings.ContainsFunc(p.String(), func(r rune) bool { return r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 }):
		t.Errorf("a problem with control characters: %q", p)
	}
}

// written is c as a file with every key, in the order of the manual or backwards.
func written(c *Config, backward bool) string {
	entry := func(key string, value any) string { return fmt.Sprintf("%q: %v", key, value) }
	mapping := func(entries ...string) string {
		entries = slices.DeleteFunc(entries, func(e string) bool { return e == "" })
		if backward {
			slices.Reverse(entries)
		}
		return "{" + strings.Join(entries, ", ") + "}"
	}
	list := func(key string, words []string) string {
		if words == nil {
			return ""
		}
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = quote(w)
		}
		return entry(key, "["+strings.Join(quoted, ", ")+"]")
	}
	match := func(m Match) string {
		var addresses []string
		for _, p := range m.Address {
			addresses = append(addresses, p.String())
		}
		return mapping(list("role", m.Role), list("cabinet", m.Cabinet), list("datacenter", m.Datacenter), list("server", m.Server), list("address", addresses))
	}
	rate := func(key string, r Rate) string {
		switch {
		case r.IsZero():
			return ""
		case r.Share == nil:
			return entry(key, quote(r.String()))
		}
		s := r.Share
		entries := []string{entry("of", quote(s.Of.String())), entry("use", quote(fractionPercent(s.Use))), entry("among", match(s.Among))}
		for name, v := range map[string]tc.BitRate{"min": s.Min, "max": s.Max} {
			if v != 0 {
				entries = append(entries, entry(name, quote(v.String())))
			}
		}
		return entry(key, mapping(entries...))
	}
	number := func(key string, v uint64) string {
		if v == 0 {
			return ""
		}
		return entry(key, v)
	}
	var top, classes, rules []string
	sections := map[string][]string{}
	for _, s := range settings() {
		value := quote(s.get(c))
		if s.Kind == Paths {
			value = strings.TrimPrefix(list("x", c.Source.Servers), `"x": `)
		}
		if s.YAML == "ack_class" {
			continue
		}
		section, key, nested := strings.Cut(s.YAML, ".")
		if !nested {
			top = append(top, entry(section, value))
		} else {
			sections[section] = append(sections[section], entry(key, value))
		}
	}
	f := c.Source.Fields
	sections["inventory"] = append(sections["inventory"], entry("fields", mapping(list("name", f.Name), list("names", f.Names), list("addresses", f.Addresses),
		list("prefixes", f.Prefixes), list("cabinet", f.Cabinet), list("datacenter", f.Datacenter), list("status", f.Status))))
	for name, entries := range sections {
		top = append(top, entry(name, mapping(entries...)))
	}
	for _, class := range c.Classes {
		entries := []string{entry("id", quote(fmt.Sprintf("%x", class.ID))), rate("rate", class.Rate), rate("ceil", class.Ceil), number("prio", uint64(class.Prio)),
			number("burst", uint64(class.Burst)), number("cburst", uint64(class.Cburst)), number("quantum", uint64(class.Quantum)),
			entry("leaf", mapping(entry("kind", class.Leaf.Kind), number("limit", uint64(class.Leaf.Limit))))}
		if class.Parent != "" {
			entries = append(entries, entry("parent", quote(class.Parent)))
		}
		classes = append(classes, entry(class.Name, mapping(entries...)))
	}
	for _, r := range c.Rules { // the first that matches wins: their order stays
		rules = append(rules, mapping(entry("name", quote(r.Name)), entry("match", match(r.Match)), entry("class", quote(r.Class))))
	}
	return mapping(append(top, entry("classes", mapping(classes...)), entry("rules", "["+strings.Join(rules, ",\n ")+"]"))...) + "\n"
}

// quote is a YAML string in double quotes.
func quote(s string) string {
	b, _ := json.Marshal(s) // JSON's strings are YAML's; one always can be made
	return string(b)
}

// holds checks what the rest of the program relies on.
func holds(t *testing.T, c *Config) {
	t.Helper()
	leaf := func(name string) bool { return c.class(name) != nil && !c.IsInner(name) }
	if c.Interface == "" || len(c.Classes) == 0 || !leaf(c.DefaultClass) || c.Layout != "list" && c.Layout != "hash" {
		t.Errorf("%+v", c)
	}
	if !slices.IsSortedFunc(c.Classes, func(a, b Class) int { return int(a.ID) - int(b.ID) }) {
		t.Error("classes are not sorted by id")
	}
	for i, class := range c.Classes {
		rate, ok := class.Rate.Of(1e9)
		switch {
		case tc.ReservedMinor(class.ID), i > 0 && c.Classes[i-1].ID == class.ID, class.Rate.IsZero(), class.Prio > 7, class.Leaf.Kind == "":
			t.Errorf("%+v", class)
		case ok && rate != rate.WholeBytes():
			t.Errorf("class %s: %d is not whole bytes", class.Name, rate)
		case class.Parent != "" && !c.IsInner(class.Parent):
			t.Errorf("class %s has no parent", class.Name)
		}
		if depth, cyclic := c.depth(class); cyclic || depth > maxDepth {
			t.Errorf("class %s is too deep", class.Name)
		}
		if s := class.Rate.Share; s != nil && (s.Of == 0 || s.Use <= 0 || s.Use > 1 || s.Among.IsZero() || s.Among.Address != nil) {
			t.Errorf("class %s: %+v", class.Name, s)
		}
	}
	for _, rule := range c.Rules {
		if rule.Name == "" || !leaf(rule.Class) || rule.Match.IsZero() {
			t.Errorf("%+v", rule)
		}
		for _, p := range rule.Match.Address {
			if p != p.Masked() || p.Addr().Is4In6() {
				t.Errorf("rule %s: %s", rule.Name, p)
			}
		}
	}
}

// FuzzRate reads a rate, prints it and reads it again.
//
// PROMISES.md: Any bytes are in the files, in flags or in what the kernel answers
func FuzzRate(f *testing.F) {
	for _, s := range []string{"819200kbit", "1.5gbit", "100mbps", "80%", "33.3%", "100", "0%", "1kibit", "%", "1e3bit", "100 %"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRate(s)
		if err != nil {
			if err.Error() == "" || !r.IsZero() {
				t.Errorf("%q: %v, %v", s, r, err)
			}
			return
		}
		again, err := ParseRate(r.String())
		if err != nil || again != r {
			t.Errorf("%q is %s, which is read as %v, %v", s, r, again, err)
		}
		if rate, ok := r.Of(10e9); !ok || rate != rate.WholeBytes() || r.Percent != 0 && rate > 10e9 {
			t.Errorf("%q of 10gbit is %d", s, rate)
		}
	})
}
