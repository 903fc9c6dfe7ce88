package inventory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

// tree is a JSON value with the order of its members.
type tree struct {
	raw     string // of what is neither object nor list
	object  bool
	keys    []string
	members []tree
}

// readTree reads JSON by another decoder than the one that is tested.
func readTree(t *testing.T, data []byte) tree {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	dec.UseNumber()
	v, err := nextTree(dec)
	if err != nil {
		t.Fatalf("%q was accepted, and is not JSON: %v", data, err)
	}
	return v
}

func nextTree(dec *json.Decoder) (tree, error) {
	token, err := dec.Token()
	if err != nil {
		return tree{}, err
	}
	delim, ok := token.(json.Delim)
	if !ok {
		raw, err := json.Marshal(token)
		return tree{raw: string(raw)}, err
	}
	v := tree{object: delim == '{'}
	for dec.More() {
		if v.object {
			key, err := dec.Token()
			if err != nil {
				return v, err
			}
			v.keys = append(v.keys, key.(string))
		}
		member, err := nextTree(dec)
		if err != nil {
			return v, err
		}
		v.members = append(v.members, member)
	}
	_, err = dec.Token()
	return v, err
}

// reversed is v as text with the members of all objects in reverse, and, where lists says so, of all lists.
func (v tree) reversed(lists bool) string {
	if v.raw != "" {
		return v.raw
	}
	var parts []string
	for i, m := range v.members {
		part := m.reversed(lists)
		if v.object {
			key, _ := json.Marshal(v.keys[i]) // a string always can be
			part = string(key) + ": " + part
		}
		parts = append(parts, part)
	}
	if v.object || lists {
		slices.Reverse(parts)
	}
	if v.object {
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// checkOrder: an inventory does not depend on the order of files, of the keys in them, and of the lists in roles.json. In a server's
// file the first of several names is the name, so its lists stay, and so does all where a path of the config may look at the order.
func checkOrder(t *testing.T, inv *Inventory, roles File, servers []File, fields Fields) {
	t.Helper()
	roles.Data = []byte(readTree(t, roles.Data).reversed(true))
	servers = slices.Clone(servers)
	slices.Reverse(servers)
	for i, s := range servers {
		if fields.isDefault() {
			servers[i].Data = []byte(readTree(t, s.Data).reversed(false))
		}
	}
	again, err := Parse(roles, servers, fields)
	if err != nil {
		t.Fatalf("accepted, but not in another order: %v\n%s", err, roles.Data)
	}
	sameServers(t, inv, again)
}

// checkWritten writes an inventory out in the plainest form and reads it again.
func checkWritten(t *testing.T, inv *Inventory) {
	t.Helper()
	mapping := map[string][]string{}
	var names []string
	var files []File
	for _, s := range inv.Servers {
		names = append(names, s.Name)
		for _, role := range s.Roles {
			mapping[role] = append(mapping[role], s.Name)
		}
		files = append(files, File{Path: s.File, Data: marshal(t, map[string]any{"name": s.Name, "names": s.Names, "ip_addresses": s.Addresses,
			"prefixes": s.Prefixes, "cabinet": s.Cabinet, "datacenter": s.Datacenter})})
	}
	roles := File{Path: "roles.json", Data: marshal(t, map[string]any{"servers": names, "roles": inv.Roles, "mapping": mapping})}
	again, err := Parse(roles, files, Fields{})
	if err != nil {
		if strings.Contains(err.Error(), "read both ways") || strings.Contains(err.Error(), "runs both ways") {
			return // roles that are called like servers, of which the text that was read had told the direction otherwise
		}
		t.Fatalf("what was read is refused when it is written: %v\n%s", err, roles.Data)
	}
	sameServers(t, inv, again)
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func sameServers(t *testing.T, a, b *Inventory) {
	t.Helper()
	text := func(inv *Inventory) string {
		var b strings.Builder
		for _, s := range inv.Servers {
			fmt.Fprintf(&b, "%+q\n", *s)
		}
		return b.String() + fmt.Sprintf("%q", inv.Roles)
	}
	if d := cmp.Diff(text(a), text(b)); d != "" {
		t.Fatalf("servers differ (-first +second):\n%s", d)
	}
}

// checkMatches holds what a path finds against a plain walk, where the path has nothing but keys, wildcards and "#".
func checkMatches(t *testing.T, path string, data []byte) {
	t.Helper()
	parts := strings.Split(path, ".")
	for i, part := range parts {
		if part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-*?#") != "" ||
			strings.Contains(part, "#") && (part != "#" || i == len(parts)-1) {
			return
		}
	}
	doc, problem := openDocument("a.json", data)
	if problem != nil || len(checkSyntax(doc, func(int, string) bool { return true })) > 0 {
		return
	}
	if gjson.Parse(doc.text).Type != gjson.JSON {
		return
	}
	var got, want []string
	for _, m := range compilePath(path).find(doc) {
		got = append(got, compact(t, m.value.Raw))
	}
	for _, v := range walk([]tree{readTree(t, data)}, parts) {
		if v.raw != "null" {
			want = append(want, compact(t, v.text()))
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("path %q on %s (-want +got):\n%s", path, data, d)
	}
}

// compact is JSON with every string and number written the one way that encoding/json has.
func compact(t *testing.T, raw string) string {
	t.Helper()
	return readTree(t, []byte(raw)).text()
}

func (v tree) text() string {
	if v.raw != "" {
		return v.raw
	}
	var parts []string
	for i, m := range v.members {
		part := m.text()
		if v.object {
			key, _ := json.Marshal(v.keys[i])
			part = string(key) + ":" + part
		}
		parts = append(parts, part)
	}
	if v.object {
		return "{" + strings.Join(parts, ",") + "}"
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// walk is every value under the parts of a path: a key is that member, a wildcard every member that it matches, "#" and "*" every
// element of a list.
func walk(values []tree, parts []string) []tree {
	for _, part := range parts {
		var next []tree
		for _, v := range values {
			for i, m := range v.members {
				switch {
				case v.object && part != "#" && slowWildcard(part, v.keys[i], map[[2]int]bool{}),
					!v.object && (part == "#" || part == "*"):
					next = append(next, m)
				}
			}
		}
		values = next
	}
	return values
}

// makeTree makes files, and what folders they need.
func makeTree(f testing.TB, root string, files ...string) {
	f.Helper()
	for _, name := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			f.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("{}"), 0o644); err != nil {
			f.Fatal(err)
		}
	}
}

// checkFound wants what a pattern found to be there, once, and nothing hidden or litter; nothing found is a problem.
func checkFound(t *testing.T, pattern string, found []candidate, problems Problems) {
	t.Helper()
	if len(found) == 0 && len(problems) == 0 {
		t.Fatalf("%q finds nothing and no problem", pattern)
	}
	for i, c := range found {
		name := filepath.Base(c.path)
		if !strings.HasSuffix(name, ".json") || strings.HasPrefix(name, ".") {
			t.Fatalf("%q finds %s", pattern, c)
		}
		if _, err := os.Lstat(c.path); err != nil && !c.meant {
			t.Fatalf("%q finds %s: %v", pattern, c, err)
		}
		if slices.ContainsFunc(found[:i], func(d candidate) bool { return d.path == c.path }) {
			t.Fatalf("%q finds %s twice", pattern, c)
		}
	}
	for _, p := range problems {
		if p.Message == "" || p.Remedy == "" {
			t.Fatalf("%q: problem %+v", pattern, p)
		}
	}
}
