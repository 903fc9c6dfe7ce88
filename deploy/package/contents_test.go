//go:build system

package packages_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bulkshaper/systemd/debian"
)

// contents are the files of a package that do not differ between deb and rpm, with their modes.
var contents = map[string]string{
	"/usr/bin/bulkshaper":                                  "-rwxr-xr-x",
	"/usr/lib/systemd/system/bulkshaper.service":           "-rw-r--r--",
	"/usr/lib/sysusers.d/bulkshaper.conf":                  "-rw-r--r--",
	"/etc/bulkshaper":                                      "drwxr-xr-x",
	"/etc/bulkshaper/config.yaml":                          "-rw-r--r--",
	"/usr/share/man/man1/bulkshaper.1.gz":                  "-rw-r--r--",
	"/usr/share/man/man1/bulkshaper-plan.1.gz":             "-rw-r--r--",
	"/usr/share/man/man1/bulkshaper-override-list.1.gz":    "-rw-r--r--",
	"/usr/share/man/man5/bulkshaper-config.5.gz":           "-rw-r--r--",
	"/usr/share/bash-completion/completions/bulkshaper":    "-rw-r--r--",
	"/usr/share/fish/vendor_completions.d/bulkshaper.fish": "-rw-r--r--",
	"/usr/share/doc/bulkshaper/copyright":                  "-rw-r--r--",
	"/usr/share/doc/bulkshaper/README.md":                  "-rw-r--r--",
}

