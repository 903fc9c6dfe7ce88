package inventory

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shop is an inventory on disk: two datacenters with a server each, below a folder of its own.
type shop struct {
	*testing.T
	root   string
	loader *Loader
	now    time.Time
}

const shopRoles = `{"servers": ["hadoop01", "app01"], "roles": ["hadoop_node", "app"], "mapping": {"hadoop_node": ["hadoop01"], "app": ["app01"]}}`

// newShop has a loader whose clock is an hour ahead, so that no file is too young to be remembered.
func newShop(t *testing.T) *shop {
	s := &shop{T: t, root: t.TempDir(), now: time.Now().Add(time.Hour)}
	s.write("roles.json", shopRoles)
	s.write("dc/nyc1/jsons/hadoop01.json", `{"ip": "10.0.0.1", "cabinet": "b1"}`)
	s.write("dc/sjc1/jsons/app01.json", `{"ip": "10.0.0.2", "cabinet": "b1"}`)
	s.use("dc/*/jsons")
	return s
}

func (s *shop) use(patterns ...string) {
	for i, p := range patterns {
		patterns[i] = s.path(p)
	}
	s.loader = NewLoader(Source{Roles: s.path("roles.json"), Servers: patterns})
	s.loader.now = func() time.Time { return s.now }
}

func (s *shop) path(name string) string { return filepath.Join(s.root, name) }

func (s *shop) write(name, text string) {
	s.Helper()
	if err := os.MkdirAll(filepath.Dir(s.path(name)), 0o755); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(s.path(name), []byte(text), 0o644); err != nil {
		s.Fatal(err)
	}
}

func (s *shop) link(target, name string) {
	s.Helper()
	if err := os.MkdirAll(filepath.Dir(s.path(name)), 0o755); err != nil {
		s.Fatal(err)
	}
	if err := os.Symlink(target, s.path(name)); err != nil {
		s.Fatal(err)
	}
}

func (s *shop) remove(name string) {
	s.Helper()
	if err := os.RemoveAll(s.path(name)); err != nil {
		s.Fatal(err)
	}
}

// load wants an inventory with servers of these names, and gives it.
func (s *shop) load(names ...string) *Inventory {
	s.Helper()
	inv, err := s.loader.Load(context.Background())
	if err != nil {
		s.Fatal(err)
	}
	var got []string
	for _, server := range inv.Servers {
		got = append(got, server.Name)
	}
	if !slices.Equal(got, names) {
		s.Fatalf("servers %v, want %v; warnings %v", got, names, inv.Warnings)
	}
	return inv
}

