package scratch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const asHolder = "SCRATCH_TEST_AS_HOLDER"

// TestMain is also the process that makes a folder and then waits to be killed.
func TestMain(m *testing.M) {
	if os.Getenv(asHolder) != "" {
		f, err := New()
		if err != nil {
			panic(err)
		}
		if _, err := os.Stdout.WriteString(f.Path + "\n"); err != nil {
			panic(err)
		}
		var b [1]byte
		_, _ = os.Stdin.Read(b[:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestTheKilledAreSwept: the next run removes what a killed one left, but not what a living one has, what only is called so, or what lies behind a
// link.
func TestTheKilledAreSwept(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asHolder+"=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 4096)
	n, err := out.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	theirs := strings.TrimSpace(string(buffer[:n]))
	if err := os.MkdirAll(filepath.Join(theirs, "deep", "down"), 0o755); err != nil {
		t.Fatal(err)
	}
	precious := filepath.Join(dir, "precious")
	if err := os.Mkdir(precious, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(precious, filepath.Join(dir, prefix+"link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, prefix+"file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	there := func(path string) bool { _, err := os.Lstat(path); return err == nil }
	first, err := New()
	if err != nil {
		t.Fatal(err)
	}
	if !there(theirs) || !there(first.Path) || filepath.Dir(first.Path) != dir {
		t.Errorf("while both live: %v %v", there(theirs), first.Path)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	second, err := New()
	if err != nil {
		t.Fatal(err)
	}
	if there(theirs) {
		t.Error("what the killed one left is still there")
	}
	for _, path := range []string{first.Path, precious, filepath.Join(dir, prefix+"link"), filepath.Join(dir, prefix+"file")} {
		if !there(path) {
			t.Errorf("%s is gone", path)
		}
	}
	for _, f := range []*Folder{first, second} {
		if err := f.Remove(); err != nil || there(f.Path) {
			t.Errorf("removed: %v", err)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 3 {
		t.Errorf("left: %v %v", left, err)
	}
}
