package inventory

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReadFolder compares with os.ReadDir, over more entries than fit into one buffer.
func TestReadFolder(t *testing.T) {
	folder := t.TempDir()
	for i := range 3000 {
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%d-a-name-that-is-long-enough-for-several-buffers.json", i*7919%3000)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(folder, "żółw"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(folder, "link.json")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(folder, ".fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{folder, t.TempDir(), "/proc/self", "/dev", "."} {
		want, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		got, err := readFolder(folder)
		if err != nil || got == nil || len(got) != len(want) {
			t.Fatalf("%s: %d entries, error %v; want %d", folder, len(got), err, len(want))
		}
		for i, e := range got {
			regular, link := e.kind == unix.DT_REG, e.kind == unix.DT_LNK
			if e.name != want[i].Name() || regular != want[i].Type().IsRegular() || link != (want[i].Type()&os.ModeSymlink != 0) {
				t.Fatalf("%s: entry %d is %+v, want %s", folder, i, e, want[i])
			}
		}
	}
	for path, want := range map[string]error{filepath.Join(folder, "none"): unix.ENOENT, "readfolder_test.go": unix.ENOTDIR} {
		if _, err := readFolder(path); err != want {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
}
