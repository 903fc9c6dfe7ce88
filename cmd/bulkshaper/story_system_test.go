//go:build system && alone

package main

import (
	"os"
	"strings"
	"testing"
)

// TestIncidentInFull replays the incident in full with each congestion control that people use and this kernel has.
func TestIncidentInFull(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	if err != nil {
		t.Fatal(err)
	}
	binary := demoBinary(t)
	for _, control := range strings.Fields(string(text)) {
		if control == "bbr" || control == "cubic" {
			t.Run(control, func(t *testing.T) {
				if r := replay(t, binary, "--congestion", control); r.Congestion != control {
					t.Errorf("the report says %q", r.Congestion)
				}
			})
		}
	}
}
