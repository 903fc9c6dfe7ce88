package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// outputOf runs a command in this process, with a good end.
func outputOf(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), args, &stdout, &stderr); code != exitDone || stderr.Len() > 0 {
		t.Fatalf("%q: exit %d, %s", args, code, stderr.String())
	}
	return stdout.String()
}

// TestHelpShowsWhatACommandUses, and no more; the rest is taken all the same.
func TestHelpShowsWhatACommandUses(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"run":           "interface takeover resync listen log-level debounce max-shrink run-dir allow-writable-by-others",
		"check":         "interface resync listen web-config log-level",
		"plan":          "interface takeover layout node -resync -listen -web-config -log-level -log-format -debounce -rescan -max-shrink",
		"apply":         "interface takeover layout node -resync -listen -web-config -log-level -log-format -debounce -rescan -max-shrink",
		"explain":       "interface layout node -takeover -resync -listen",
		"status":        "interface run-dir -takeover -resync -listen",
		"override list": "interface run-dir -takeover -resync -listen",
		"clear":         "interface run-dir -node -roles -servers -takeover -resync -layout",
		"history":       "interface run-dir -node -roles -servers -takeover -resync -layout",
		"confirm":       "interface run-dir -node -roles -servers -takeover -resync -layout",
	} {
		help := outputOf(t, append(strings.Fields(command), "--help")...)
		for _, flag := range strings.Fields(want) {
			name, hidden := strings.CutPrefix(flag, "-")
			if shown := strings.Contains(help, "--"+name+" "); shown == hidden {
				t.Errorf("the help of %s shows --%s: %v", command, name, shown)
			}
		}
	}
	out := outputOf(t, "explain", "--no-kernel", "--config", incidentConfig(), "--resync", "1m", "--listen", "", "--run-dir", t.TempDir(), "hadoop14")
	if !strings.Contains(out, "same-cabinet") && !strings.Contains(out, "cross-cabinet") {
		t.Errorf("explain with flags of the daemon: %s", out)
	}
}

// TestVersionFlag is the habit of many a hand.
func TestVersionFlag(t *testing.T) {
	t.Parallel()
	if flag, command := outputOf(t, "--version"), outputOf(t, "version"); flag != command || !strings.HasPrefix(flag, "bulkshaper ") || strings.Count(flag, "\n") != 1 {
		t.Errorf("--version says %q, version %q", flag, command)
	}
}

// TestCheckAddsUpTheRates of what stands directly on the link, where that is more than the link has; it is no warning, since the packaged
// classes have it so.
func TestCheckAddsUpTheRates(t *testing.T) {
	t.Parallel()
	dir := copyTree(t, incident)
	config := strings.SplitN(read(t, dir+"/config.yaml"), "classes:", 2)[0]
	if err := os.WriteFile(dir+"/config.yaml", []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"check", "--config", dir + "/config.yaml", "--interface", "none0", "--node", "hadoop27"}
	const said = "the rates of its classes add up to 140% of the link"
	if out := outputOf(t, append(args, "--link-rate", "10gbit")...); !strings.Contains(strings.Join(strings.Fields(out), " "), said) || strings.Contains(out, "warning: ") {
		t.Errorf("the packaged classes:\n%s", out)
	}
	config += "classes:\n  top: {id: 1, rate: 100%}\n  default: {id: 100, rate: 60%, parent: top}\n  same-cabinet: {id: 10, rate: 40%, parent: top}\nrules: [{match: {cabinet: same}, class: same-cabinet, name: same}]\n"
	if err := os.WriteFile(dir+"/config.yaml", []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := outputOf(t, append(args, "--link-rate", "10gbit")...); strings.Contains(strings.Join(strings.Fields(out), " "), "add up to") {
		t.Errorf("classes below one that has the whole link:\n%s", out)
	}
}
