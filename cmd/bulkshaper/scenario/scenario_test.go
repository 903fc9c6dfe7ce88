package scenario

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// module is the folder of the module.
const module = "../../.."

// scripts are the folders whose scripts run.
func scripts() []string {
	if system {
		return []string{"testdata", "testdata/system"}
	}
	return []string{"testdata"}
}

func TestScenarios(t *testing.T) {
	program := build(t)
	for _, layout := range []string{"hash", "list"} {
		for _, dir := range scripts() {
			t.Run(layout, func(t *testing.T) {
				t.Parallel()
				testscript.Run(t, testscript.Params{
					Dir:                filepath.FromSlash(dir),
					Setup:              func(env *testscript.Env) error { return setup(env, program, layout) },
					Cmds:               commands(),
					Condition:          func(cond string) (bool, error) { return cond == layout || cond == "system" && system, nil },
					RequireUniqueNames: true,
				})
			})
		}
	}
}

// build makes the program. The long form has the race detector in it; the short one would take twice its time for what the tests of
// cmd/bulkshaper do as well.
func build(t *testing.T) string {
	t.Helper()
	readSources(t)
	path := filepath.Join(t.TempDir(), "bulkshaper")
	args := []string{"build", "-buildvcs=false", "-o", path}
	if system {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "..")...).CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	return path
}

// readSources looks at every folder of the module, so that go test knows that the result depends on them and keeps none that is old.
func readSources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(module, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), ".git") {
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func setup(env *testscript.Env, program, layout string) error {
	if err := copyMissing(env.WorkDir, filepath.Join(module, "testdata", "incident")); err != nil {
		return err
	}
	n := newNode(env.T().(testing.TB), env.WorkDir, program, layout)
	env.Values[nodeKey{}] = n
	env.Setenv("NODE", pathOf(n.FD()))
	env.Setenv("PEER", pathOf(n.Peer().FD()))
	env.Setenv("LAYOUT", layout)
	env.Defer(n.end)
	return nil
}

// copyMissing copies a tree without the files that are there already.
func copyMissing(to, from string) error {
	return filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		if _, err := os.Lstat(target); err == nil {
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o644)
	})
}
