package debian

import (
	"fmt"
	"strings"
	"testing"
)

// failing records what a test is told; Fatalf ends it as that of testing does.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	panic(f)
}

func TestNeed(t *testing.T) {
	Need(t, map[string]string{"sh": "no-package-of-this-name"}) // it is there: nothing is installed

	t.Setenv("PATH", t.TempDir()) // no apt-get either
	f := &failing{TB: t}
	func() {
		defer func() { _ = recover() }()
		Need(f, map[string]string{"no-program-of-this-name": "its-package", "nor-this": "its-package"})
	}()
	if !strings.HasPrefix(f.said, "install its-package") || strings.Count(f.said, "its-package") != 1 {
		t.Errorf("the test was told %q", f.said)
	}
}
