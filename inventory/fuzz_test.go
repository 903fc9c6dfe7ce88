package inventory

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"bulkshaper/inventory/bound"
)

// memoryPerByte is what reading may take from the heap for each byte of a file, about twice of what the worst shapes take.
const memoryPerByte = 3000

// longestMessage bounds what one problem says, whatever was written: it goes to logs, to the status and to a terminal.
const longestMessage = 600

// checkOutcome holds what is true of any text of roles.json and of server files: an inventory or problems, the same again for the same
// input, at a bounded price; of an inventory, that it means the same when the JSON has another order and when it is written out again.
func checkOutcome(t *testing.T, roles File, servers []File, fields Fields) {
	size := len(roles.Data)
	for _, s := range servers {
		size += len(s.Data)
	}
	var inv *Inventory
	var err error
	bound.Check(t, size, memoryPerByte, func() { inv, err = Parse(roles, servers, fields) })
	if first, second := outcomeOf(inv, err), outcomeOf(Parse(roles, servers, fields)); first != second {
		t.Fatalf("the same input gives\n%s\nand\n%s", first, second)
	}
	if err != nil {
		if inv != nil {
			t.Fatalf("inventory %v and error %v", inv, err)
		}
		checkProblems(t, err, roles, servers, fields)
		return
	}
	for _, w := range inv.Warnings {
		checkText(t, w)
	}
	checkServers(t, inv)
	checkOrder(t, inv, roles, servers, fields)
	checkWritten(t, inv)
}

// checkProblems wants every problem to say where, what and what to do.
func checkProblems(t *testing.T, err error, roles File, servers []File, fields Fields) {
	t.Helper()
	var problems Problems
	if !errors.As(err, &problems) || len(problems) == 0 || len(problems) > maxProblems+1 {
		t.Fatalf("error %T %v", err, err)
	}
	files := []string{roles.Path}
	for _, s := range servers {
		files = append(files, s.Path)
	}
	for i, p := range problems {
		checkText(t, p)
		switch {
		case strings.Contains(p.Message, " more problems"): // behind the last that is told
			continue
		case p.Remedy == "":
			t.Fatalf("%q has no remedy", p)
		case !slices.Contains(files, p.File) && !strings.HasPrefix(p.Message, "no live server"):
			t.Fatalf("%q is of no file", p)
		case (p.Line == 0) != (p.Column == 0):
			t.Fatalf("%q has a line or a column alone", p)
		}
		if p.Line == 0 && fields.isDefault() && !ofWholeFile(p.Message) {
			t.Fatalf("%q has no place", p)
		}
		if p.Line > 0 && i < 10 { // each takes a pass over the file
			checkPlace(t, p, roles, servers)
		}
	}
}

func (f Fields) isDefault() bool {
	return f.Name == nil && f.Names == nil && f.Addresses == nil && f.Prefixes == nil && f.Cabinet == nil && f.Datacenter == nil && f.Status == nil
}

// ofWholeFile are the problems that stand at no place in their file.
func ofWholeFile(message string) bool {
	for _, what := range []string{"file is empty", "file is in UTF-", "file has ", "the JSON has no name", "server name ", "no live server"} {
		if strings.HasPrefix(message, what) {
			return true
		}
	}
	return false
}

// checkText wants one line of a length that people read, without what would move a terminal's cursor.
func checkText(t *testing.T, p Problem) {
	t.Helper()
	text := p.String()
	if p.Message == "" || len(p.Message) > longestMessage || len(p.Remedy) > longestMessage {
		t.Fatalf("a problem of %d and %d bytes: %.300q", len(p.Message), len(p.Remedy), text)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 }) {
		t.Fatalf("a problem with control characters: %q", text)
	}
}

// checkPlace wants the line and the column to be in the file.
func checkPlace(t *testing.T, p Problem, roles File, servers []File) {
	t.Helper()
	for _, f := range append(slices.Clone(servers), roles) {
		if f.Path != p.File {
			continue
		}
		lines := strings.Split(strings.TrimPrefix(string(f.Data), "\xef\xbb\xbf"), "\n")
		if p.Line > len(lines) || p.Column > len([]rune(lines[p.Line-1]))+1 {
			t.Fatalf("%q is outside of the file", p)
		}
	}
}

