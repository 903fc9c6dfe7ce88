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

// TestPodNetworks runs the short form of the story. Whatever it measured has to be as claimed, or it must have said that the machine was
// too busy. The rest does not depend on that: which address was on the wire if any packet was, what explain says of it, where it was counted, what status
// makes of an inventory that lacks the pods, and that services were asked over every network.
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
			if d.Share == 0 && run.Load.tooMuch() {
				t.Logf("%s: on a busy machine nothing was on the wire to %s in time", run.Network, d.Wire)
				got[d.Wire] = d.Explained
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
		checkPodServices(t, run, i)
		if hinted := len(run.Hints) == 1 && strings.Contains(run.Hints[0], "in the default class default 1:100"); hinted != (i == 5) {
			t.Errorf("%s: status hints %q", run.Network, run.Hints)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left in the folder for temporary files: %v, %v", left, err)
	}
}

// checkPodServices sees that all was asked, and judged, that is claimed of the i-th network's services.
func checkPodServices(t *testing.T, run podRun, i int) {
	t.Helper()
	// What a bulk node asks of app02 goes to its node on the host's network and in a tunnel, and to its pod where pods are routed.
	wire := []string{"10.1.13.101", "10.1.13.101", "10.244.102.2", "10.1.13.101", "", "10.244.102.2", "10.244.102.2"}[i]
	checks := [][]int{{2, 4}, {2, 4}, {2, 4}, {2, 4}, {}, {4}, {4}}[i] // claims without shaping, and with it
	if run.ServicesWire != wire || wire != "" && run.ServicesClass != "default" {
		t.Errorf("%s: services are asked at %q in class %q, want %q", run.Network, run.ServicesWire, run.ServicesClass, wire)
	}
	if len(run.Asked) != len(checks) {
		t.Fatalf("%s: services were measured %d times, want %d", run.Network, len(run.Asked), len(checks))
	}
	for j, a := range run.Asked {
		if a.Shaped != (j == len(checks)-1) || len(a.Checks) != checks[j] {
			t.Errorf("%s, shaped %v: %d claims, want %d", run.Network, a.Shaped, len(a.Checks), checks[j])
		}
		for _, s := range a.Services {
			if s.Requests == 0 {
				t.Errorf("%s, shaped %v: %s was not asked", run.Network, a.Shaped, s.Name)
			}
			t.Logf("%s, shaped %v: %s late %d of %d, median %.1f ms, p99 %.1f ms", run.Network, a.Shaped, s.Name, s.Late, s.Requests, 1000*s.Median, 1000*s.P99)
		}
		if w := a.wrongs(); len(w) > 0 {
			t.Errorf("%s: %q (%s)", run.Network, w, a.Load)
		}
		t.Logf("%s, shaped %v: measurable %v: %s", run.Network, a.Shaped, a.Measurable, a.Load)
	}
}
