// Package packages_test tests the packages: what they are called here, what is in them with the tag "system". That they work is tested
// in systemd/systemtest.
package packages_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func try(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// TestVersion: each version is newer than the one above it for dpkg, which is how rpm compares these as well.
func TestVersion(t *testing.T) {
	older := ""
	for _, test := range []struct{ describe, count, want string }{
		{"014a5d4", "812", "0.0.0+812.g014a5d4"},
		{"014a5d4-dirty", "812", "0.0.0+812.g014a5d4.dirty"},
		{"00000001", "1000", "0.0.0+1000.g00000001"},
		{"v0.9.0", "0", "0.9.0"},
		{"v1.2.3-rc1", "0", "1.2.3~rc1"},
		{"v1.2.3-rc1-5-g014a5d4", "812", "1.2.3~rc1+5.g014a5d4"},
		{"v1.2.3-rc.2", "0", "1.2.3~rc.2"},
		{"v1.2.3", "0", "1.2.3"},
		{"v1.2.3-dirty", "0", "1.2.3+0.dirty"},
		{"v1.2.3-5-g014a5d4", "812", "1.2.3+5.g014a5d4"},
		{"v1.2.3-10-g014a5d4-dirty", "812", "1.2.3+10.g014a5d4.dirty"},
		{"v1.2.4", "0", "1.2.4"},
		{"v1.10.0", "0", "1.10.0"},
	} {
		got, err := try("./version", test.describe, test.count)
		if err != nil || got != test.want {
			t.Errorf("%s of %s commits is %s, %v; want %s", test.describe, test.count, got, err, test.want)
		}
		if older != "" {
			if out, err := try("dpkg", "--compare-versions", older+"-1", "lt", got+"-1"); err != nil {
				t.Errorf("%s is not older than %s: %v %s", older, got, err, out)
			}
		}
		older = got
	}
}

// TestScriptsAreWellFormed: a maintainer script with a mistake in it leaves a node with half a package.
func TestScriptsAreWellFormed(t *testing.T) {
	scripts, err := filepath.Glob("scripts/*/*")
	if err != nil || len(scripts) != 6 {
		t.Fatalf("scripts %q, %v", scripts, err)
	}
	for _, script := range append(scripts, "version") {
		if out, err := try("dash", "-n", script); err != nil {
			t.Errorf("%s: %v %s", script, err, out)
		}
	}
	if out, err := try("bash", "-n", "build"); err != nil {
		t.Errorf("build: %v %s", err, out)
	}
}