// checkServers wants what the rest of the program relies on.
func checkServers(t *testing.T, inv *Inventory) {
	t.Helper()
	if len(inv.Servers) == 0 {
		t.Fatal("an inventory without servers")
	}
	for _, s := range inv.Servers {
		if got, ok := inv.Server(s.Name); !ok || got != s {
			t.Fatalf("server %q is not found by its name", s.Name)
		}
		if len(s.Cabinet) > maxWord || len(s.Datacenter) > maxWord || len(s.Name) > 253 {
			t.Fatalf("words of %d, %d and %d bytes", len(s.Cabinet), len(s.Datacenter), len(s.Name))
		}
		for i, a := range s.Addresses {
			if a.Is4In6() || a.IsUnspecified() || a.Zone() != "" || i > 0 && s.Addresses[i-1].Compare(a) >= 0 {
				t.Fatalf("addresses %v", s.Addresses)
			}
		}
		for i, p := range s.Prefixes {
			if p != p.Masked() || i > 0 && s.Prefixes[i-1].Compare(p) >= 0 {
				t.Fatalf("prefixes %v", s.Prefixes)
			}
		}
	}
}

// PROMISES.md: Any bytes are in the files, in flags or in what the kernel answers
func FuzzRoles(f *testing.F) {
	for _, seed := range []string{shopRoles, `{"servers": [], "roles": [], "mapping": {"a": "b"}}`, `{"mapping": {"hadoop01": ["app", 1, {}]}, "roles": ["app", null], "servers": "x"}`,
		`[]`, `{"servers": ["a"], "servers": ["b"]}`, "\xef\xbb\xbf{}", `{"roles": ["\ud800"]}`, `{"servers": ["hadoop01"], "roles": ["app", "db"], "mapping": {"app": ["app01"], "db": null}, "x": [{}]}`,
		`{"servers": [], "roles": ["app"], "mapping": {"APP01.nyc1.": "app", "hadoop01": ["app"]}}`} {
		f.Add([]byte(seed))
	}
	servers := []File{{Path: "hadoop01.json", Data: []byte(`{"ip": "10.0.0.1"}`)}, {Path: "a.json", Data: []byte(`{"name": "app01.nyc1", "ip": "10.0.0.2"}`)},
		{Path: "b.json", Data: []byte(`{"name": "app01.sjc1", "status": "retired"}`)}}
	f.Fuzz(func(t *testing.T, data []byte) {
		checkOutcome(t, File{Path: "roles.json", Data: data}, servers, Fields{})
	})
}

// PROMISES.md: Any bytes are in the files, in flags or in what the kernel answers
func FuzzServer(f *testing.F) {
	for _, seed := range []string{`{"name": "a", "ip": "10.0.0.1", "cabinet": 12, "prefixes": ["10.1.0.0/16"]}`, `{"interfaces": {"a": {"ip": ["10.0.0.1", 7]}}, "status": {"value": "retired"}}`,
		`{"names": [["x", ["y."]]], "rack": 1e3, "Cabinet": "z"}`, strings.Repeat("[", 100), `{"addresses": ["::ffff:1.2.3.4/120", "fe80::1%1"]}`, "\xff\xfe{\x00", `{"a": {"b": 1, "b": 2}}`,
		`{"dc": "nyc1", "location": {"rack": 7, "datacenter": "x"}, "fqdn": "h.example.net", "ipv6": "2001:db8::1", "podCIDRs": ["2001:db8:1::/64", "10.2.0.0/16"]}`} {
		f.Add([]byte(seed))
	}
	roles := File{Path: "roles.json", Data: []byte(`{"servers": ["a"], "roles": ["app"], "mapping": {"app": ["a"]}}`)}
	f.Fuzz(func(t *testing.T, data []byte) {
		checkOutcome(t, roles, []File{{Path: "a.json", Data: data}, {Path: "b.json", Data: []byte(`{"ip": "10.0.0.2"}`)}}, Fields{})
	})
}

