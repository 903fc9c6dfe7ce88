package shaper

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// forbidden arrows: no production file below from imports a package that starts with to, unless it lies below one of but.
var forbidden = []struct {
	from, to string
	but      []string
	why      string
}{
	{".", "bulkshaper/inventory/bound", nil, "only tests are held to bounds"},
	{"inventory", "bulkshaper/shaper", nil, "the inventory knows nothing of classes"},
	{"inventory", "bulkshaper/metrics", nil, "the inventory is read, not served"},
	{"inventory", "bulkshaper/inventory/watch", []string{"inventory/watch"}, "reading does not need watching"},
	{"shaper", "bulkshaper/metrics", nil, "the loop counts through its Recorder"},
	{"shaper", "bulkshaper/cmd", nil, "commands are wiring"},
	{"metrics", "bulkshaper/cmd", nil, "commands are wiring"},
	{"cmd/bulkshaper", "bulkshaper/cmd/bench", nil, "what measures the program is no part of it"},
	{"shaper/tc", "bulkshaper/", nil, "values import nothing of ours"},
	{"shaper/config", "bulkshaper/shaper/p", nil, "config does not know what is made of it"},
	{"shaper/override", "bulkshaper/shaper/p", nil, "overrides are of classes and rates, whatever is made of them"},
	{"shaper/runfile", "bulkshaper/", nil, "a file of the run folder has any content"},
	{"shaper/policy", "bulkshaper/shaper/override", nil, "overrides come over what the policy says"},
	{"shaper/policy", "bulkshaper/shaper/plan", nil, "policy decides, the plan follows"},
	{"shaper/plan", "bulkshaper/shaper/diff", nil, "a plan does not know what stands"},
	{"shaper/plan", "bulkshaper/shaper/kernel", nil, "a plan is pure"},
	{"shaper/diff", "bulkshaper/shaper/kernel", nil, "the diff is pure: it is given what was observed"},
	{"shaper/u32", "bulkshaper/shaper/kernel", nil, "the model must not lean on what it models"},
	{"shaper/kernel", "bulkshaper/shaper/p", nil, "the kernel room does what it is told"},
	{"shaper/kernel", "bulkshaper/shaper/diff", nil, "the kernel room does what it is told"},
	{"metrics", "bulkshaper/shaper/kernel", nil, "a scrape goes through the loop's Stats"},
	{".", "github.com/vishvananda/", []string{"shaper/kernel"}, "netlink has one room"},
	{".", "github.com/florianl/", []string{"shaper/kernel"}, "netlink has one room"},
	{".", "github.com/mdlayher/", []string{"shaper/kernel"}, "netlink has one room"},
	{".", "github.com/fsnotify/", []string{"inventory/watch"}, "watching has one room"},
	{".", "github.com/prometheus/", []string{"metrics", "cmd"}, "the core counts through Recorder"},
	{".", "github.com/spf13/", []string{"cmd"}, "flags are wiring"},
	{".", "charm.land/", []string{"cmd/bulkshaper"}, "screens are for commands"},
	{"cmd/bulkshaper/view", "bulkshaper/shaper/kernel", nil, "what is shown is given, not asked for"},
	{"cmd/bulkshaper/ask", "bulkshaper/shaper/kernel", nil, "who asks the daemon does not look itself"},
	{"cmd/bulkshaper/check", "github.com/spf13/", nil, "what is found out does not depend on how it was asked for"},
	{"cmd/bulkshaper/explain", "github.com/spf13/", nil, "what is answered does not depend on how it was asked for"},
	// What cmd/bench measures is the installed program and tc, and it is not installed itself.
	{".", "os/exec", []string{"cmd/bench", "systemd/debian"}, "the program runs no other program"},
	{".", "testing", []string{"shaper/kernel/kerneltest", "inventory/bound", "systemd/debian"}, "test helpers stay in test files"},
}

func TestImportArrows(t *testing.T) {
	root := ".."
	var files int
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		files++
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		dir := path.Dir(filepath.ToSlash(rel))
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			to, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			for _, f := range forbidden {
				if below(dir, f.from) && strings.HasPrefix(to, f.to) && !exempt(dir, f.but) && !harness(dir, f.to) {
					t.Errorf("%s imports %s: %s", rel, to, f.why)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Fatalf("only %d files seen: is the root still %s?", files, root)
	}
}

func below(dir, top string) bool {
	return top == "." || dir == top || strings.HasPrefix(dir, top+"/")
}

func exempt(dir string, but []string) bool {
	for _, b := range but {
		if below(dir, b) {
			return true
		}
	}
	return false
}

// harness: kerneltest is for tests only and runs the real tc as a witness.
func harness(dir, to string) bool { return dir == "shaper/kernel/kerneltest" && to == "os/exec" }
