//go:build alone

// What measures time wants the machine for itself: `make test` runs this after the other tests, not beside them.

package main

import (
	"bytes"
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// storyTries is how often the story is told anew where the machine was too busy for a verdict.
const storyTries = 3

// replay runs the story until there is a verdict, which it returns.
func replay(t *testing.T, binary string, args ...string) storyReport {
	t.Helper()
	for try := 1; ; try++ {
		out := t.TempDir()
		start := time.Now()
		stdout, stderr, code := runDemo(t, binary, nil, nil, append([]string{"--scenario", "incident", "--out", out}, args...)...)
		took := time.Since(start)
		text, err := os.ReadFile(filepath.Join(out, "incident.json"))
		if err != nil {
			t.Fatalf("%v; exit code %d\n%s\n%s", err, code, stdout, stderr)
		}
		var r storyReport
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&r); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if passed := r.Verdict == verdictPassed; passed != (code == exitDone) {
			t.Fatalf("verdict %q with exit code %d\n%s\n%s", r.Verdict, code, stdout, stderr)
		}
		switch r.Verdict {
		case verdictNotMeasurable:
			if !strings.Contains(stderr, "not measurable here") {
				t.Errorf("it is not said: %s", stderr)
			}
			if try == storyTries {
				t.Fatalf("NOT MEASURABLE, %d times: this machine is too busy to tell whether shaping works\n%s\n%s", try, stdout, stderr)
			}
			t.Logf("not measurable, once more:\n%s", stderr)
			continue
		case verdictFailed:
			t.Fatalf("exit code %d\n%s\n%s", code, stdout, stderr)
		}
		t.Logf("%s\n%s\n%s", took, stdout, stderr)
		if took > 90*time.Second {
			t.Errorf("it took %s", took)
		}
		checkPicture(t, out)
		return r
	}
}

func checkPicture(t *testing.T, folder string) {
	t.Helper()
	pixels, err := os.ReadFile(filepath.Join(folder, "incident.png"))
	if err != nil {
		t.Fatal(err)
	}
	if img, err := png.Decode(bytes.NewReader(pixels)); err != nil || img.Bounds().Dx() < 1000 {
		t.Errorf("the picture: %v", err)
	}
	svg, err := os.ReadFile(filepath.Join(folder, "incident.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range storyPhases() {
		if !strings.Contains(string(svg), p.name) {
			t.Errorf("the picture does not name phase %q", p.name)
		}
	}
	if lines := strings.Count(string(svg), "stroke-width=\"2\" points"); lines < 8 {
		t.Errorf("the picture has %d lines, want at least 8 series", lines)
	}
}

// TestIncident: the incident, replayed, in short.
func TestIncident(t *testing.T) {
	r := replay(t, demoBinary(t), "--short")
	// What passed must have been asked: the verdict alone would also pass if it asked nothing.
	least := []int{3, 4, 3, 10, 3, 9, 9}
	if len(r.Phases) != len(least) {
		t.Fatalf("%d phases", len(r.Phases))
	}
	for i, p := range r.Phases {
		if len(p.Checks) < least[i] {
			t.Errorf("%s: %d claims, want at least %d", p.Name, len(p.Checks), least[i])
		}
	}
}
