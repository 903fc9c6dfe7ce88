package inventory

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestLoadChangedIsLoad edits files at random and follows each edit by the paths that events would name. Whatever is edited,
// LoadChanged says what a new loader says, or that it cannot tell.
func TestLoadChangedIsLoad(t *testing.T) {
	base := t.TempDir()
	run, followed, patched := 0, 0, 0
	edits := func(t *rapid.T) {
		run++
		root := filepath.Join(base, fmt.Sprint(run))
		defer os.RemoveAll(root)
		path := func(name string) string { return filepath.Join(root, name) }
		var paths []string
		write := func(name string, text string) {
			// As editors do: beside it, and renamed.
			paths = append(paths, path(name+"~"), path(name))
			if err := os.WriteFile(path(name+"~"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(path(name+"~"), path(name)); err != nil {
				t.Fatal(err)
			}
		}
		begins := map[int]string{} // all of a server's text but the cabinet
		moved := func(i int) string {
			return fmt.Sprintf("%s, \"cabinet\": %q}", begins[i], rapid.SampledFrom([]string{"b1", "b2", "12", "012", ""}).Draw(t, "cabinet"))
		}
		server := func(i int) string {
			begins[i] = fmt.Sprintf(`{"name": "s%d.%s", "ip": ["10.0.0.%d", "10.0.1.%d"], "prefixes": ["10.1.%d.0/24"], "status": %q`, i,
				rapid.SampledFrom([]string{"a", "a", "a", "b"}).Draw(t, "domain"), i, rapid.IntRange(1, 99).Draw(t, "second"), rapid.IntRange(1, 99).Draw(t, "prefix"),
				rapid.SampledFrom([]string{"live", "live", "live", "live", "retired"}).Draw(t, "status"))
			return moved(i)
		}
		folder := func(i int) string { return fmt.Sprintf("dc%d/jsons/s%d.json", i%2, i) }
		for i := range 2 {
			if err := os.MkdirAll(path(fmt.Sprintf("dc%d/jsons", i)), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		roles := func() string {
			mapped := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{`"s1"`, `"s2"`, `"s3.a"`, `"s4.b"`}), 0, 4, rapid.ID).Draw(t, "mapped")
			return fmt.Sprintf(`{"servers": ["s0", "s1", "s2", "s3", "s4", "s5"], "roles": ["app"], "mapping": {"app": [%s]}}`, strings.Join(mapped, ", "))
		}
		for i := range 6 {
			write(folder(i), server(i))
		}
		write("roles.json", roles())
		source := Source{Roles: path("roles.json"), Servers: []string{path("dc*/jsons")}}
		l := NewLoader(source)
		if rapid.Bool().Draw(t, "aged") {
			l.now = func() time.Time { return time.Now().Add(time.Hour) }
		}
		inv, err := l.Load(context.Background())
		for range rapid.IntRange(1, 8).Draw(t, "edits") {
			paths = nil
			for range rapid.IntRange(1, 3).Draw(t, "at once") {
				i := rapid.IntRange(0, 7).Draw(t, "file")
				switch rapid.SampledFrom([]string{"write", "write", "move", "move", "move", "break", "remove", "roles", "litter", "link", "folder", "nothing"}).Draw(t, "edit") {
				case "write":
					if info, err := os.Stat(path(folder(i))); err != nil || info.Mode().IsRegular() {
						write(folder(i), server(i))
					}
				case "move":
					if info, err := os.Stat(path(folder(i))); err == nil && info.Mode().IsRegular() && begins[i] != "" {
						write(folder(i), moved(i))
					}
				case "break":
					if info, err := os.Stat(path(folder(i))); err != nil || info.Mode().IsRegular() {
						write(folder(i), `{"ip": `)
					}
				case "remove":
					_ = os.RemoveAll(path(folder(i))) // may not be there
					paths = append(paths, path(folder(i)))
				case "roles":
					write("roles.json", roles())
				case "litter":
					write("dc0/jsons/.x.swp", "x")
				case "link":
					_ = os.Symlink("s0.json", path("dc0/jsons/s9.json")) // may be there
					paths = append(paths, path("dc0/jsons/s9.json"))
				case "folder":
					_ = os.Mkdir(path(folder(7)), 0o755) // may be there
					paths = append(paths, path(folder(7)))
				}
			}
			done := false
			var next *Inventory
			if !slices.ContainsFunc(paths, func(p string) bool { return !l.Plain(p) }) {
				next, done, err = l.LoadChanged(context.Background(), paths)
			}
			if done {
				followed++
				if err == nil && inv != nil && next != inv && &next.Roles[0] == &inv.Roles[0] {
					patched++
				}
			} else {
				next, err = l.Load(context.Background())
			}
			inv = next
			fresh := outcomeOf(NewLoader(source).Load(context.Background()))
			if diff := cmp.Diff(fresh, outcomeOf(next, err)); diff != "" {
				t.Fatalf("followed: %v; reading again differs (-new loader +old loader):\n%s", done, diff)
			}
			if next == nil {
				continue
			}
			for _, s := range next.Servers {
				if found, ok := next.Server(s.Name); !ok || found != s {
					t.Fatalf("server %s is not found by its name", s.Name)
				}
			}
		}
	}
	for range 10 { // chance may have none that is patched
		if rapid.Check(t, edits); t.Failed() || followed > 0 && patched > 0 {
			break
		}
	}
	if followed == 0 || patched == 0 {
		t.Errorf("%d edits were followed by their paths, %d of them without a new inventory", followed, patched)
	}
}

func TestPlain(t *testing.T) {
	s := newShop(t)
	if s.loader.Plain(s.path("dc/nyc1/jsons/hadoop01.json")) {
		t.Error("plain before anything was read")
	}
	s.load("app01", "hadoop01")
	s.write("dc/nyc1/jsons/hadoop02.json", `{"ip": "10.0.0.3"}`)
	s.write("dc/nyc1/jsons/.hadoop02.json.swp", "")
	s.write("dc/note.json", "")
	s.write("dc/sjc1/jsons/folder.json/x", "")
	s.link("hadoop01.json", "dc/nyc1/jsons/..data")
	s.write("dc/nyc1/jsons/twice.json", "{}")
	if err := os.Link(s.path("dc/nyc1/jsons/twice.json"), s.path("dc/twin")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"dc/nyc1/jsons/hadoop01.json": true, "dc/nyc1/jsons/hadoop02.json": true, "dc/nyc1/jsons/.hadoop02.json.swp": true, "roles.json": true,
		"dc/nyc1/jsons/gone~": true, "dc/nyc1/jsons/gone.json": false, "dc/nyc1/jsons": false, "dc/nyc1": false, "dc": false, "dc/note.json": false,
		"dc/sjc1/jsons/folder.json": false, "dc/nyc1/jsons/..data": false, "dc/nyc1/jsons/twice.json": false, "elsewhere/x": false,
	} {
		if got := s.loader.Plain(s.path(name)); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	s.link("nyc1", "dc/current")
	s.remove("dc/nyc1/jsons/twice.json")
	s.remove("dc/twin")
	s.remove("dc/sjc1/jsons/folder.json")
	s.load("app01", "hadoop01", "hadoop02")
	if s.loader.Plain(s.path("dc/nyc1/jsons/hadoop01.json")) {
		t.Error("plain where a link leads to the folder")
	}
}

// TestLoadChangedReadsOneFile counts what is read.
func TestLoadChangedReadsOneFile(t *testing.T) {
	s := newShop(t)
	s.load("app01", "hadoop01")
	before := s.loader.reads.Load()
	s.write("dc/nyc1/jsons/hadoop01.json", `{"ip": "10.0.0.1", "cabinet": "b2"}`)
	s.write("dc/sjc1/jsons/app01.json", `{"ip": "10.0.0.2", "cabinet": "b3"}`)
	inv, done, err := s.loader.LoadChanged(t.Context(), []string{s.path("dc/nyc1/jsons/hadoop01.json"), s.path("dc/nyc1/jsons/.swp")})
	if err != nil || !done {
		t.Fatalf("%v, %v", done, err)
	}
	if inv.Servers[1].Cabinet != "b2" || inv.Servers[0].Cabinet != "b1" || !slices.Equal(inv.Servers[1].Roles, []string{"hadoop_node"}) {
		t.Errorf("%+v, %+v", inv.Servers[0], inv.Servers[1])
	}
	if got := s.loader.reads.Load() - before; got != 1 {
		t.Errorf("%d files were read", got)
	}
	if again, _, _ := s.loader.LoadChanged(t.Context(), nil); again != inv {
		t.Error("nothing changed and the inventory is another one")
	}
	s.write("dc/nyc1/jsons/hadoop01.json", `{"ip": "10.0.0.2", "cabinet": "b2"}`)
	if _, done, err := s.loader.LoadChanged(t.Context(), []string{s.path("dc/nyc1/jsons/hadoop01.json")}); done || err != nil {
		t.Errorf("an address of another server was taken: %v, %v", done, err)
	}
	s.fails(`dc/sjc1/jsons/app01.json:1:8: address 10.0.0.2 is also that of server "hadoop01" in dc/nyc1/jsons/hadoop01.json:1; ` +
		`correct one of the two, delete its file, or set its status to decommissioned`)
	if s.loader.Plain(s.path("dc/nyc1/jsons/hadoop01.json")) {
		t.Error("plain while the last reading failed")
	}
}

// TestPlainStays: a reading that finds nothing new, as the periodic one mostly does, leaves the next edit as quick to follow as it was;
// so does one that is under way.
func TestPlainStays(t *testing.T) {
	s := newShop(t)
	s.load("app01", "hadoop01")
	path := s.path("dc/nyc1/jsons/hadoop01.json")
	list := s.loader.searched.Load()
	s.load("app01", "hadoop01")
	if s.loader.searched.Load() != list || !s.loader.Plain(path) {
		t.Fatalf("plain %v after a reading that found nothing", s.loader.Plain(path))
	}
	// Another server makes it read everything, and meanwhile the file is as plain as before.
	s.write("dc/sjc1/jsons/app02.json", `{"ip": "10.0.0.9"}`)
	var looked atomic.Bool
	now := s.loader.now
	s.loader.now = func() time.Time {
		looked.Store(true)
		if !s.loader.Plain(path) {
			t.Error("not plain while everything is read")
		}
		return now()
	}
	s.load("app01", "app02", "hadoop01")
	s.loader.now = now
	if !looked.Load() || !s.loader.Plain(path) || !s.loader.Plain(s.path("dc/sjc1/jsons/app02.json")) {
		t.Error("not plain after everything was read")
	}
	s.write("dc/nyc1/jsons/hadoop01.json", `{"ip": `)
	if _, err := s.loader.Load(t.Context()); err == nil || s.loader.Plain(path) {
		t.Errorf("plain %v after a reading that failed: %v", s.loader.Plain(path), err)
	}
}
