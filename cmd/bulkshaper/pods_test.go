package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestPodNetworks runs the short form of the story and looks at what does not depend on how busy the machine is: which address was on
// the wire, what explain says of it, where it was counted, and what status makes of an inventory that lacks the pods.
func TestPodNetworks(t *testing.T) {
	t.Parallel()
	binary, temp := demoBinary(t), openFolder(t)
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary, "demo", "--scenario", "pods", "--short", "--format", "json")
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var r podReport
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	if code := cmd.ProcessState.ExitCode(); (code == exitDone) != (r.Verdict == verdictPassed) || r.Verdict == verdictFailed {
		t.Errorf("exit code %d, %s\n%s", code, r.Verdict, &stderr)
	}
	const same, cross, rest = "same-cabinet", "cross-cabinet", "default"
	wire := []map[string]string{ // what has to be on the wire, with its class, in the order of podNetworks
		{"10.1.12.12": same, "10.1.13.13": cross, "10.1.13.14": cross, "10.1.13.101": rest},
		{"10.1.12.12": same, "10.1.13.13": cross, "10.1.13.14": cross, "10.1.13.101": rest},
		{"10.244.2.2": same, "10.244.3.2": cross, "10.244.4.2": cross, "10.1.13.101": rest},
		{"10.244.2.2": same, "10.1.13.13": cross, "10.1.13.14": cross, "10.1.13.101": rest},
		{"10.1.12.12": same, "10.1.13.13": cross, "10.1.13.14": cross, "10.1.13.101": rest},
		{"10.244.2.2": rest, "10.244.3.2": rest, "10.244.4.2": rest, "10.1.13.101": rest},
		{"10.244.2.2": same, "10.244.3.2": cross, "10.244.4.2": cross, "10.1.13.101": rest},
	}
	if len(r.Runs) != len(wire) {
		t.Fatalf("%d networks, want %d", len(r.Runs), len(wire))
	}
	for i, run := range r.Runs {
		got := map[string]string{}
		for _, d := range run.Destinations {
			if got[d.Wire] = d.Explained; d.Share == 0 {
				got[d.Wire] = "not there"
			}
		}
		if !maps.Equal(got, wire[i]) {
			t.Errorf("%s: on the wire %v, want %v", run.Network, got, wire[i])
		}
		for _, c := range run.Classes {
			if len(run.Slow) == 0 && (c.Counted < c.Expected-podStray || c.Counted > c.Expected+podStray) {
				t.Errorf("%s: %+v", run.Network, c)
			}
			if lacks := i == 5; lacks && c.Name == rest != (c.Counted > 0.99) {
				t.Errorf("%s: %+v", run.Network, c)
			}
		}
		if hinted := len(run.Hints) == 1 && strings.Contains(run.Hints[0], "in the default class default 1:100"); hinted != (i == 5) {
			t.Errorf("%s: status hints %q", run.Network, run.Hints)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left in the folder for temporary files: %v, %v", left, err)
	}
}