// fails wants a load to fail with these problems; paths are shown without the shop's own folder.
func (s *shop) fails(want ...string) {
	s.Helper()
	inv, err := s.loader.Load(context.Background())
	var problems Problems
	if !errors.As(err, &problems) || inv != nil {
		s.Fatalf("inventory %v, error %v; want problems", inv, err)
	}
	got := strings.ReplaceAll(problems.Error(), s.root+"/", "")
	if got != strings.Join(want, "\n") {
		s.Errorf("problems are\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// warns wants the warnings of an inventory.
func (s *shop) warns(inv *Inventory, want ...string) {
	s.Helper()
	got := strings.ReplaceAll(Problems(inv.Warnings).Error(), s.root+"/", "")
	if got != strings.Join(want, "\n") {
		s.Errorf("warnings are\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestLoad(t *testing.T) {
	s := newShop(t)
	inv := s.load("app01", "hadoop01")
	s.warns(inv)
	h, ok := inv.Server("hadoop01")
	if !ok || h.Datacenter != "nyc1" || !h.HasRole("hadoop_node") || h.File != s.path("dc/nyc1/jsons/hadoop01.json") {
		t.Errorf("hadoop01 is %+v", h)
	}
}

// TestLoadReadsOnlyWhatChanged counts the files whose content is looked at.
func TestLoadReadsOnlyWhatChanged(t *testing.T) {
	s := newShop(t)
	first := s.load("app01", "hadoop01")
	reads := func(want int, what string) {
		t.Helper()
		if got := s.loader.reads.Load(); got != int64(want) {
			t.Errorf("%s: %d files were read, want %d", what, got, want)
		}
		s.loader.reads.Store(0)
	}
	reads(3, "first time")
	if again := s.load("app01", "hadoop01"); again != first {
		t.Error("unchanged files give another inventory")
	}
	reads(0, "nothing changed")
	s.write("dc/nyc1/jsons/hadoop01.json", `{"ip": "10.0.0.1", "cabinet": "b2"}`)
	second := s.load("app01", "hadoop01")
	reads(1, "one changed")
	if second.Equal(first) || second.Servers[0] != first.Servers[0] || second.Servers[1].Cabinet != "b2" || first.Servers[1].Cabinet != "b1" {
		t.Error("the change is not seen, or the old inventory changed with it, or the other server was made again")
	}
	s.write("dc/nyc1/jsons/hadoop01.json", `{"ip": "10.0.0.1", "cabinet": "b2"}`)
	if third := s.load("app01", "hadoop01"); third != second {
		t.Error("a file written again with the same text gives another inventory")
	}
	s.write("roles.json", strings.Replace(shopRoles, `"app": ["app01"]`, `"app": ["app01", "hadoop01"]`, 1))
	fourth := s.load("app01", "hadoop01")
	if !fourth.Servers[1].HasRole("app") || second.Servers[1].HasRole("app") {
		t.Error("changed roles are not seen, or the old inventory has them too")
	}
	s.write("dc/nyc1/jsons/hadoop01.json", `{`)
	s.fails("dc/nyc1/jsons/hadoop01.json:1:2: file ends in the middle of the JSON; it was cut off, or is still being written: write it whole, best under another name and renamed")
	s.write("dc/nyc1/jsons/hadoop01.json", `{"ip": "10.0.0.1", "cabinet": "b2"}`)
	if fifth := s.load("app01", "hadoop01"); !fifth.Equal(fourth) {
		t.Error("the same text as before gives another inventory")
	}
}

// TestRewriteWithinOneTick changes a file without a trace in its size and times, right after it was read.
func TestRewriteWithinOneTick(t *testing.T) {
	s := newShop(t)
	s.now = time.Now()
	first := s.load("app01", "hadoop01")
	path := s.path("dc/nyc1/jsons/hadoop01.json")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	s.write("dc/nyc1/jsons/hadoop01.json", `{"ip": "10.0.0.1", "cabinet": "b7"}`)
	// Change time cannot be set; make what is remembered look as if the clock had stood still.
	now, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	known := s.loader.files[path]
	if known == nil || !known.young || info.Size() != now.Size() {
		t.Fatalf("file is remembered as %+v", known)
	}
	known.id = idOf(now)
	if second := s.load("app01", "hadoop01"); second.Equal(first) || second.Servers[1].Cabinet != "b7" {
		t.Error("the change is not seen")
	}
}

// TestLitter fills the folders with everything that is no server file.
func TestLitter(t *testing.T) {
	s := newShop(t)
	for _, name := range []string{"4913", "#x.json#", "x.json~", ".x.json.swp", ".x.json", "x.json.rpmsave", "x.json.bak", "README.md", ".#y.json", "~x.json", "x.JSON", "..2025/x.json"} {
		s.write("dc/nyc1/jsons/"+name, "not JSON")
	}
	s.write("dc/nyc1/jsons/folder.json/x.json", "not JSON")
	s.link("nowhere.json", "dc/nyc1/jsons/dangling.json")
	s.link("loop.json", "dc/nyc1/jsons/loop.json")
	if err := syscall.Mkfifo(s.path("dc/nyc1/jsons/fifo.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"dc/nyc1/jsons/dangling.json: not read: it is a link to what does not exist; move it out of the folder",
		"dc/nyc1/jsons/fifo.json: not read: it is a FIFO; move it out of the folder",
		"dc/nyc1/jsons/folder.json: not read: it is a folder; move it out of the folder",
		"dc/nyc1/jsons/loop.json: not read: it is a link to what does not exist; move it out of the folder",
	}
	s.warns(s.load("app01", "hadoop01"), want...)
	s.use("dc/*/jsons/*")
	s.warns(s.load("app01", "hadoop01"), want...)
}

// TestConfigMap lays roles and servers into one folder of links, as the kubelet does, and swaps it.
func TestConfigMap(t *testing.T) {
	s := &shop{T: t, root: t.TempDir(), now: time.Now().Add(time.Hour)}
	fill := func(folder, cabinet string) {
		s.write(folder+"/roles.json", shopRoles)
		s.write(folder+"/hadoop01.json", `{"ip": "10.0.0.1", "cabinet": "`+cabinet+`"}`)
		s.write(folder+"/app01.json", `{"ip": "10.0.0.2", "cabinet": "b1"}`)
	}
	fill("..1", "b1")
	s.link("..1", "..data")
	for _, name := range []string{"roles.json", "hadoop01.json", "app01.json"} {
		s.link("..data/"+name, name)
	}
	for _, pattern := range []string{".", "*", "*.json", "..data"} {
		s.use(pattern)
		s.warns(s.load("app01", "hadoop01"))
	}
	s.use(".", "..data") // one file by two paths
	s.load("app01", "hadoop01")

	s.use(".")
	s.load("app01", "hadoop01")
	if folders := s.loader.Folders(); !slices.Contains(folders, s.root) || !slices.Contains(folders, s.path("..data")) {
		t.Errorf("folders are %v", folders)
	}
	fill("..2", "b2")
	s.link("..2", "..data_tmp")
	if err := os.Rename(s.path("..data_tmp"), s.path("..data")); err != nil {
		t.Fatal(err)
	}
	s.remove("..1")
	if inv := s.load("app01", "hadoop01"); inv.Servers[1].Cabinet != "b2" {
		t.Error("the swap is not seen")
	}
}

// TestOneFileByTwoPaths reads a folder by its name and by a link; the datacenter is that of the real place.
func TestOneFileByTwoPaths(t *testing.T) {
	s := newShop(t)
	s.link("nyc1", "dc/current")
	inv := s.load("app01", "hadoop01")
	if inv.Servers[1].Datacenter != "nyc1" {
		t.Errorf("datacenter is %q", inv.Servers[1].Datacenter)
	}
}

// TestRolesFileIsNoServer has the roles file in the servers' folder, also by a link and under another spelling of the path.
func TestRolesFileIsNoServer(t *testing.T) {
	s := &shop{T: t, root: t.TempDir(), now: time.Now().Add(time.Hour)}
	s.write("jsons/roles.json", shopRoles)
	s.write("jsons/hadoop01.json", `{"ip": "10.0.0.1", "cabinet": "b1"}`)
	s.write("jsons/app01.json", `{"ip": "10.0.0.2", "cabinet": "b1"}`)
	s.link("jsons/roles.json", "roles.json")
	s.use("jsons")
	s.warns(s.load("app01", "hadoop01"))
	s.loader = NewLoader(Source{Roles: s.root + "/jsons/../jsons//roles.json", Servers: []string{s.path("jsons/*.json")}})
	s.warns(s.load("app01", "hadoop01"))
	s.remove("jsons/roles.json")
	s.write("jsons/roles.json", "[")
	s.fails("jsons/../jsons//roles.json:1:2: file ends in the middle of the JSON; it was cut off, or is still being written: write it whole, best under another name and renamed")
}

func TestLoadFails(t *testing.T) {
	const nothing = "correct inventory.servers, or put the files there"
	const noRoles = "write the roles file there, or correct inventory.roles"
	for _, test := range []struct {
		name string
		do   func(s *shop)
		want []string
	}{
		{"no roles file", func(s *shop) { s.remove("roles.json") }, []string{"roles.json: no such file; " + noRoles}},
		{"roles file is a folder", func(s *shop) { s.remove("roles.json"); s.write("roles.json/x", "") }, []string{"roles.json: not read: it is a folder; " + noRoles}},
		{"roles file is a FIFO", func(s *shop) {
			s.remove("roles.json")
			if err := syscall.Mkfifo(s.path("roles.json"), 0o600); err != nil {
				s.Fatal(err)
			}
		}, []string{"roles.json: not read: it is a FIFO; " + noRoles}},
		{"roles file too large", func(s *shop) {
			if err := os.Truncate(s.path("roles.json"), MaxFileSize+1); err != nil {
				s.Fatal(err)
			}
		}, []string{"roles.json: file has 16777217 bytes, more than the 16 MiB that are read; an inventory file is far smaller: move this one out of the folder, or name the right one"}},
		{"pattern matches nothing", func(s *shop) { s.use("dc/*/json", "dc/*/jsons") }, []string{"dc/*/json: nothing matches the pattern; " + nothing}},
		{"no such folder", func(s *shop) { s.use("dc/lon1/jsons") }, []string{"dc/lon1/jsons: no such file or folder; " + nothing}},
		{"folders without files", func(s *shop) { s.remove("dc/nyc1/jsons/hadoop01.json") }, []string{"dc/nyc1/jsons: folder has no *.json files; " + nothing}},
		{"malformed pattern", func(s *shop) { s.use("dc/[/jsons") }, []string{"dc/[/jsons: pattern is malformed; close the bracket, or write a backslash before it"}},
		{"no pattern", func(s *shop) { s.use() }, []string{"no place for server files is given; set inventory.servers to the folders that hold them"}},
		{"not a server file", func(s *shop) { s.write("servers.yaml", ""); s.use("servers.yaml") }, []string{"servers.yaml: not the name of a server file; name folders, or files that end in .json"}},
		{"FIFO by name", func(s *shop) {
			if err := syscall.Mkfifo(s.path("x.json"), 0o600); err != nil {
				s.Fatal(err)
			}
			s.use("x.json")
		}, []string{"x.json: not read: it is a FIFO; name folders, or regular files, in inventory.servers"}},
		{"only litter", func(s *shop) {
			s.remove("dc/sjc1")
			s.remove("dc/nyc1/jsons/hadoop01.json")
			s.link("x", "dc/nyc1/jsons/hadoop01.json")
		},
			[]string{"there are no server files; " + nothing}},
		{"everything at once", func(s *shop) {
			s.write("dc/nyc1/jsons/x.json", "{")
			s.write("dc/sjc1/jsons/y.json", `{"ip": "10.0.0.1"}`)
			s.remove("roles.json")
			s.use("dc/*/jsons", "nowhere")
		}, []string{
			"dc/nyc1/jsons/x.json:1:2: file ends in the middle of the JSON; it was cut off, or is still being written: write it whole, best under another name and renamed",
			`dc/sjc1/jsons/y.json:1:8: address 10.0.0.1 is also that of server "hadoop01" in dc/nyc1/jsons/hadoop01.json:1; correct one of the two, delete its file, or set its status to decommissioned`,
			"nowhere: no such file or folder; " + nothing, "roles.json: no such file; " + noRoles}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newShop(t)
			s.load("app01", "hadoop01")
			test.do(s)
			s.fails(test.want...)
		})
	}
}

// TestUnreadable takes away the right to read.
func TestUnreadable(t *testing.T) {
	s := newShop(t)
	for _, name := range []string{"roles.json", "dc/nyc1/jsons/hadoop01.json", "dc/sjc1/jsons"} {
		if err := os.Chmod(s.path(name), 0); err != nil {
			t.Fatal(err)
		}
	}
	asNobody(t, s.root, func() {
		s.fails("dc/nyc1/jsons/hadoop01.json: read file: permission denied; "+UnreadableRemedy, "dc/sjc1/jsons: read folder: permission denied; "+UnreadableRemedy,
			"roles.json: read file: permission denied; "+UnreadableRemedy)
	})
}

func TestLoadStops(t *testing.T) {
	s := newShop(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if inv, err := s.loader.Load(ctx); inv != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("inventory %v, error %v; want the context's error", inv, err)
	}
	s.load("app01", "hadoop01")
}

func TestFolders(t *testing.T) {
	s := newShop(t)
	s.write("elsewhere/real.json", `{"ip": "10.0.0.3"}`)
	s.link("../../../elsewhere/real.json", "dc/nyc1/jsons/hadoop02.json")
	s.write("v1/jsons/x.json", "{}")
	s.link("v1", "now")
	if err := os.Mkdir(s.path("dc/lon1"), 0o755); err != nil { // jsons will appear in it
		t.Fatal(err)
	}
	s.use("dc/*/jsons", "now/jsons", "later/jsons")
	got := s.loader.Folders()
	for i, folder := range got {
		got[i] = strings.TrimPrefix(folder, s.root)
	}
	want := []string{"", "/dc", "/dc/lon1", "/dc/nyc1/jsons", "/dc/sjc1/jsons", "/elsewhere", "/later/jsons", "/now/jsons"}
	for _, folder := range want {
		if !slices.Contains(got, folder) {
			t.Errorf("%q is not among the folders %q", folder, got)
		}
	}
}
