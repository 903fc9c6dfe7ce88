//go:build system

package systemtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bulkshaper/systemd/debian"
)

const (
	mirror = "http://deb.debian.org/debian"
	// oldest and newest are the releases of Debian that are booted: systemd 252, the oldest that the unit is for, and 257.
	oldest = "bookworm"
	newest = "trixie"
	// packages are those of the container. procps has the kill of ExecReload.
	packages = "systemd,systemd-sysv,dbus,iproute2,procps"
)

// need has Debian's programs there; it takes root to boot a container.
func need(t *testing.T, programs map[string]string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("these tests boot a container: run them as root")
	}
	debian.Need(t, programs)
}

// suiteFolder gives the folder of a minimal Debian of the suite, which it makes the first time. Nobody writes in it afterwards.
func suiteFolder(t *testing.T, suite string) string {
	t.Helper()
	need(t, map[string]string{"systemd-nspawn": "systemd-container", "debootstrap": "debootstrap", "unshare": "util-linux", "ip": "iproute2"})
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	cache = filepath.Join(cache, "bulkshaper-systemtest")
	root := filepath.Join(cache, suite+"_"+strings.ReplaceAll(packages, ",", "_"))
	if _, err := os.Stat(root); err == nil {
		return root
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	// Built beside and renamed, so that one that was interrupted is not taken for whole.
	half, err := os.MkdirTemp(cache, "half-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(half)
	run(t, "debootstrap", "--variant=minbase", "--include="+packages, suite, half, mirror)
	if err := os.Chmod(half, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(half, root); err != nil {
		t.Fatal(err)
	}
	return root
}

// build makes the daemon's binary.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "bulkshaper")
	c := exec.Command("go", "build", "-o", binary, "bulkshaper/cmd/bulkshaper")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build the daemon: %v\n%s", err, out)
	}
	return binary
}

// run does a command and gives its output without the final newline.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := try(name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func try(name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	c.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "SYSTEMD_COLORS=0", "SYSTEMD_PAGER=cat")
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	if err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, tail(stdout.String()), tail(stderr.String()))
	}
	return strings.TrimRight(stdout.String(), "\n"), nil
}

// tail is the end of a long output, where what went wrong is.
func tail(s string) string {
	const most = 4000
	if len(s) > most {
		return "..." + s[len(s)-most:]
	}
	return s
}
