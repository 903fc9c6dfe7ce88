//go:build system

package systemtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// first and second are the versions that are packed.
const (
	first  = "v1.0.0"
	second = "v1.1.0"
)

// packed is a folder with packages of the format (deb, rpm) of both versions for this machine, first.deb and second.deb. The second has
// another reference config.
func packed(t *testing.T, format string) string {
	t.Helper()
	tree, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	arch := strings.TrimSpace(run(t, "go", "env", "GOHOSTARCH"))
	pack := func(tree, version string) {
		c := exec.Command(filepath.Join(tree, "deploy/package/build"), filepath.Join(out, version))
		c.Env = append(os.Environ(), "VERSION="+version, "SOURCE_DATE_EPOCH=1700000000", "FORMATS="+format, "ARCHS="+arch)
		if text, err := c.CombinedOutput(); err != nil {
			t.Fatalf("build the packages: %v\n%s", err, tail(string(text)))
		}
		made, err := filepath.Glob(filepath.Join(out, version, "*."+format))
		if err != nil || len(made) != 1 {
			t.Fatalf("packages %q, %v", made, err)
		}
		if err := os.Rename(made[0], filepath.Join(out, version+"."+format)); err != nil {
			t.Fatal(err)
		}
	}
	pack(tree, first)
	other := t.TempDir()
	run(t, "bash", "-c", `cd "$1" && git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents --target-directory="$2"`, "-", tree, other)
	edit(t, filepath.Join(other, "shaper/config/reference.yaml"), func(s string) string { return s + "# A line of the second version.\n" })
	pack(other, second)
	return out
}

// installed is a Debian of its own in which a package was installed and enabled while nothing of it ran, as those do it who make images.
func installed(t *testing.T, suite string, install func(root string) string) (root string) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "root")
	run(t, "cp", "--archive", "--reflink=auto", suiteFolder(t, suite), root)
	if out := install(root); strings.Contains(out, "ystemctl") {
		t.Errorf("installing where no systemd runs says:\n%s", out)
	}
	if out, err := try("systemctl", "--root="+root, "is-enabled", "bulkshaper.service"); err == nil {
		t.Errorf("an installation makes it %s: nobody has read a plan yet", out)
	}
	for _, user := range []string{"passwd", "group"} {
		if text := readFile(filepath.Join(root, "etc", user)); !strings.Contains(text, "\nbulkshaper:") {
			t.Errorf("no bulkshaper in /etc/%s:\n%s", user, text)
		}
	}
	run(t, "systemctl", "--root="+root, "enable", "bulkshaper.service")
	folder := filepath.Join(root, "etc/systemd/system/bulkshaper.service.d")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "sooner.conf"), []byte(sooner), 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

// sooner shortens what takes long with the unit as it is.
const sooner = "[Service]\nRestartSec=500ms\nWatchdogSec=3s\n"

// bootInstalled boots such a Debian.
func bootInstalled(t *testing.T, root, packages string) *container {
	t.Helper()
	c := bootRoot(t, root, "bulkshaper"+strconv.Itoa(os.Getpid()), nil, "--volatile=no", "--bind-ro="+packages+":/packages")
	c.etc = filepath.Join(root, "etc/bulkshaper")
	return c
}

// configure puts the incident's config and inventory in the place of what a package installed.
func configure(t *testing.T, root, config string) {
	t.Helper()
	etc := filepath.Join(root, "etc/bulkshaper")
	if err := os.Remove(filepath.Join(etc, "config.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(etc, os.DirFS("../../testdata/incident")); err != nil {
		t.Fatal(err)
	}
	edit(t, filepath.Join(etc, "config.yaml"), func(s string) string { return s + config })
}

// TestUnit is the life of a node, from the installation of the deb to its purge: it boots before its bulk interface is there, is shaped,
// edited, broken, killed, hung, stopped, upgraded, removed, installed again and purged.
func TestUnit(t *testing.T) {
	packages := packed(t, "deb")
	for _, suite := range []string{oldest, newest} {
		t.Run(suite, func(t *testing.T) {
			root := installed(t, suite, func(root string) string {
				return run(t, "unshare", "--net", "--mount", "--", "systemd-nspawn", "--directory="+root, "--register=no", "--keep-unit", "--quiet", "--pipe",
					"--bind-ro="+packages+":/packages", "dpkg", "--install", packageOf(first))
			})
			if got, want := readFile(filepath.Join(root, "etc/bulkshaper/config.yaml")), readFile("../../shaper/config/reference.yaml"); got != want || want == "" {
				t.Errorf("the config is not the reference, but\n%s", got)
			}
			configure(t, root, "resync: 1s\n")
			c := bootInstalled(t, root, packages)
			life(t, c)
			upgrades(t, c)
			removals(t, c)
		})
	}
}

// steps runs tests of which each begins where the one before ends.
func steps(t *testing.T) func(name string, test func(*testing.T)) {
	return func(name string, test func(*testing.T)) {
		t.Helper()
		if !t.Run(name, test) {
			t.FailNow()
		}
	}
}

// shaping is all that stands on the interface, without its counters.
func (c *container) shaping(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, kind := range []string{"qdisc", "class", "filter"} {
		all.WriteString(c.run(t, "tc", kind, "show", "dev", "eth1") + "\n")
	}
	return all.String()
}

// nothingDone fails where the daemon that runs now has changed the kernel.
func (c *container) nothingDone(t *testing.T) {
	t.Helper()
	for series, v := range c.metrics(t) {
		if strings.HasPrefix(series, "bulkshaper_operations_total{") && v != 0 || series == "bulkshaper_rebuilds_total" && v != 0 {
			t.Errorf("taking over what stands as wanted: %s is %v", series, v)
		}
	}
}

// runs waits until a daemon of the version is active.
func (c *container) runs(t *testing.T, version string) {
	t.Helper()
	eventually(t, "version "+version+" is active", func() error {
		if state := c.property(t, "ActiveState"); state != "active" {
			return fmt.Errorf("it is %s; its log:\n%s", state, strings.Join(c.journal(t), "\n"))
		}
		metrics, err := c.scrape() // the port may be opened a moment later
		for series := range metrics {
			if strings.HasPrefix(series, "bulkshaper_build_info{") && strings.Contains(series, `version="`+version+`"`) {
				return nil
			}
		}
		return fmt.Errorf("the metrics are of another version, or there are none: %v", err)
	})
	if out := c.run(t, "bulkshaper", "version"); !strings.Contains(out, version) {
		t.Errorf("the program is %s", out)
	}
}
