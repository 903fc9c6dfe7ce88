//go:build system

package qemutest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"bulkshaper/systemd/debian"
)

// need has Debian's programs there.
func need(t *testing.T, programs map[string]string) {
	t.Helper()
	if os.Getuid() != 0 || runtime.GOARCH != "amd64" {
		t.Fatal("these tests install packages and boot kernels for amd64: run them as root on such a machine")
	}
	debian.Need(t, programs)
}

// debianKernel is an unpacked kernel package.
type debianKernel struct {
	release string // as uname -r says
	image   string
	modules string // the folder of all modules
}

// findKernel gives the newest kernel package of a series, unpacked and not installed.
func findKernel(t *testing.T, series string) debianKernel {
	t.Helper()
	name, err := newest(series)
	if err != nil {
		run(t, "", "apt-get", "update")
		if name, err = newest(series); err != nil {
			t.Fatal(err)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	cache = filepath.Join(cache, "bulkshaper-qemutest")
	root := filepath.Join(cache, name)
	if _, err := os.Stat(root); err != nil {
		unpack(t, cache, root, name)
	}
	release := strings.TrimPrefix(name, "linux-image-")
	k := debianKernel{release: release, image: filepath.Join(root, "boot", "vmlinuz-"+release)}
	for _, lib := range []string{"lib", "usr/lib"} {
		if dir := filepath.Join(root, lib, "modules", release); isDir(dir) {
			k.modules = dir
		}
	}
	if k.modules == "" {
		t.Fatalf("%s has no modules: delete it and try again", root)
	}
	return k
}

// newest is the package name of the highest version of a series that apt knows.
func newest(series string) (string, error) {
	pattern := `^linux-image-` + regexp.QuoteMeta(series) + `[.][^ ]*-cloud-amd64$`
	out, err := try("", "apt-cache", "search", "--names-only", pattern)
	if err != nil {
		return "", err
	}
	var names []string
	for line := range strings.Lines(out) {
		name, _, _ := strings.Cut(line, " ")
		names = append(names, name)
	}
	if len(names) == 0 {
		return "", fmt.Errorf("apt knows no package %s: Debian bookworm, its security updates and its backports have it, add them to the sources", pattern)
	}
	return slices.MaxFunc(names, compareVersions), nil
}

// compareVersions orders package names that differ in numbers.
func compareVersions(a, b string) int {
	number := regexp.MustCompile(`\d+`)
	pad := func(s string) string {
		return number.ReplaceAllStringFunc(s, func(n string) string { return fmt.Sprintf("%09s", n) })
	}
	return strings.Compare(pad(a), pad(b))
}

// unpack downloads a package and unpacks it at root: built beside and renamed, so that one that was interrupted is not taken for whole.
func unpack(t *testing.T, cache, root, name string) {
	t.Helper()
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	half, err := os.MkdirTemp(cache, "half-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(half)
	if _, err := try(half, "apt-get", "-o", "APT::Sandbox::User=root", "download", name); err != nil {
		run(t, "", "apt-get", "update")
		run(t, half, "apt-get", "-o", "APT::Sandbox::User=root", "download", name)
	}
	packages, err := filepath.Glob(filepath.Join(half, "*.deb"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("downloaded %v, %v", packages, err)
	}
	whole := filepath.Join(half, "whole")
	run(t, half, "dpkg-deb", "-x", packages[0], whole)
	if err := os.Rename(whole, root); err != nil {
		t.Fatal(err)
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// run does a command in a folder and gives its output; the test fails if it does.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	out, err := try(dir, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func try(dir, name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "CGO_ENABLED=0")
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}
