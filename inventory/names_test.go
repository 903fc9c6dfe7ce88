package inventory

import (
	"fmt"
	"strings"
	"testing"
)

// TestNamesOfAnObject finds names that occur twice, among few and many, before and after inner objects with the same names.
func TestNamesOfAnObject(t *testing.T) {
	for _, count := range []int{1, fewNames - 1, fewNames, fewNames + 1, 5 * fewNames} {
		var members []string
		for i := range count {
			members = append(members, fmt.Sprintf(`"k%d": {"k%d": {"k0": 1}, "in": [{"k0": 1}, {"k0": 2}]}`, i, i))
		}
		significant := func(depth int, _ string) bool { return depth == 1 }
		check := func(more ...string) string {
			doc, problem := openDocument("x.json", []byte("{"+strings.Join(append(members[:count:count], more...), ", ")+"}"))
			if problem != nil {
				t.Fatal(problem)
			}
			var messages []string
			for _, p := range checkSyntax(doc, significant) {
				messages = append(messages, p.Message)
			}
			return strings.Join(messages, "; ")
		}
		last := fmt.Sprintf("k%d", count-1)
		for _, test := range []struct{ more, want string }{
			{`"other": 1`, ""},
			{fmt.Sprintf("%q: 1", last), fmt.Sprintf("key %q occurs twice in one object", last)},
			{`"K0": 1`, `keys "k0" and "K0" of one object differ only in case`},
			{`"o": {"a": 1, "A": 2}`, ""},
			{`"o": {"a": 1, "A": 2, "A": 3}`, `key "A" occurs twice in one object`},
			{`"o": {"a": 1, "A": 2, "a": 3}`, `key "a" occurs twice in one object`},
		} {
			if got := check(test.more); got != test.want {
				t.Errorf("%d names and %s: %q, want %q", count, test.more, got, test.want)
			}
		}
	}
}
