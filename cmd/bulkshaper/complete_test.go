package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestShellsAreToldTheWords that can stand where the cursor is, and no files where none can.
func TestShellsAreToldTheWords(t *testing.T) {
	t.Parallel()
	classes := []string{"same-cabinet", "cross-cabinet", "default"}
	for line, want := range map[string][]string{
		"plan --format":                          {"text", "json", "tc"},
		"history --format":                       {"text", "json"},
		"run --log-level":                        {"debug", "info", "warn", "error"},
		"plan --layout":                          {"hash", "list"},
		"demo --scenario":                        {"incident", "pods"},
		"override --config CONFIG":               classes,
		"override clear --config CONFIG":         classes,
		"explain --config CONFIG --class":        classes,
		"override --config CONFIG cross-cabinet": nil,
		"status":                                 nil,
		"explain":                                nil,
	} {
		args := append([]string{"__complete"}, strings.Fields(strings.ReplaceAll(line, "CONFIG", incidentConfig()))...)
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), append(args, ""), &stdout, &stderr); code != exitDone {
			t.Errorf("%s: exit %d, %s", line, code, stderr.String())
		}
		got := strings.Fields(stdout.String())
		if len(got) == 0 || got[len(got)-1] != ":4" { // ShellCompDirectiveNoFileComp
			t.Errorf("%s: %q, which offers files", line, got)
			continue
		}
		for _, word := range want {
			if !slices.Contains(got, word) {
				t.Errorf("%s: no %s in %q", line, word, got)
			}
		}
		if want == nil && len(got) != 1 {
			t.Errorf("%s: %q", line, got)
		}
	}
}

// TestLengthsAreWrittenAsPeopleWriteThem in what is said of --confirm.
func TestLengthsAreWrittenAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"60s": "1m", "1s": "1s", "90s": "1m30s", "1h": "1h", "70m": "1h10m", "10s": "10s", "10m": "10m", "1h0m10s": "1h0m10s"} {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := short(d); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
