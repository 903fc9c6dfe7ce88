package inventory

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawServer is the JSON of a server as a list of members, mostly without mistakes.
func drawServer(t *rapid.T) []string {
	address := rapid.SampledFrom([]string{`"10.0.0.1"`, `"10.0.0.2/24"`, `"::ffff:10.0.0.3"`, `"2001:db8::1"`, `"10.0.0.4"`, `"10.0.1.5"`, `"10.0.1.6"`, `"10.0.0.07"`, `null`, `""`})
	members := []string{}
	member := func(key string, value *rapid.Generator[string]) {
		if rapid.Bool().Draw(t, key+" there") {
			members = append(members, fmt.Sprintf("%q: %s", key, value.Draw(t, key)))
		}
	}
	list := func(of *rapid.Generator[string]) *rapid.Generator[string] {
		return rapid.Map(rapid.SliceOfN(of, 0, 3), func(l []string) string { return "[" + strings.Join(l, ", ") + "]" })
	}
	member("name", rapid.SampledFrom([]string{`"a"`, `"B.example.net"`, `"c."`, `"d.example.net"`, `"d.example.org"`, `7`}))
	member("names", list(rapid.SampledFrom([]string{`"a"`, `"e"`, `"f.example.net"`, `"F"`})))
	member("ip", address)
	member("addresses", list(address))
	member("cabinet", rapid.SampledFrom([]string{`12`, `"12"`, `"012"`, `"b1"`, `"B1"`, `null`, `""`, `true`}))
	member("prefixes", list(rapid.SampledFrom([]string{`"10.1.0.0/24"`, `"10.2.0.0/24"`, `"10.3.0.0/25"`, `"10.3.0.1/24"`})))
	member("status", rapid.SampledFrom([]string{`"active"`, `"retired"`, `"Offline"`}))
	return members
}

func drawRoles(t *rapid.T) []byte {
	name := rapid.SampledFrom([]string{"a", "b", "B.example.net", "c", "d", "s0", "S1", "s2", "monitoring", "ghost"})
	role := rapid.SampledFrom([]string{"hadoop_node", "app", "monitoring"})
	mapping := make(map[string][]string)
	byRole := rapid.Bool().Draw(t, "by role")
	for range rapid.IntRange(0, 4).Draw(t, "entries") {
		r, s := role.Draw(t, "role"), name.Draw(t, "server")
		if byRole {
			mapping[r] = append(mapping[r], s)
		} else {
			mapping[strings.ToLower(s)] = append(mapping[strings.ToLower(s)], r)
		}
	}
	var entries []string
	for key, values := range mapping {
		entries = append(entries, fmt.Sprintf(`%q: ["%s"]`, key, strings.Join(values, `", "`)))
	}
	slices.Sort(entries)
	servers := rapid.SliceOfN(name, 0, 6).Draw(t, "servers")
	quoted := make([]string, len(servers))
	for i, s := range servers {
		quoted[i] = fmt.Sprintf("%q", s)
	}
	return fmt.Appendf(nil, `{"servers": [%s], "roles": ["hadoop_node", "app", "monitoring"], "mapping": {%s}}`, strings.Join(quoted, ", "), strings.Join(entries, ", "))
}

// outcomeOf is all that a reading says, as text.
func outcomeOf(inv *Inventory, err error) string {
	if err != nil {
		return "problems:\n" + err.Error()
	}
	var b strings.Builder
	for _, s := range inv.Servers {
		fmt.Fprintf(&b, "%+v\n", *s)
	}
	fmt.Fprintf(&b, "roles %v\nwarnings:\n%s", inv.Roles, Problems(inv.Warnings).Error())
	return b.String()
}

