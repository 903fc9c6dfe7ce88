package config

import (
	"strings"
	"testing"
	"time"
)

// TestHostileFiles holds the bounds: these would take minutes or gigabytes without them.
//
// PROMISES.md: Any bytes are in the files, in flags or in what the kernel answers
func TestHostileFiles(t *testing.T) {
	laughs := "interface: eth1\nx0: &x0 [a,a,a,a,a,a,a,a,a,a]\n"
	for i := '1'; i <= '9'; i++ {
		last := string(i - 1)
		laughs += "x" + string(i) + ": &x" + string(i) + " [" + strings.Repeat("*x"+last+",", 10) + "]\n"
	}
	merges := "a0: &a0 {k0: 1, l0: 1}\n"
	for i := '1'; i <= '9'; i++ {
		last := string(i - 1)
		merges += "a" + string(i) + ": &a" + string(i) + " {<<: [" + strings.Repeat("*a"+last+",", 10) + "]}\n"
	}
	for name, c := range map[string]struct{ data, want string }{
		"billion laughs":   {laughs, "its aliases expand to more than 500000 values"},
		"billion merges":   {merges, "its aliases expand to more than 500000 values"},
		"flow nesting":     {"a: " + strings.Repeat("[", 500_000), "is nested more than 64 deep"},
		"sequence nesting": {strings.Repeat("- ", 500_000), "is nested more than 64 deep"},
		"key nesting":      {strings.Repeat("? ", 500_000), "is nested more than 64 deep"},
		"anchors":          {"a: " + strings.Repeat("&a ", 300_000), "is nested more than 64 deep"},
		"keys":             {strings.Repeat("a: b\n", 200_000), "has more than 20000 keys"},
		"size":             {strings.Repeat("# x\n", 300_000), "is larger than 1048576 bytes"},
		"cycle":            {"a: &a [*a]", "alias *a has no anchor"},
	} {
		start := time.Now()
		_, err := Parse("c", []byte(c.data), Overrides{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %.200v", name, err)
		}
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("%s took %s", name, took)
		}
	}
}
