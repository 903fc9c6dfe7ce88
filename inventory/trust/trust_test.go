package trust

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// stranger is a user that nobody here is.
const stranger = 4711

// bed is a folder that only we may write, with etc/jsons/a.json in it.
func bed(t *testing.T) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "etc/jsons"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "etc/jsons/a.json"))
	return root
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func chmod(t *testing.T, path string, mode uint32) {
	t.Helper()
	if err := unix.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// fileRefusal opens a file and judges it.
func fileRefusal(t *testing.T, g *Guard, path string, change func(*unix.Stat_t)) *Refusal {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&st)
	}
	return g.File(int(f.Fd()), path, &st)
}

// says fails unless the refusal is of the path and has all the words; without words none may be.
func says(t *testing.T, r *Refusal, path string, words ...string) {
	t.Helper()
	if len(words) == 0 {
		if r != nil {
			t.Errorf("refused: %v", r)
		}
		return
	}
	if r == nil {
		t.Fatalf("%s is trusted, want a refusal with %q", path, words)
	}
	if r.Path != path {
		t.Errorf("refusal of %s, want of %s", r.Path, path)
	}
	if !strings.HasSuffix(r.Remedy, " "+path) {
		t.Errorf("remedy is %q", r.Remedy)
	}
	for _, word := range append(words, path) {
		if !strings.Contains(r.Error(), word) {
			t.Errorf("refusal %q does not say %q", r, word)
		}
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(bed(t), "etc/jsons/a.json")
	g := New()
	if g.gid == stranger || g.owner(stranger) {
		t.Fatalf("user and group %d are taken", stranger)
	}
	for _, test := range []struct {
		name   string
		mode   uint32
		change func(*unix.Stat_t)
		words  []string
	}{
		{"as usual", 0o644, nil, nil},
		{"for nobody else", 0o600, nil, nil},
		{"for our own group", 0o664, func(st *unix.Stat_t) { st.Gid = g.gid }, nil},
		{"for root's group", 0o664, func(st *unix.Stat_t) { st.Gid = 0 }, nil},
		{"of root", 0o644, func(st *unix.Stat_t) { st.Uid = 0 }, nil},
		{"for everybody", 0o646, nil, []string{"everybody may write it (mode 0646, owner ", "chmod o-w "}},
		{"for a group", 0o664, func(st *unix.Stat_t) { st.Gid = stranger }, []string{"group 4711 may write it (mode 0664, ", "group 4711)", "chmod g-w "}},
		{"for both", 0o666, func(st *unix.Stat_t) { st.Gid = stranger }, []string{"group 4711 and everybody may write it", "chmod go-w "}},
		{"of a stranger", 0o444, func(st *unix.Stat_t) { st.Uid = stranger }, []string{"belongs to user 4711, who is neither root nor", "mode 0444, owner 4711", "chown root "}},
	} {
		t.Run(test.name, func(t *testing.T) {
			chmod(t, path, test.mode)
			says(t, fileRefusal(t, g, path, test.change), path, test.words...)
			says(t, fileRefusal(t, nil, path, test.change), path)
		})
	}
}

// TestAccessList: bits of our own group may be a mask over an access list.
func TestAccessList(t *testing.T) {
	folder, err := os.MkdirTemp("/dev/shm", "trust") // a file system that surely has them
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "a.json")
	write(t, path)
	us := uint32(os.Geteuid()) // the only user that a namespace is sure to have
	list := acl([]entry{{1, 6, nobody}, {2, 6, us}, {4, 4, nobody}, {16, 6, nobody}, {32, 4, nobody}})
	for _, p := range []string{path, folder} {
		if err := unix.Setxattr(p, aclName, list, 0); err != nil {
			t.Fatal(err)
		}
	}
	says(t, fileRefusal(t, New(), path, func(st *unix.Stat_t) { st.Gid = 0 }), path, "those in its access list may write it (mode 0664", "chmod g-w ")
	says(t, New().Walk().Into(folder), folder, "those in its access list may write this folder (mode 0664", "chmod g-w ")
	chmod(t, path, 0o644) // the remedy: now the mask forbids it
	says(t, fileRefusal(t, New(), path, nil), path)
}

// entry is one of an access list (linux/posix_acl_xattr.h).
type entry struct {
	tag, perm uint16
	id        uint32
}

