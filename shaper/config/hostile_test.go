package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"bulkshaper/inventory"
	"bulkshaper/inventory/bound"
)

// hostilePerByte is what hostile files may take from the heap for each byte: the YAML library has a large object for each token.
const hostilePerByte = 2000

// many is text so many times, each with its number in decimal and in hexadecimal.
func many(count int, text string) string {
	var b strings.Builder
	for i := range count {
		fmt.Fprintf(&b, text, i%256, i+1)
	}
	return b.String()
}

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
		"gigantic number":  {"link_rate: " + strings.Repeat("9", 1_000_000), "is not a number with one of tc's units"},
		"gigantic percent": {"inventory: {max_shrink: " + strings.Repeat("9", 1_000_000) + "%}", "is no percentage"},
		"long name":        {"classes: {" + strings.Repeat("a", 1_000_000) + ": {id: 1, rate: 1mbit}}", "is no name for a class"},
		"many addresses":   {"rules: [{name: a, match: {address: [" + many(4_000, "10.%d.1.1,\"%x\",") + "]}, class: b}]", "is neither an address nor a prefix"},
		"wrong globs":      {"rules: [{name: a, match: {server: [" + many(4_000, "\"[%d%x\",") + "]}, class: b}]", "is no pattern"},
	} {
		var err error
		bound.Check(t, len(c.data), hostilePerByte, func() { _, err = Parse("c", []byte(c.data), Overrides{}) })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %.200v", name, err)
		}
		var ps inventory.Problems
		if errors.As(err, &ps) {
			for _, p := range ps[:min(len(ps), 100)] {
				if len(p.Message) > longestMessage {
					t.Errorf("%s: a message of %d bytes", name, len(p.Message))
				}
			}
		}
	}
}