func must(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := try(name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// build makes the packages of the tree, with a umask and more in the environment.
func build(t *testing.T, tree, umask string, environment ...string) string {
	t.Helper()
	out := t.TempDir()
	c := exec.Command("sh", "-c", `umask "$1" && exec "$2" "$3"`, "-", umask, filepath.Join(tree, "deploy/package/build"), out)
	c.Env = append(os.Environ(), environment...)
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build the packages: %v\n%s", err, text)
	}
	return out
}

// TestPackages has a look into the packages, as those who install them may before they do.
func TestPackages(t *testing.T) {
	debian.Need(t, map[string]string{"rpm": "rpm", "lintian": "lintian", "mandoc": "mandoc", "zsh": "zsh", "fish": "fish", "git": "git", "file": "file", "cpio": "cpio"})
	tree, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	const version = "v1.2.3-4-gabc1234"
	packages := build(t, tree, "022", "VERSION="+version, "SOURCE_DATE_EPOCH=1700000000")
	of := func(t *testing.T, name string) string {
		t.Helper()
		path := filepath.Join(packages, name)
		if _, err := os.Stat(path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	debs := map[string]string{"amd64": of(t, "bulkshaper_1.2.3+4.gabc1234-1_amd64.deb"), "arm64": of(t, "bulkshaper_1.2.3+4.gabc1234-1_arm64.deb")}
	rpms := map[string]string{"x86_64": of(t, "bulkshaper-1.2.3+4.gabc1234-1.x86_64.rpm"), "aarch64": of(t, "bulkshaper-1.2.3+4.gabc1234-1.aarch64.rpm")}

	for arch, path := range debs {
		t.Run("deb "+arch, func(t *testing.T) { deb(t, path, arch) })
	}
	for arch, path := range rpms {
		t.Run("rpm "+arch, func(t *testing.T) { rpm(t, path, arch) })
	}
	root := t.TempDir()
	must(t, "dpkg-deb", "--extract", debs["amd64"], root)
	t.Run("the program says its version", func(t *testing.T) {
		if out := must(t, filepath.Join(root, "usr/bin/bulkshaper"), "version"); !strings.Contains(out, version) {
			t.Errorf("it says %q", out)
		}
	})
	t.Run("completions", func(t *testing.T) { completions(t, root) })
	t.Run("manual pages", func(t *testing.T) { manual(t, root) })
	t.Run("reproducible", func(t *testing.T) {
		again := build(t, copied(t, tree), "077", "VERSION="+version, "SOURCE_DATE_EPOCH=1700000000", "TZ=Pacific/Auckland", "LC_ALL=C.UTF-8",
			"GOAMD64=v3", "ARCHS=amd64")
		for _, path := range []string{debs["amd64"], rpms["x86_64"]} {
			if first, second := sum(t, path), sum(t, filepath.Join(again, filepath.Base(path))); first != second {
				t.Errorf("%s is another one when it is built in another folder: %s, %s", filepath.Base(path), first, second)
			}
		}
	})
}

func sum(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// copied is the tree as git knows it, with what is not committed yet, in another folder, without git, with other times and modes.
func copied(t *testing.T, tree string) string {
	t.Helper()
	copy := filepath.Join(t.TempDir(), "of")
	for _, name := range strings.Split(must(t, "git", "-C", tree, "ls-files", "--cached", "--others", "--exclude-standard"), "\n") {
		info, err := os.Stat(filepath.Join(tree, name))
		if err != nil {
			continue // removed, and not yet committed
		}
		text, err := os.ReadFile(filepath.Join(tree, name))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(copy, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, info.Mode()&^0o077); err != nil {
			t.Fatal(err)
		}
	}
	return copy
}

func deb(t *testing.T, path, arch string) {
	field := func(name string) string { return must(t, "dpkg-deb", "--field", path, name) }
	for name, want := range map[string]string{"Package": "bulkshaper", "Version": "1.2.3+4.gabc1234-1", "Architecture": arch} {
		if got := field(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	listed := make(map[string]string)
	for _, line := range strings.Split(must(t, "dpkg-deb", "--contents", path), "\n") {
		words := strings.Fields(line)
		if words[1] != "root/root" || words[3] != "2023-11-14" {
			t.Errorf("not root's, or of another day: %s", line)
		}
		listed[strings.TrimSuffix(strings.TrimPrefix(words[5], "."), "/")] = words[0]
	}
	hasContents(t, listed, "/usr/share/zsh/vendor-completions/_bulkshaper", "/usr/share/doc/bulkshaper/changelog.Debian.gz")
	if got := must(t, "dpkg-deb", "--info", path, "conffiles"); got != "/etc/bulkshaper/config.yaml" {
		t.Errorf("conffiles are %q", got)
	}
	root := t.TempDir()
	must(t, "dpkg-deb", "--extract", path, root)
	asInTheTree(t, root, arch)
	if out, err := try("lintian", "--allow-root", "--fail-on", "error,warning", path); err != nil || out != "" {
		t.Errorf("lintian: %v\n%s", err, out)
	}
}

func rpm(t *testing.T, path, arch string) {
	if got := must(t, "rpm", "-qp", "--queryformat", "%{NAME} %{VERSION}-%{RELEASE} %{ARCH} %{BUILDTIME} %{BUILDHOST}", path); got != "bulkshaper 1.2.3+4.gabc1234-1 "+arch+" 1700000000 reproducible" {
		t.Errorf("it is %q", got)
	}
	listed := make(map[string]string)
	for _, line := range strings.Split(must(t, "rpm", "-qp", "--queryformat", `[%{FILEMODES:perms} %{FILEUSERNAME}:%{FILEGROUPNAME} %{FILENAMES}\n]`, path), "\n") {
		words := strings.Fields(line)
		if words[1] != "root:root" {
			t.Errorf("not root's: %s", line)
		}
		listed[words[2]] = words[0]
	}
	hasContents(t, listed, "/usr/share/zsh/site-functions/_bulkshaper")
	if got := must(t, "rpm", "-qp", "--queryformat", `[%{FILENAMES} %{FILEFLAGS:fflags}\n]`, path); !strings.Contains(got, "/etc/bulkshaper/config.yaml cn") {
		t.Errorf("the config is no %%config(noreplace):\n%s", got)
	}
	if out := must(t, "rpm", "-K", path); !strings.Contains(out, "digests OK") {
		t.Errorf("rpm -K: %s", out)
	}
	root := t.TempDir()
	must(t, "bash", "-c", `cd "$1" && rpm2cpio "$2" | cpio --quiet --no-absolute-filenames -idm 2>&1`, "-", root, path)
	asInTheTree(t, root, map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[arch])
}

func hasContents(t *testing.T, listed map[string]string, more ...string) {
	t.Helper()
	for path, mode := range contents {
		if listed[path] != mode {
			t.Errorf("%s has mode %q, want %q", path, listed[path], mode)
		}
	}
	for _, path := range more {
		if listed[path] != "-rw-r--r--" {
			t.Errorf("%s has mode %q", path, listed[path])
		}
	}
	for path := range listed {
		if !regexp.MustCompile(`^(|/usr|/etc)$|^/usr/(bin|lib|share)(/|$)|^/etc/bulkshaper`).MatchString(path) {
			t.Errorf("%s has no place in a package", path)
		}
	}
}

// asInTheTree: what is not made by the build is the tree's, byte for byte, and the program is for its processor.
func asInTheTree(t *testing.T, root, arch string) {
	t.Helper()
	for packed, source := range map[string]string{
		"usr/lib/systemd/system/bulkshaper.service": "../../systemd/bulkshaper.service",
		"etc/bulkshaper/config.yaml":                "../../shaper/config/reference.yaml",
		"usr/lib/sysusers.d/bulkshaper.conf":        "sysusers.conf",
	} {
		if sum(t, filepath.Join(root, packed)) != sum(t, source) {
			t.Errorf("%s is not %s", packed, source)
		}
	}
	kind := must(t, "file", "--brief", filepath.Join(root, "usr/bin/bulkshaper"))
	want := map[string]string{"amd64": "x86-64", "arm64": "ARM aarch64"}[arch]
	for _, word := range []string{want, "statically linked", "stripped"} {
		if !strings.Contains(kind, word) {
			t.Errorf("the program is no %s: %s", word, kind)
		}
	}
	copyright, err := os.ReadFile(filepath.Join(root, "usr/share/doc/bulkshaper/copyright"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"\n== Go\n", "\n== github.com/spf13/cobra ", "\n== github.com/vishvananda/netlink ", "Apache License"} {
		if !strings.Contains(string(copyright), part) {
			t.Errorf("the licenses lack %q", part)
		}
	}
}

// completions: each shell reads its own, and bash completes a command with it.
func completions(t *testing.T, root string) {
	bash, program := filepath.Join(root, "usr/share/bash-completion/completions/bulkshaper"), filepath.Join(root, "usr/bin")
	must(t, "zsh", "-n", filepath.Join(root, "usr/share/zsh/vendor-completions/_bulkshaper"))
	must(t, "fish", "--no-execute", filepath.Join(root, "usr/share/fish/vendor_completions.d/bulkshaper.fish"))
	out := must(t, "bash", "-euc", `PATH=$2:$PATH
source "$1"
_get_comp_words_by_ref() { cur=ex prev=bulkshaper words=(bulkshaper ex) cword=1; } # bash-completion's own
__ltrim_colon_completions() { :; }
COMP_LINE='bulkshaper ex' COMP_POINT=13 COMP_TYPE=9 COMP_WORDS=(bulkshaper ex) COMP_CWORD=1 COMPREPLY=()
set +eu
__start_bulkshaper
printf '%s\n' "${COMPREPLY[@]}"`, "-", bash, program)
	if !slices.Contains(strings.Fields(out), "explain") {
		t.Errorf("bulkshaper ex<TAB> is %q", out)
	}
	fish := must(t, "fish", "--no-config", "-c", `set -x PATH $argv[2] $PATH; source $argv[1]; complete --do-complete 'bulkshaper ex'`,
		filepath.Join(root, "usr/share/fish/vendor_completions.d/bulkshaper.fish"), program)
	if !strings.HasPrefix(fish, "explain\t") {
		t.Errorf("fish completes bulkshaper ex to %q", fish)
	}
}

// manual: mandoc finds nothing to warn of in any page.
func manual(t *testing.T, root string) {
	var pages []string
	err := filepath.WalkDir(filepath.Join(root, "usr/share/man"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil || len(pages) < 15 {
		t.Fatalf("pages %q, %v", pages, err)
	}
	must(t, "gunzip", pages...)
	for i, page := range pages {
		pages[i] = strings.TrimSuffix(page, ".gz")
	}
	if out, err := try("mandoc", append([]string{"-T", "lint", "-W", "warning"}, pages...)...); err != nil || out != "" {
		t.Errorf("mandoc: %v\n%s", err, out)
	}
	shown := must(t, "mandoc", filepath.Join(root, "usr/share/man/man1/bulkshaper-plan.1"))
	if plain := regexp.MustCompile(".\b").ReplaceAllString(shown, ""); !strings.Contains(plain, "--exit-code") || !strings.Contains(plain, "bulkshaper v1.2.3-4-gabc1234") || !strings.Contains(plain, "November 14, 2023") && !strings.Contains(plain, "2023-11-14") {
		t.Errorf("bulkshaper-plan(1):\n%s", plain)
	}
}
