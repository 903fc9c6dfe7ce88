//go:build system && alone

package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
)

// TestPodNetworksInFull tells the story in full with both congestion controls that people use, until there is a verdict.
func TestPodNetworksInFull(t *testing.T) {
	binary := demoBinary(t)
	for _, control := range controls(t) {
		t.Run(control, func(t *testing.T) {
			for try := 1; ; try++ {
				start := time.Now()
				stdout, stderr, code := runDemo(t, binary, nil, nil, "--scenario", "pods", "--congestion", control, "--format", "json")
				var r podReport
				if err := json.NewDecoder(bytes.NewReader([]byte(stdout))).Decode(&r); err != nil {
					t.Fatalf("%v; exit code %d\n%s", err, code, stderr)
				}
				t.Logf("%s, %s\n%s", r.Verdict, time.Since(start), r.text())
				switch {
				case r.Verdict == verdictNotMeasurable && try < storyTries:
					continue
				case r.Verdict != verdictPassed || code != exitDone:
					t.Fatalf("%s, exit code %d\n%s", r.Verdict, code, stderr)
				}
				return
			}
		})
	}
}
