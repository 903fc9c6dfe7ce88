package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// examplesOf are the examples of a command and of those below it, a line each.
func examplesOf(c *cobra.Command) map[string][]string {
	all := map[string][]string{}
	if c.Runnable() && c.Name() != "completion" {
		for _, line := range strings.Split(c.Example, "\n") {
			if line = strings.TrimSpace(line); line != "" {
				all[c.CommandPath()] = append(all[c.CommandPath()], line)
			}
		}
		if len(all[c.CommandPath()]) == 0 {
			all[c.CommandPath()] = nil
		}
	}
	for _, below := range c.Commands() {
		if below.Name() == "help" || below.Hidden {
			continue // cobra's own, and those for the program itself
		}
		for path, lines := range examplesOf(below) {
			all[path] = lines
		}
	}
	return all
}

// TestExamplesOfTheHelpRun runs each example of each --help on a node of the incident, word for word but for its paths. demo takes a
// cluster and minutes: of its examples the words are checked here, and TestDemo runs it.
func TestExamplesOfTheHelpRun(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	all := examplesOf(newRoot(&out, &out))
	if len(all) < 10 {
		t.Fatalf("only %d commands", len(all))
	}
	for path, lines := range all {
		t.Run(strings.ReplaceAll(path, " ", "-"), func(t *testing.T) {
			t.Parallel()
			if len(lines) == 0 {
				t.Error("its help has no example")
			}
			for _, line := range lines {
				if !strings.HasPrefix(line, path) {
					t.Errorf("an example of another command: %s", line)
				}
				if strings.HasPrefix(path, "bulkshaper demo") {
					checkWords(t, line)
					continue
				}
				runExample(t, line)
			}
		})
	}
}

// checkWords has the line's flags and arguments parsed.
func checkWords(t *testing.T, line string) {
	t.Helper()
	var out bytes.Buffer
	root := newRoot(&out, &out)
	c, args, err := root.Find(splitWords(line)[1:])
	if err == nil {
		err = c.ParseFlags(args)
	}
	if err == nil {
		err = c.ValidateArgs(c.Flags().Args())
	}
	if err != nil {
		t.Errorf("%s: %v", line, err)
	}
}

// splitWords splits a line as a shell does, as far as examples need it.
func splitWords(line string) []string {
	var list []string
	for _, w := range regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(line, -1) {
		list = append(list, strings.Trim(w, `"`))
	}
	return list
}

// runExample runs a line in a folder that has what examples name: the incident's config, roles.json and jsons/.
func runExample(t *testing.T, line string) {
	t.Helper()
	h, dir := newHost(t), copyTree(t, incident)
	config := filepath.Join(dir, "config.yaml")
	for to, from := range map[string]string{"jsons": incident + "/nyc1/jsons", "OLD-FOLDER": incident, "testdata/incident": incident} {
		if err := os.CopyFS(filepath.Join(dir, to), os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	line, _, _ = strings.Cut(line, " # ")
	command, pipe, piped := strings.Cut(line, " | ")
	args := splitWords(command)[1:]
	flag := func(names ...string) bool {
		return slices.ContainsFunc(args, func(a string) bool { return slices.Contains(names, a) })
	}
	for i, a := range args {
		args[i] = strings.ReplaceAll(a, "/etc/bulkshaper", dir)
	}
	if !flag("version", "completion") {
		if flag("--interface") { // without a config the node is found by its address
			h.Run(t, "ip", "address", "add", "10.241.29.27/16", "dev", "eth1")
			args = append(args, "--link-rate", "10gbit")
		} else if !flag("--config") {
			args = append(args, "--config", config)
		}
		args = append(args, "--run-dir", dir)
	}
	if flag("--takeover") { // it is for what somebody shaped by hand
		script, err := os.ReadFile(filepath.Join(incident, "hand-written.tc"))
		if err != nil {
			t.Fatal(err)
		}
		if err := h.TCBatch(string(script)); err != nil {
			t.Fatal(err)
		}
	}
	switch {
	case flag("run"):
		d := &daemonHost{host: h, dir: dir}
		d.listen()
		d.daemonProcess = h.start(append(args[1:], "--listen", "")...)
		d.waitFor("READY=1")
		if code := d.stop(); code != exitDone {
			t.Errorf("%s: exit %d", line, code)
		}
		return
	case flag("confirm"):
		h.must("apply", "--confirm", "60s", "--config", config, "--run-dir", dir)
	case flag("history"): // the daemon is asked
		d := &daemonHost{host: h, dir: dir}
		d.launch()
	case flag("override") && flag("clear"):
		h.must("override", "cross-cabinet", "rate=50mbit", "--for", "30m", "--config", config, "--run-dir", dir)
	case !flag("apply", "plan", "check", "completion"):
		h.must("apply", "--config", config, "--run-dir", dir)
	}
	if flag("--watch") {
		term := h.onTerminal(80, 24, nil, args...)
		term.shows("cross-cabinet")
		term.press("q")
		term.ends(exitDone)
		return
	}
	want := exitDone
	if flag("--exit-code") {
		want = exitDiffers // nothing stands yet
	}
	r := h.runIn(dir, args...)
	if r.code != want || r.stdout == "" {
		t.Errorf("%s: exit %d\n%s%s", line, r.code, r.stdout, r.stderr)
	}
	if piped {
		if pipe != "tc -batch -" {
			t.Fatalf("%s: what is behind the pipe is not known here", line)
		}
		if err := h.TCBatch(r.stdout); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestHandlesHaveTheirNames: no classid, and no handle of a table or a filter, stands in a line without what it is called.
func TestHandlesHaveTheirNames(t *testing.T) {
	t.Parallel()
	h, dir := newHost(t), copyTree(t, "../../testdata/pods")
	config := []string{"--config", filepath.Join(dir, "config.yaml"), "--run-dir", dir}
	names := regexp.MustCompile(`bulk|same-cabinet|cross-cabinet|watch|lab|default|control|spark|gateway|hash table|root qdisc|not in the plan|\d+\.\d+\.\d+\.\d+|[0-9a-f]+:[0-9a-f]*:[0-9a-f:]*/|acknowledgements|ARP|discovery`)
	handle := regexp.MustCompile(`\b[0-9a-f]{1,4}:[0-9a-f]{0,4}(:[0-9a-f]{0,3})?\b`)
	look := func(args ...string) {
		t.Helper()
		r := h.run(append(args, config...)...)
		if r.code == exitFailed || r.code == exitWrong {
			t.Fatalf("%q: exit %d, %s", args, r.code, r.stderr)
		}
		seen := 0
		for _, line := range strings.Split(r.stdout, "\n") {
			if tcLine := strings.HasPrefix(line, "     "); tcLine || !handle.MatchString(line) {
				continue
			}
			seen++
			if !names.MatchString(line) {
				t.Errorf("%q: a handle without a name: %s", args, line)
			}
		}
		if seen == 0 {
			t.Errorf("%q shows no handle at all: nothing is tested", args)
		}
	}
	look("plan")
	look("plan", "--all")
	look("plan", "--full")
	h.must(append([]string{"apply"}, config...)...)
	look("status")
	look("explain", "spark02", "8.8.8.8")
	look("explain", "--class", "default")
	h.TC("class", "change", "dev", "eth1", "parent", "1:1", "classid", "1:20", "htb", "rate", "1mbit")
	h.TC("filter", "delete", "dev", "eth1", "parent", "1:", "protocol", "ipv6", "pref", "11200")
	look("plan")
	look("plan", "--all")
}
