package scenario

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// promise is a line of the table: a fault, and what holds the promise, by name.
type promise struct {
	fault string
	by    []string
}

// readPromises reads the rows of the tables in PROMISES.md; their last cell names scripts and tests.
func readPromises(t *testing.T) []promise {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(module, "PROMISES.md"))
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile("`([^`]+)`")
	var all []promise
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|-") || strings.HasPrefix(line, "| Fault") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != columns {
			t.Errorf("PROMISES.md has %d cells, not %d, in %s", len(cells), columns, line)
			continue
		}
		p := promise{fault: strings.TrimSpace(cells[0])}
		for _, m := range name.FindAllStringSubmatch(cells[columns-1], -1) {
			p.by = append(p.by, m[1])
		}
		for _, cell := range cells {
			if strings.TrimSpace(cell) == "" {
				t.Errorf("PROMISES.md says nothing in a cell of %q", p.fault)
			}
		}
		all = append(all, p)
	}
	return all
}

// columns: fault, log, metrics and status, traffic, held by.
const columns = 5

// TestPromises holds PROMISES.md against what is held: each row names scripts or tests that name the row, and each script has a row.
func TestPromises(t *testing.T) {
	named := map[string][]string{} // faults by the name of the script or test
	mark := regexp.MustCompile(`(?m)^(?:#|//|\s+//) PROMISES\.md: (.+)$`)
	function := regexp.MustCompile(`^func (Test\w+|Fuzz\w+)\(`)
	scriptNames := map[string]bool{}
	err := filepath.WalkDir(module, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		script := strings.HasSuffix(name, ".txtar") && strings.Contains(filepath.ToSlash(name), "scenario/testdata/")
		if !script && !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if script {
			base := strings.TrimSuffix(filepath.Base(name), ".txtar")
			scriptNames[base] = true
			for _, m := range mark.FindAllStringSubmatch(string(text), -1) {
				named[base] = append(named[base], m[1])
			}
			return nil
		}
		var pending []string // faults that stand in the comment of the function that follows
		for line := range strings.Lines(string(text)) {
			line = strings.TrimRight(line, "\n")
			switch m := mark.FindStringSubmatch(line); {
			case m != nil:
				pending = append(pending, m[1])
			case function.MatchString(line):
				name := function.FindStringSubmatch(line)[1]
				named[name] = append(named[name], pending...)
				pending = nil
			case !strings.HasPrefix(line, "//"):
				pending = nil
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	promised := map[string]bool{}
	for _, p := range readPromises(t) {
		if promised[p.fault] {
			t.Errorf("PROMISES.md has %q twice", p.fault)
		}
		promised[p.fault] = true
		if len(p.by) == 0 {
			t.Errorf("PROMISES.md says not what holds %q", p.fault)
		}
		for _, by := range p.by {
			if !slices.Contains(named[by], p.fault) {
				t.Errorf("PROMISES.md says that %s holds %q, and %s does not say `PROMISES.md: %s`", by, p.fault, by, p.fault)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(named)) {
			if slices.Contains(named[name], p.fault) && !slices.Contains(p.by, name) {
				t.Errorf("%s says that it holds %q, and PROMISES.md does not name it there", name, p.fault)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		for _, fault := range named[name] {
			if !promised[fault] {
				t.Errorf("%s is about %q, which PROMISES.md does not have", name, fault)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(scriptNames)) {
		if len(named[name]) == 0 {
			t.Errorf("%s.txtar has no line `# PROMISES.md: FAULT`", name)
		}
	}
}
