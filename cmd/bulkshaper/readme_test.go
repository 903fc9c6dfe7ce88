package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// elsewhere are the commands of the README that are not the program's, and for each the file that runs it, with the words that it has there.
var elsewhere = map[string][2]string{
	"make demo":                            {"cmd/bulkshaper/story_alone_test.go", "TestIncident"},
	"make test":                            {".ci/run", "for target in test test-system"},
	"make packages":                        {"deploy/package/contents_test.go", `"deploy/package/build"`},
	"apt install":                          {"systemd/systemtest/package_test.go", `"dpkg", "--install"`},
	"systemctl enable --now bulkshaper":    {"systemd/systemtest/unit_test.go", `"enable", "--now", "bulkshaper"`},
	"systemctl disable --now bulkshaper":   {"systemd/systemtest/unit_test.go", `"disable", "--now", "bulkshaper"`},
	"ansible-playbook -i hosts":            {"systemd/systemtest/rollout_test.go", "ansible-playbook"},
	"promtool check rules":                 {"deploy/monitortest/promtool_test.go", `"check", "rules"`},
	"bulkshaper demo --scenario incident ": {"cmd/bulkshaper/story_test.go", "incident"},
}

// readme is the README's text.
func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestReadmeCommandsRun runs each command of the README, word for word but for its paths: the program's own here, on a node of the incident; of the
// others it is looked that the test that runs them is there.
func TestReadmeCommandsRun(t *testing.T) {
	t.Parallel()
	lines := regexp.MustCompile(`(?m)^    (\S.*)$`).FindAllStringSubmatch(regexp.MustCompile("(?s)```.*?```").ReplaceAllString(readme(t), ""), -1)
	if len(lines) < 20 {
		t.Fatalf("only %d commands are found", len(lines))
	}
	used := map[string]bool{}
	for _, m := range lines {
		command, _, _ := strings.Cut(m[1], "  #")
		command, _, _ = strings.Cut(command, " # ")
		command = strings.TrimSpace(command)
		if strings.HasPrefix(command, "bulkshaper ") {
			t.Run(command, func(t *testing.T) {
				t.Parallel()
				runExample(t, command)
			})
			continue
		}
		known := slices.DeleteFunc(slices.Collect(maps.Keys(elsewhere)), func(begin string) bool { return !strings.HasPrefix(command, begin) })
		if len(known) != 1 {
			t.Errorf("no test runs %q", command)
			continue
		}
		used[known[0]] = true
		where := elsewhere[known[0]]
		if text, err := os.ReadFile(filepath.Join("..", "..", where[0])); err != nil || !strings.Contains(string(text), where[1]) {
			t.Errorf("%s should run %q, and has no %s: %v", where[0], command, where[1], err)
		}
	}
	for begin := range elsewhere {
		if !used[begin] && !strings.Contains(readme(t), begin) {
			t.Errorf("the README has no %q any more", begin)
		}
	}
}

// TestReadmeTargets: what the README says of make is in the Makefile.
func TestReadmeTargets(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := regexp.MustCompile("(?m)(?:^    |`)make ([a-z-]+)").FindAllStringSubmatch(readme(t), -1)
	if len(targets) < 5 {
		t.Fatalf("only %d targets are found", len(targets))
	}
	for _, m := range targets {
		if !regexp.MustCompile(`(?m)^` + m[1] + `:`).Match(makefile) {
			t.Errorf("the Makefile has no %s", m[1])
		}
	}
}

// TestReadmeLinks: files that the README leads to are there.
func TestReadmeLinks(t *testing.T) {
	t.Parallel()
	links := regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(readme(t), -1)
	if len(links) < 5 {
		t.Fatalf("only %d links are found", len(links))
	}
	for _, m := range links {
		if _, err := os.Stat(filepath.Join("..", "..", m[1])); err != nil {
			t.Errorf("link: %v", err)
		}
	}
}

// TestReadmeSnippets: the inventory and the config of the README are right as they stand, all together, but for what they leave out.
func TestReadmeSnippets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	blocks := map[string][]string{}
	for _, m := range regexp.MustCompile("(?ms)^```(json|yaml)\n(.*?)^```").FindAllStringSubmatch(readme(t), -1) {
		blocks[m[1]] = append(blocks[m[1]], m[2])
	}
	if len(blocks["json"]) != 2 || len(blocks["yaml"]) != 1 {
		t.Fatalf("%d snippets of JSON and %d of YAML, not 2 and 1", len(blocks["json"]), len(blocks["yaml"]))
	}
	if err := os.Mkdir(filepath.Join(dir, "jsons"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"roles.json":          blocks["json"][0],
		"jsons/hadoop14.json": blocks["json"][1],
		"jsons/hadoop27.json": `{"name": "hadoop27", "ip_address": "10.241.29.27", "cabinet": "b13"}`,
		"jsons/app01.json":    `{"name": "app01", "ip_address": "10.241.29.101", "cabinet": "b13"}`,
		"config.yaml": "interface: eth1\nnode: hadoop27\nlink_rate: 10gbit\ninventory: {roles: roles.json, servers: [jsons]}\n" + blocks["yaml"][0] +
			"default_class: default\nrules:\n  - {name: bulk, match: {role: hadoop_node}, class: cross-cabinet}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := newHost(t)
	config := filepath.Join(dir, "config.yaml")
	out := h.must("check", "--config", config)
	t.Log(out)
	h.must("apply", "--config", config)
	for address, class := range map[string]string{"10.241.28.14": "1:20", "10.244.14.3": "1:20", "10.241.29.101": "1:100"} {
		if out := h.must("explain", "--config", config, address); !strings.Contains(out, class) {
			t.Errorf("%s is not in %s:\n%s", address, class, out)
		}
	}
	// The share is 80 % of 10 Gbit/s among the one bulk server of this cabinet.
	if shown := h.TC("class", "show", "dev", "eth1", "classid", "1:20"); !strings.Contains(shown, "rate 8Gbit") {
		t.Errorf("the share is\n%s", shown)
	}
}
