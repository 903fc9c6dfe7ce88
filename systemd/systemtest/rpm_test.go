//go:build system

package systemtest

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestRPM installs, upgrades and erases the rpm on a running systemd. That is Debian's, which has what the scripts of the package call. rpm is
// the machine's own: it works on the container's folder from outside, where it sees no systemd, so its scripts are run again
// inside with the arguments that rpm gives them. The dependencies are those that dpkg has installed there.
func TestRPM(t *testing.T) {
	need(t, map[string]string{"rpm": "rpm"})
	packages := packed(t, "rpm")
	rpm := func(root string, args ...string) string {
		t.Helper()
		return run(t, "rpm", append([]string{"--root", root, "--dbpath", "/var/lib/rpm", "--nodeps"}, args...)...)
	}
	root := installed(t, newest, func(root string) string {
		return rpm(root, "--install", filepath.Join(packages, first+".rpm"))
	})
	configure(t, root, "resync: 1s\n")
	c := bootInstalled(t, root, packages)
	c.plug(t)
	c.runs(t, first)
	script := func(name, version, argument string) {
		t.Helper()
		text := run(t, "rpm", "--query", "--package", "--queryformat", "%{"+name+"}", filepath.Join(packages, version+".rpm"))
		c.run(t, "sh", "-c", text, name, argument)
	}
	c.send(t, hadoop13, 20)
	standing, packets, edited := c.shaping(t), c.classes(t)[cross].packets, readFile(filepath.Join(c.etc, "config.yaml"))
	if packets != 20 {
		t.Errorf("class %s sent %d packets", cross, packets)
	}

	rpm(root, "--upgrade", filepath.Join(packages, second+".rpm"))
	script("POSTIN", second, "2")
	script("PREUN", first, "1")
	script("POSTUN", first, "1")
	c.runs(t, second)
	c.nothingDone(t)
	if now := c.shaping(t); now != standing {
		t.Errorf("what stood was\n%s\nand is\n%s", standing, now)
	}
	if now := c.classes(t)[cross].packets; now != packets {
		t.Errorf("class %s had sent %d packets and now %d", cross, packets, now)
	}
	if now := readFile(filepath.Join(c.etc, "config.yaml")); now != edited {
		t.Errorf("the operator's config is now\n%s", now)
	}
	if text := readFile(filepath.Join(c.etc, "config.yaml.rpmnew")); !strings.HasSuffix(text, "# A line of the second version.\n") {
		t.Errorf("the second version's config does not lie beside it, but\n%s", text)
	}

	script("PREUN", second, "0")
	rpm(root, "--erase", "bulkshaper")
	script("POSTUN", second, "0")
	if now := c.shaping(t); now != standing {
		t.Errorf("what stood was\n%s\nand, erased, is\n%s", standing, now)
	}
	if out, err := c.try("bash", "-c", "ls /usr/bin/bulkshaper /usr/lib/systemd/system/bulkshaper.service || pgrep bulkshaper"); err == nil || out != "" {
		t.Errorf("there still is\n%s", out)
	}
	if out, err := c.try("systemctl", "is-enabled", "bulkshaper.service"); err == nil {
		t.Errorf("it is %s", out)
	}
	if now := readFile(filepath.Join(c.etc, "config.yaml.rpmsave")); now != edited {
		t.Errorf("the operator's config is kept as\n%s", now)
	}
}
