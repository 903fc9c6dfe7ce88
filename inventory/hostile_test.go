package inventory

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bulkshaper/inventory/bound"
)

// fill repeats part, in which %d is a running number, up to n bytes.
func fill(n int, part string) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		if strings.Contains(part, "%d") {
			fmt.Fprintf(&b, part, i)
		} else {
			b.WriteString(part)
		}
	}
	return b.String()
}

// hostile are texts of about n bytes that would take a careless reader's time or memory. Those of roles begin with "roles".
func hostile(n int) map[string]string {
	return map[string]string{
		"open lists":            strings.Repeat("[", n),
		"open objects":          strings.Repeat(`{"a":`, n/5),
		"many keys":             "{" + fill(n, `"k%d":1,`) + `"z":1}`,
		"many keys twice":       `{"x":{` + fill(n, `"a":1,`) + `"z":1}}`,
		"many keys of a field":  "{" + fill(n, `"name":1,`) + `"z":1}`,
		"keys in two cases":     `{` + fill(n, `"Na%d":1,"nA%[1]d":1,`) + `"z":1}`,
		"one long key":          `{"` + strings.Repeat("k", n) + `":1}`,
		"one long name":         `{"name":"` + strings.Repeat("n", n) + `"}`,
		"one long cabinet":      `{"name":"a","ip":"10.0.0.1","cabinet":"` + strings.Repeat("c", n) + `"}`,
		"one long address":      `{"ip":"` + strings.Repeat("1", n) + `"}`,
		"escapes":               `{"name":"` + strings.Repeat(`\u0061`, n/6) + `"}`,
		"gigantic cabinet":      `{"name":"a","ip":"10.0.0.1","cabinet":` + strings.Repeat("7", n) + `}`,
		"gigantic exponent":     `{"cabinet":1e` + strings.Repeat("9", n) + `}`,
		"gigantic fraction":     `{"ip":0.` + strings.Repeat("0", n) + `1}`,
		"wrong addresses":       `{"addresses":[` + fill(n, `"x%d",`) + `"y"]}`,
		"nested lists of names": `{"names":[` + fill(n, `[["n%d"]],`) + `["y"]]}`,
		"many interfaces":       `{"interfaces":{` + fill(n, `"e%d":{"ip":7},`) + `"z":{}}}`,
		"interfaces in a list":  `{"interfaces":[` + fill(n, `{"ip":"10.0.0.1"},`) + `{}]}`,
		"blanks":                strings.Repeat(" ", n) + "x",
		"lines":                 "{" + strings.Repeat("\n", n) + `"ip":7,"name":8,"cabinet":true}`,
		"second values":         strings.Repeat("{}", n/2),
		"commas":                "[" + strings.Repeat(",", n),
		"NUL":                   "{" + strings.Repeat("\x00", n),
		"numbers":               "[" + strings.Repeat("1,", n/2) + "1]",
		"roles: long role":      `{"servers":[],"roles":[],"mapping":{"` + strings.Repeat("r", n) + `":["a"]}}`,
		"roles: declared":       `{"servers":["a"],"roles":["` + strings.Repeat("r", n) + `"],"mapping":{}}`,
		"roles: many roles":     `{"servers":["a"],"roles":[` + fill(n, `"r%d",`) + `"app"],"mapping":{}}`,
		"roles: many unknown":   `{"servers":["a"],"roles":["app"],"mapping":{"app":[` + fill(n, `"u%d",`) + `"a"]}}`,
		"roles: undeclared":     `{"servers":["a"],"roles":["app"],"mapping":{` + fill(n, `"u%d":["a"],`) + `"app":["a"]}}`,
		"roles: near misses":    `{"servers":["a"],"roles":[` + fill(n/2, `"role-%d",`) + `"app"],"mapping":{` + fill(n/2, `"rule-%d":["a"],`) + `"app":["a"]}}`,
		"roles: no lists":       `{"servers":[` + fill(n, `{"a":[]},`) + `"a"],"roles":["app"],"mapping":{}}`,
		"roles: one server":     `{"servers":["a"],"roles":["app"],"mapping":{"app":[` + fill(n, `"a",`) + `"a"]}}`,
	}
}

// TestHostileFiles reads each at the largest size that is read at all: within the bounds, and with messages that people can read.
//
// PROMISES.md: Any bytes are in the files, in flags or in what the kernel answers
func TestHostileFiles(t *testing.T) {
	size := hostileSize
	for name, text := range hostile(size) {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			roles := File{Path: "roles.json", Data: []byte(`{"servers": ["a"], "roles": ["app"], "mapping": {"app": ["a"]}}`)}
			server := File{Path: "a.json", Data: []byte(`{"name": "a", "ip": "10.0.0.1", "cabinet": "x"}`)}
			if strings.HasPrefix(name, "roles") {
				roles.Data = []byte(text)
			} else {
				server.Data = []byte(text)
			}
			var inv *Inventory
			var err error
			bound.Check(t, len(text), hostilePerByte, func() { inv, err = Parse(roles, []File{server}, Fields{}) })
			if err != nil {
				checkProblems(t, err, roles, []File{server}, Fields{})
				return
			}
			checkServers(t, inv)
			for _, w := range inv.Warnings {
				checkText(t, w)
			}
		})
	}
}

// TestManyProblemsAreBounded reads many files with many mistakes each. What is told is as before, what is kept is bounded.
//
// PROMISES.md: Any bytes are in the files, in flags or in what the kernel answers
func TestManyProblemsAreBounded(t *testing.T) {
	root := t.TempDir()
	const files = 300
	for i := range files {
		makeTree(t, root, fmt.Sprintf("jsons/s%d.json", i))
		text := fmt.Sprintf(`{"name": "s%d", "addresses": [%s7], "cabinet": "x"}`, i, strings.Repeat("7,", 800))
		if err := os.WriteFile(fmt.Sprintf("%s/jsons/s%d.json", root, i), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l := NewLoader(Source{Roles: filepath.Join(root, "roles.json"), Servers: []string{filepath.Join(root, "jsons")}})
	_, err := l.Load(t.Context())
	var problems Problems
	if !errors.As(err, &problems) || len(problems) != maxProblems+1 {
		t.Fatalf("%d problems: %.300v", len(problems), err)
	}
	kept := 0
	for _, k := range l.files {
		kept += len(k.record.problems)
	}
	if most := maxFound + files*5 + 4*maxFileProblems; kept > most || kept < maxFound {
		t.Errorf("%d problems are kept, want about %d", kept, maxFound)
	}
}
