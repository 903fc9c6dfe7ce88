//go:build system && alone

package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestIncidentInFull replays the incident in full with each congestion control that people use and this kernel has.
func TestIncidentInFull(t *testing.T) {
	binary := demoBinary(t)
	for _, control := range controls(t) {
		t.Run(control, func(t *testing.T) {
			if r := replay(t, binary, "--congestion", control); r.Congestion != control {
				t.Errorf("the report says %q", r.Congestion)
			}
		})
	}
}

// controls are the congestion controls that people use, as far as this kernel has them.
func controls(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Fields(string(text)), func(control string) bool { return control != "bbr" && control != "cubic" })
}