func acl(entries []entry) []byte {
	list := []byte{2, 0, 0, 0}
	for _, e := range entries {
		list = append(list, byte(e.tag), 0, byte(e.perm), 0, byte(e.id), byte(e.id>>8), byte(e.id>>16), byte(e.id>>24))
	}
	return list
}

// TestWay makes one thing wrong at a time on the way to a file.
func TestWay(t *testing.T) {
	for _, test := range []struct {
		name string
		// make changes the bed and gives the path to go and, if it is to be refused, that of the culprit, below the bed.
		make  func(t *testing.T, root string) (path, culprit string)
		into  bool // ask as for a folder of server files
		alien string
		words []string
	}{
		{name: "as usual", make: func(t *testing.T, root string) (string, string) { return "etc/jsons/a.json", "" }},
		{name: "a folder as usual", into: true, make: func(t *testing.T, root string) (string, string) { return "etc/jsons", "" }},
		{name: "what is missing", make: func(t *testing.T, root string) (string, string) { return "etc/none/a.json", "" }},
		{name: "a folder that is missing", into: true, make: func(t *testing.T, root string) (string, string) { return "etc/none", "" }},
		{name: "the folder is for everybody", make: func(t *testing.T, root string) (string, string) {
			chmod(t, root+"/etc/jsons", 0o777)
			return "etc/jsons/a.json", "etc/jsons"
		}, words: []string{"everybody may write this folder (mode 0777", "chmod go-w "}},
		{name: "one above is for everybody", into: true, make: func(t *testing.T, root string) (string, string) {
			chmod(t, root+"/etc", 0o757)
			return "etc/jsons", "etc"
		}, words: []string{"everybody may write this folder (mode 0757", "chmod o-w "}},
		{name: "a sticky one above", into: true, make: func(t *testing.T, root string) (string, string) {
			chmod(t, root+"/etc", 0o1777)
			return "etc/jsons", ""
		}},
		{name: "a file in a sticky one", make: func(t *testing.T, root string) (string, string) {
			chmod(t, root+"/etc/jsons", 0o1777)
			return "etc/jsons/a.json", ""
		}},
		{name: "all files of a sticky one", into: true, make: func(t *testing.T, root string) (string, string) {
			chmod(t, root+"/etc/jsons", 0o1777)
			return "etc/jsons", "etc/jsons"
		}, words: []string{"everybody may write this folder (mode 1777", "chmod go-w "}},
		{name: "a stranger's folder", alien: "etc/jsons", make: func(t *testing.T, root string) (string, string) {
			return "etc/jsons/a.json", "etc/jsons"
		}, words: []string{"this folder belongs to user 4711", "chown root "}},
		{name: "a stranger's folder above", alien: "etc", into: true, make: func(t *testing.T, root string) (string, string) {
			return "etc/jsons", "etc"
		}, words: []string{"this folder belongs to user 4711", "chown root "}},
		{name: "links", make: func(t *testing.T, root string) (string, string) {
			link(t, "etc", root+"/one")
			link(t, root+"/one/jsons/../jsons", root+"/etc/two")
			link(t, "../one/two/a.json", root+"/etc/three")
			return "etc/three", ""
		}},
		{name: "a link to where everybody may write", make: func(t *testing.T, root string) (string, string) {
			chmod(t, root+"/etc/jsons", 0o777)
			link(t, "etc/jsons/a.json", root+"/a.json")
			return "a.json", "etc/jsons"
		}, words: []string{"everybody may write this folder"}},
		{name: "a link by way of where everybody may write", into: true, make: func(t *testing.T, root string) (string, string) {
			if err := os.Mkdir(root+"/open", 0o777); err != nil {
				t.Fatal(err)
			}
			chmod(t, root+"/open", 0o777)
			link(t, "../etc/jsons", root+"/open/jsons")
			link(t, "open/jsons", root+"/jsons")
			return "jsons", "open"
		}, words: []string{"everybody may write this folder"}},
		{name: "up from where a link leads", make: func(t *testing.T, root string) (string, string) {
			if err := os.Mkdir(root+"/open", 0o777); err != nil {
				t.Fatal(err)
			}
			chmod(t, root+"/open", 0o777)
			if err := os.Mkdir(root+"/open/deep", 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, root+"/open/b.json")
			link(t, "open/deep", root+"/deep")
			link(t, "deep/../b.json", root+"/b.json") // that is open/b.json, however a path may be tidied
			return "b.json", "open"
		}, words: []string{"everybody may write this folder"}},
		{name: "our link in a sticky folder", make: func(t *testing.T, root string) (string, string) {
			chmod(t, root, 0o1777)
			link(t, "etc/jsons/a.json", root+"/a.json")
			return "a.json", ""
		}},
		{name: "a stranger's link in a sticky folder", alien: "a.json", make: func(t *testing.T, root string) (string, string) {
			chmod(t, root, 0o1777)
			link(t, "etc/jsons/a.json", root+"/a.json")
			return "a.json", "a.json"
		}, words: []string{"the link belongs to user 4711", "chown -h root "}},
		{name: "a stranger's link to a folder, in a sticky one", alien: "dir", make: func(t *testing.T, root string) (string, string) {
			chmod(t, root, 0o1777)
			link(t, "etc", root+"/dir")
			return "dir/jsons/a.json", "dir"
		}, words: []string{"the link belongs to user 4711"}},
		{name: "a stranger's link where only we can put it", alien: "etc/b.json", make: func(t *testing.T, root string) (string, string) {
			link(t, "jsons/a.json", root+"/etc/b.json")
			return "etc/b.json", ""
		}},
		{name: "links that go around", make: func(t *testing.T, root string) (string, string) {
			link(t, "two", root+"/one")
			link(t, "one", root+"/two")
			return "one/a.json", ""
		}},
		{name: "a file that is a link to itself", make: func(t *testing.T, root string) (string, string) {
			link(t, "a.json", root+"/a.json")
			return "a.json", ""
		}},
		// As a ConfigMap would be, but that it is no mount of its own: see TestVolume.
		{name: "a folder with ..data", make: func(t *testing.T, root string) (string, string) {
			link(t, "jsons", root+"/etc/..data")
			chmod(t, root+"/etc", 0o777)
			return "etc/..data/a.json", "etc"
		}, words: []string{"everybody may write this folder"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := bed(t)
			path, culprit := test.make(t, root)
			ask := func(g *Guard) *Refusal {
				w := g.Walk()
				w.lstat = func(path string, st *unix.Stat_t) error {
					err := unix.Lstat(path, st)
					if test.alien != "" && path == filepath.Join(root, test.alien) {
						st.Uid = stranger
					}
					return err
				}
				if test.into {
					return w.Into(filepath.Join(root, path))
				}
				return w.To(filepath.Join(root, path))
			}
			says(t, ask(New()), filepath.Join(root, culprit), test.words...)
			says(t, ask(nil), "")
		})
	}
}

