package trust

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestVolume is a ConfigMap as the kubelet mounts it: everybody may write the folder, but for the mount being read-only.
func TestVolume(t *testing.T) {
	done := make(chan struct{})
	go func() { // a thread of its own, which ends with its mounts
		defer close(done)
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			t.Errorf("unshare the mounts: %v; run it as root, or in a user namespace (make test does)", err)
			return
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Error(err)
			return
		}
		volumes(t)
	}()
	<-done
}

func volumes(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Error(err)
		return
	}
	mounted := root + "/pod/bulkshaper"
	steps := func(name string, steps ...func() error) {
		for i, step := range steps {
			if err := step(); err != nil {
				t.Errorf("%s, step %d: %v", name, i+1, err)
			}
		}
	}
	steps("make the volume",
		func() error { return os.MkdirAll(root+"/volume/..2025", 0o755) },
		func() error { return os.MkdirAll(mounted, 0o755) },
		func() error { return unix.Chmod(root+"/volume", 0o777) },
		func() error { return os.WriteFile(root+"/volume/..2025/a.json", nil, 0o644) },
		func() error { return os.Symlink("..2025", root+"/volume/..data") },
		func() error { return os.Symlink("..data/a.json", root+"/volume/a.json") },
		func() error { return unix.Mount(root+"/volume", mounted, "", unix.MS_BIND, "") },
	)
	ask := func() (*Refusal, *Refusal) {
		return New().Walk().Into(mounted), New().Walk().To(mounted + "/a.json")
	}
	for _, r := range []func() *Refusal{func() *Refusal { r, _ := ask(); return r }, func() *Refusal { _, r := ask(); return r }} {
		if got := r(); got == nil || got.Path != mounted {
			t.Errorf("mounted for writing: %v", got)
		}
	}
	steps("mount it read-only", func() error { return unix.Mount("", mounted, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "") })
	if into, to := ask(); into != nil || to != nil {
		t.Errorf("mounted read-only: %v, %v", into, to)
	}
	// As systemd's ProtectSystem=strict has it: a folder on a read-only mount, which others see otherwise.
	steps("everything read-only", func() error { return unix.Mount(root, root, "", unix.MS_BIND, "") },
		func() error { return unix.Mount("", root, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "") })
	if r := New().Walk().Into(root + "/volume"); r == nil {
		t.Error("a folder that is read-only for us alone is trusted")
	}
	steps("undo", func() error { return unix.Unmount(root, unix.MNT_DETACH) }, func() error { return unix.Unmount(mounted, 0) })
}
