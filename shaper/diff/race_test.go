//go:build race

package diff_test

import (
	"flag"
	"os"
	"testing"
)

// The race detector makes the properties' checks ten times as slow and finds nothing more in pure code by their number; `make
// test` runs them in full without it.
func TestMain(m *testing.M) {
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		_ = checks.Value.Set("10")
	}
	os.Exit(m.Run())
}