// TestOrderNeverMatters shuffles files and what is in them. Whatever the input, there is an inventory or there are problems,
// each with its file and a remedy, and never both.
func TestOrderNeverMatters(t *testing.T) {
	valid := 0
	rapid.Check(t, func(t *rapid.T) {
		roles := File{Path: "roles.json", Data: drawRoles(t)}
		count := rapid.IntRange(1, 4).Draw(t, "files")
		members := make([][]string, count)
		files := make([]File, count)
		join := func(i int) File {
			return File{Path: fmt.Sprintf("s%d.json", i), Data: []byte("{" + strings.Join(members[i], ", ") + "}")}
		}
		for i := range files {
			members[i] = drawServer(t)
			files[i] = join(i)
		}
		seed := rapid.Int64().Draw(t, "seed")
		random := rand.New(rand.NewSource(seed))
		inv, err := Parse(roles, files, Fields{})
		first := outcomeOf(inv, err)
		var problems Problems
		switch {
		case err == nil:
			valid++
		case inv != nil || !errors.As(err, &problems) || len(problems) == 0:
			t.Fatalf("inventory %v and error %v", inv, err)
		}
		for _, p := range problems {
			if p.Remedy == "" || p.File == "" && len(inv.all()) > 0 {
				t.Fatalf("problem %+v has no file or no remedy", p)
			}
		}
		random.Shuffle(count, func(i, j int) { files[i], files[j] = files[j], files[i] })
		if diff := cmp.Diff(first, outcomeOf(Parse(roles, files, Fields{}))); diff != "" {
			t.Fatalf("files in another order differ (-first +shuffled):\n%s", diff)
		}
		if err != nil {
			return
		}
		for i := range members { // the places of warnings move with the members, what is read may not
			random.Shuffle(len(members[i]), func(a, b int) { members[i][a], members[i][b] = members[i][b], members[i][a] })
			files[i] = join(i)
		}
		other, err := Parse(roles, files, Fields{})
		if err != nil {
			t.Fatalf("members in another order: %v", err)
		}
		inv.Warnings, other.Warnings = nil, nil
		if !inv.Equal(other) || !other.Equal(inv) {
			t.Fatalf("members in another order differ (-first +shuffled):\n%s", cmp.Diff(outcomeOf(inv, nil), outcomeOf(other, nil)))
		}
	})
	if valid == 0 {
		t.Error("no drawn input was valid")
	}
}

func (inv *Inventory) all() []*Server {
	if inv == nil {
		return nil
	}
	return inv.Servers
}

// TestReloadIsLoad edits files at random. A loader that remembers must say what a new one says.
func TestReloadIsLoad(t *testing.T) {
	base := t.TempDir()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		root := filepath.Join(base, fmt.Sprint(run))
		defer os.RemoveAll(root)
		if err := os.MkdirAll(filepath.Join(root, "jsons"), 0o755); err != nil {
			t.Fatal(err)
		}
		write := func(name string, data []byte) {
			if err := os.WriteFile(filepath.Join(root, name), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		write("roles.json", drawRoles(t))
		source := Source{Roles: filepath.Join(root, "roles.json"), Servers: []string{filepath.Join(root, "jsons")}}
		l := NewLoader(source)
		if rapid.Bool().Draw(t, "aged") { // ctime is exact enough here for files not to be read again
			l.now = func() time.Time { return time.Now().Add(time.Hour) }
		}
		for range rapid.IntRange(1, 6).Draw(t, "edits") {
			name := fmt.Sprintf("jsons/s%d.json", rapid.IntRange(0, 3).Draw(t, "file"))
			switch rapid.SampledFrom([]string{"write", "write", "remove", "roles", "rename", "nothing"}).Draw(t, "edit") {
			case "write":
				write(name, []byte("{"+strings.Join(drawServer(t), ", ")+"}"))
			case "remove":
				_ = os.Remove(filepath.Join(root, name)) // may not be there
			case "rename":
				_ = os.Rename(filepath.Join(root, name), filepath.Join(root, "jsons/moved.json")) // may not be there
			case "roles":
				write("roles.json", drawRoles(t))
			}
			again := outcomeOf(l.Load(context.Background()))
			fresh := outcomeOf(NewLoader(source).Load(context.Background()))
			if diff := cmp.Diff(fresh, again); diff != "" {
				t.Fatalf("reading again differs (-new loader +old loader):\n%s", diff)
			}
		}
	})
}

// TestNearest holds the edit distance to its laws.
func TestNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-c]{0,6}`)
		a, b, c := word.Draw(t, "a"), word.Draw(t, "b"), word.Draw(t, "c")
		ab, ba, ac, cb := editDistance(a, b), editDistance(b, a), editDistance(a, c), editDistance(c, b)
		if ab != ba || (ab == 0) != (a == b) || ab > ac+cb || ab > max(len(a), len(b)) {
			t.Fatalf("distances of %q, %q, %q: %d %d %d %d", a, b, c, ab, ba, ac, cb)
		}
	})
	if got := nearest("hadop_node", []string{"app", "hadoop_node", "monitoring"}); got != "hadoop_node" {
		t.Errorf("nearest is %q", got)
	}
}
