package runfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOneOwner: a second one is told who has the folder; when the first lets go, it is free.
func TestOneOwner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := Own(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Own(dir)
	var used *InUseError
	if !errors.As(err, &used) || used.PID != os.Getpid() || used.Dir != dir {
		t.Errorf("a second owner: %v", err)
	}
	info, err := os.Stat(filepath.Join(dir, daemonFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("who may open the lock could hold it: %v %v", info.Mode(), err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Own(dir)
	if err != nil {
		t.Fatalf("when the first has let go: %v", err)
	}
	again.Close()
	// A link is not followed: the folder's file is meant.
	if err := errors.Join(os.Remove(filepath.Join(dir, daemonFile)), os.Symlink("/dev/null", filepath.Join(dir, daemonFile))); err != nil {
		t.Fatal(err)
	}
	if c, err := Own(dir); err == nil || errors.As(err, &used) && used.PID == 0 {
		t.Errorf("through a link: %v %v", c, err)
	}
	if _, err := Own(filepath.Join(dir, "absent")); err == nil || errors.As(err, new(*InUseError)) {
		t.Errorf("in a folder that is not there: %v", err)
	}
}

// TestFolderThatEverybodyWrites is refused with what to do, unless nobody can take away what others put there.
func TestFolderThatEverybodyWrites(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := Write(dir, "x.state", []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for mode, refused := range map[os.FileMode]bool{0o755: false, 0o700: false, 0o777: true, 0o703: true, 0o777 | os.ModeSticky: false} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		_, err := Read(dir, "x.state", 10)
		checked := Check(dir)
		if (err != nil) != refused || (checked != nil) != refused {
			t.Errorf("%s: reading says %v, the check %v", mode, err, checked)
		}
		for _, e := range []error{err, checked} {
			if refused && (e == nil || !strings.Contains(e.Error(), "chmod o-w "+dir)) {
				t.Errorf("%s: no remedy in %v", mode, e)
			}
		}
	}
	if err := Check(filepath.Join(dir, "absent")); err != nil {
		t.Error(err)
	}
}
