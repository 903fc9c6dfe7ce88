package ansible

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// read gives all files of the role that match, by path.
func read(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: no files, %v", pattern, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var any any
			if err := yaml.Unmarshal(text, &any); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			texts[path] = string(text)
		}
	}
	return texts
}

// TestVariables: each variable that can be told is documented and used, and each that is used can be told or is made by the role itself. A
// variable with a typing error would be an empty one, or an error on the twentieth node.
func TestVariables(t *testing.T) {
	texts := read(t, "site.yml", "roles/bulkshaper/*/*.yml")
	defaults := texts["roles/bulkshaper/defaults/main.yml"]
	known := map[string]bool{"bulkshaper_batch": true} // of the playbook: a role's defaults are not known where a play says how many
	told := map[string]bool{}
	for _, block := range strings.Split(strings.TrimPrefix(defaults, "---\n"), "\n\n") {
		for _, m := range regexp.MustCompile(`(?m)^(bulkshaper_\w+):`).FindAllStringSubmatch(block, -1) {
			told[m[1]], known[m[1]] = true, true
			if !strings.HasPrefix(block, "# ") {
				t.Errorf("%s is not documented", m[1])
			}
		}
	}
	if len(told) < 10 {
		t.Fatalf("only %d variables in\n%s", len(told), defaults)
	}
	made := regexp.MustCompile(`register: (bulkshaper_\w+)|(?m)^ +(bulkshaper_\w+): `)
	used := regexp.MustCompile(`bulkshaper_\w+`)
	uses := map[string]bool{}
	for path, text := range texts {
		if strings.Contains(path, "/defaults/") {
			continue
		}
		for _, m := range made.FindAllStringSubmatch(text, -1) {
			known[m[1]+m[2]] = true
		}
	}
	for path, text := range texts {
		if strings.Contains(path, "/defaults/") {
			continue
		}
		for _, name := range used.FindAllString(text, -1) {
			if uses[name] = true; !known[name] {
				t.Errorf("%s uses %s, which nobody sets", path, name)
			}
		}
	}
	for name := range told {
		if !uses[name] {
			t.Errorf("%s is told and not used", name)
		}
	}
}

// TestReferences: files and handlers that are named are there.
func TestReferences(t *testing.T) {
	texts := read(t, "site.yml", "roles/bulkshaper/*/*.yml")
	handlers := texts["roles/bulkshaper/handlers/main.yml"]
	found := 0
	for path, text := range texts {
		for _, m := range regexp.MustCompile(`(?:include_tasks|import_tasks|tasks_from): (\S+)`).FindAllStringSubmatch(text, -1) {
			if found++; texts["roles/bulkshaper/tasks/"+m[1]] == "" {
				t.Errorf("%s: no file %s", path, m[1])
			}
		}
		for _, m := range regexp.MustCompile(`notify: (.+)`).FindAllStringSubmatch(text, -1) {
			if found++; !strings.Contains(handlers, "listen: "+m[1]+"\n") {
				t.Errorf("%s: no handler listens to %q", path, m[1])
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d references were found", found)
	}
}

// TestStopsByItself: one node goes first, and no failure is let pass.
func TestStopsByItself(t *testing.T) {
	var plays []struct {
		Hosts  string
		Become bool
		Serial []any
		Most   *int `yaml:"max_fail_percentage"`
		Roles  []string
		Tasks  []map[string]any
	}
	if err := yaml.Unmarshal([]byte(read(t, "site.yml")["site.yml"]), &plays); err != nil {
		t.Fatal(err)
	}
	if len(plays) != 2 || len(plays[0].Tasks) == 0 || len(plays[1].Roles) == 0 {
		t.Fatalf("want a play that checks and one that rolls out: %+v", plays)
	}
	for _, p := range plays {
		if p.Most == nil || *p.Most != 0 {
			t.Errorf("the play of %s goes on after failures", p.Hosts)
		}
	}
	if s := plays[1].Serial; len(s) != 2 || s[0] != uint64(1) {
		t.Errorf("the batches are %v, want one node first", s)
	}
}