// TestWayIsRelative: a path is where the kernel would look for it.
func TestWayIsRelative(t *testing.T) {
	root := bed(t)
	t.Chdir(root)
	link(t, "etc/jsons", root+"/jsons")
	says(t, New().Walk().To("jsons/../jsons/a.json"), "")
	chmod(t, root+"/etc", 0o777)
	for _, path := range []string{"etc/jsons/a.json", "./jsons/../a.json", "jsons/", "etc//jsons/../../etc/b.json"} {
		says(t, New().Walk().To(path), root+"/etc", "everybody may write this folder")
		says(t, New().Walk().Into(path), root+"/etc", "everybody may write this folder")
	}
}

// TestSudo: root may use the files of who called sudo; nobody else gets rights from a variable.
func TestSudo(t *testing.T) {
	t.Setenv("SUDO_UID", "4711")
	if g := New(); g.owner(stranger) != (g.uid == 0) {
		t.Errorf("user %d: trusts the caller of sudo: %v", g.uid, g.owner(stranger))
	}
	t.Setenv("SUDO_UID", "all")
	if New().owner(stranger) || New().owner(nobody-1) {
		t.Error("a user who is none is trusted")
	}
}

func TestUnknownUser(t *testing.T) {
	for text, want := range map[string]uint32{
		"         0          0 4294967295\n":                                   nobody,   // the machine's own
		"         0       1000          1\n":                                   overflow, // unshare --map-root-user
		"         0     100000      65536\n":                                   nobody,   // containers: there it may be a user
		"         0       1000          1\n         1     100000      65536\n": nobody,
		"         0       1000          1\n     70000     100000      10000\n": overflow,
		"what is it\n": nobody,
		"":             overflow,
	} {
		if got := unknownUser(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
