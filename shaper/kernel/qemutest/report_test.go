//go:build system

package qemutest

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// failure is a test that did not pass, with what it wrote itself.
type failure struct{ name, verdict, output string }

// failures finds in the output of a verbose run the tests that failed or were skipped, in the order in which they ended, and one
// that was still running: the run ended in it, by a panic or a time limit. A test that failed only by those inside it has no output
// of its own worth a place, and is left out.
func failures(output string) []failure {
	var ended []failure
	written, open := map[string]*strings.Builder{}, []string{}
	turn := regexp.MustCompile(`^=== (RUN|NAME|CONT|PAUSE) +(\S*)`)
	verdict := regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+)`)
	current := ""
	for line := range strings.Lines(output) {
		if m := turn.FindStringSubmatch(line); m != nil {
			if current = m[2]; m[1] == "RUN" {
				written[current], open = &strings.Builder{}, append(open, current)
			}
			continue
		}
		if m := verdict.FindStringSubmatch(line); m != nil {
			current = m[2] // what it logged in an older form of the output stands behind
			for i, name := range open {
				if name == current {
					open = append(open[:i:i], open[i+1:]...)
					break
				}
			}
			if m[1] != "PASS" {
				ended = append(ended, failure{name: current, verdict: strings.TrimSpace(line)})
			}
			continue
		}
		if b := written[current]; b != nil && strings.TrimSpace(line) != "FAIL" && strings.TrimSpace(line) != "PASS" {
			b.WriteString(line)
		}
	}
	if len(open) > 0 {
		ended = append(ended, failure{name: open[len(open)-1], verdict: "--- DID NOT END: " + open[len(open)-1]})
	}
	var found []failure
	for _, f := range ended {
		f.output = written[f.name].String()
		hasInner := false
		for _, other := range ended {
			hasInner = hasInner || strings.HasPrefix(other.name, f.name+"/")
		}
		if !hasInner || strings.TrimSpace(f.output) != "" {
			found = append(found, f)
		}
	}
	return found
}

// report is failures for people, the end of each output: the messages of a test that fails stand there. What all goroutines were at
// is left out.
func report(found []failure) string {
	var b strings.Builder
	for _, f := range found {
		output, _, _ := strings.Cut(f.output, "\n\ngoroutine ")
		fmt.Fprintf(&b, "%s\n%s\n", f.verdict, strings.TrimRight(end(output, 3000), "\n"))
	}
	return b.String()
}

// end is the last part of s.
func end(s string, most int) string {
	if len(s) > most {
		return "..." + s[len(s)-most:]
	}
	return s
}

func TestFailures(t *testing.T) {
	const output = `=== RUN   TestGood
    good_test.go:1: fine
--- PASS: TestGood (0.00s)
=== RUN   TestOuter
=== RUN   TestOuter/one
    outer_test.go:7: one went wrong
=== RUN   TestOuter/two
--- FAIL: TestOuter (0.10s)
    --- FAIL: TestOuter/one (0.05s)
    --- PASS: TestOuter/two (0.05s)
=== RUN   TestA
=== PAUSE TestA
=== RUN   TestB
=== PAUSE TestB
=== CONT  TestA
=== CONT  TestB
    b_test.go:3: b said
=== NAME  TestA
    a_test.go:4: a said
--- FAIL: TestA (0.01s)
--- PASS: TestB (0.01s)
=== RUN   TestSkipped
    s_test.go:2: why
--- SKIP: TestSkipped (0.00s)
=== RUN   TestHangs
panic: test timed out after 1s
`
	want := []failure{
		{"TestOuter/one", "--- FAIL: TestOuter/one (0.05s)", "    outer_test.go:7: one went wrong\n"},
		{"TestA", "--- FAIL: TestA (0.01s)", "    a_test.go:4: a said\n"},
		{"TestSkipped", "--- SKIP: TestSkipped (0.00s)", "    s_test.go:2: why\n"},
		{"TestHangs", "--- DID NOT END: TestHangs", "panic: test timed out after 1s\n"},
	}
	got := failures(output)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if text := report(got); !strings.HasSuffix(text, "--- DID NOT END: TestHangs\npanic: test timed out after 1s\n") || strings.Contains(text, "b said") || strings.Contains(text, "fine") {
		t.Errorf("report:\n%s", text)
	}
	if got := failures("=== RUN   TestGood\n--- PASS: TestGood (0.00s)\nPASS\n"); got != nil {
		t.Errorf("of a run without failures: %q", got)
	}
}
