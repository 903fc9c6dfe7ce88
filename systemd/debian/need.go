// Package debian gives tests that need a whole system the programs of Debian's packages.
package debian

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// lockWait has apt wait for another one, for seconds: on a machine that was just set up there may be one at work.
const lockWait = "DPkg::Lock::Timeout=300"

// Need installs the packages that have the programs, where one is missing: programs is a program's name to its package. Where that cannot be
// done the test fails, with what to install.
func Need(t testing.TB, programs map[string]string) {
	t.Helper()
	missing := func() (packages []string) {
		for program, name := range programs {
			if _, err := exec.LookPath(program); err != nil {
				packages = append(packages, name)
			}
		}
		slices.Sort(packages)
		return slices.Compact(packages)
	}
	packages := missing()
	if len(packages) == 0 {
		return
	}
	if os.Getuid() != 0 {
		t.Fatalf("install %s, or run this as root, who may", strings.Join(packages, " "))
	}
	install := append([]string{"install", "-y", "--no-install-recommends"}, packages...)
	err := apt(install...)
	if err != nil { // the lists may be old, or none
		if err = apt("update"); err == nil {
			err = apt(install...)
		}
	}
	if left := missing(); len(left) > 0 {
		t.Fatalf("install %s: %v", strings.Join(left, " "), err)
	}
}

func apt(args ...string) error {
	c := exec.Command("apt-get", append([]string{"-q", "-o", lockWait}, args...)...)
	c.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	out, err := c.CombinedOutput()
	if err != nil {
		return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}
