package inventory

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// asNobody runs f, without root's power to read everything. An ordinary user has none to lose.
func asNobody(t *testing.T, folder string, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	const nobody = 65534
	for path := folder; path != filepath.Clean(os.TempDir()) && path != "/"; path = filepath.Dir(path) { // nobody must get there
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, info.Mode().Perm()|0o055); err != nil {
			t.Fatal(err)
		}
	}
	// The effective user of all threads; the saved one stays root, and gives the power back.
	if err := syscall.Setresuid(-1, nobody, -1); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setresuid(-1, 0, -1); err != nil {
			t.Fatal(err)
		}
	}()
	f()
}