// FuzzFields gives any path, as the config may, on any file. Of a path of plain keys and wildcards every match is found, in the order of
// the text.
//
// PROMISES.md: Any bytes are in the files, in flags or in what the kernel answers
func FuzzFields(f *testing.F) {
	for _, seed := range []string{"interfaces.*.ip", "nics.#(role==\"data\")#.addr.*.v", "a|b", "@values.#.ip", `a\.b`, "#", "*", "a.#.b.*", "!true", "{a,b}", "[a.0]", `x\`, "a..", "i*.?.ip", "a.#.b", "nics.*.addr.x*"} {
		f.Add(seed, []byte(`{"interfaces": {"a": {"ip": "10.0.0.1"}}, "nics": [{"role": "data", "addr": {"x": {"v": "10.0.0.2"}}}], "a": [{"b": {"c": 1}}]}`))
	}
	roles := File{Path: "roles.json", Data: []byte(`{"servers": ["a"], "roles": ["app"], "mapping": {"app": ["a"]}}`)}
	f.Fuzz(func(t *testing.T, path string, data []byte) {
		checkMatches(t, path, data)
		paths := []string{path}
		checkOutcome(t, roles, []File{{Path: "a.json", Data: data}}, Fields{Name: paths, Names: paths, Addresses: paths, Prefixes: paths, Cabinet: paths, Datacenter: paths, Status: paths})
	})
}

// FuzzWildcard holds the quick matcher against one that tries everything.
//
// PROMISES.md: Any bytes are in the files, in flags or in what the kernel answers
func FuzzWildcard(f *testing.F) {
	for _, seed := range [][2]string{{"*", ""}, {"a*b*c", "axxbxc"}, {`\*?`, "*x"}, {"**", "abc"}, {"a?", "a"}, {strings.Repeat("*a", 30), strings.Repeat("a", 40) + "b"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, s string) {
		var got bool
		bound.Check(t, len(pattern)+len(s), 0, func() { got = wildcard(pattern, s) })
		if len(pattern) > 200 || len(s) > 200 {
			return
		}
		if want := slowWildcard(pattern, s, map[[2]int]bool{}); got != want {
			t.Fatalf("wildcard(%q, %q) is %v, want %v", pattern, s, got, want)
		}
	})
}

// slowWildcard tries every way in which pattern may match s; tried has the rests that cannot.
func slowWildcard(pattern, s string, tried map[[2]int]bool) bool {
	at := [2]int{len(pattern), len(s)}
	if pattern == "" || tried[at] {
		return pattern == "" && s == ""
	}
	tried[at] = true
	switch pattern[0] {
	case '*':
		return slowWildcard(pattern[1:], s, tried) || s != "" && slowWildcard(pattern, s[1:], tried)
	case '?':
		return s != "" && slowWildcard(pattern[1:], s[1:], tried)
	case '\\':
		return len(pattern) > 1 && s != "" && pattern[1] == s[0] && slowWildcard(pattern[2:], s[1:], tried)
	}
	return s != "" && pattern[0] == s[0] && slowWildcard(pattern[1:], s[1:], tried)
}

// FuzzGlob gives any pattern for the folders of servers, in a tree of files: what a pattern names is found once, is there, and nothing
// that is hidden or litter is.
//
// PROMISES.md: Any bytes are in the files, in flags or in what the kernel answers
func FuzzGlob(f *testing.F) {
	for _, seed := range []string{"dc/*/jsons", "dc/nyc1/jsons", "*/*/*/*.json", "dc/[a-m]*/jsons/?.json", "", ".", "..", "dc/*/.hidden", "[", `dc/\*`, "dc//nyc1/./jsons/", "dc/nyc1/../*/jsons", "**"} {
		f.Add(seed)
	}
	root := f.TempDir()
	makeTree(f, root, "dc/nyc1/jsons/a.json", "dc/nyc1/jsons/.b.json", "dc/nyc1/jsons/c.json~", "dc/lon1/jsons/d.json", "dc/lon1/jsons/e.json/f", "dc/.hidden/jsons/g.json",
		"dc/[x]/jsons/h.json", "single.json")
	f.Fuzz(func(t *testing.T, pattern string) {
		if strings.Contains(pattern, "..") || len(pattern) > 2000 {
			return // the file system above the tree is not ours
		}
		l := &lister{}
		var found []candidate
		bound.Check(t, len(pattern), memoryPerByte, func() { found = l.find([]string{root + "/" + pattern}) })
		checkFound(t, root+"/"+pattern, found, l.problems)
	})
}

func (c candidate) String() string { return fmt.Sprintf("%s (meant %v)", c.path, c.meant) }
