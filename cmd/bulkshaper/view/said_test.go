package view

import (
	"strings"
	"testing"

	"bulkshaper/cmd/bulkshaper/screen"
	"bulkshaper/shaper"
)

// TestWhatTheKernelIsInSyncWith: while files are refused it is not what the files of now say.
func TestWhatTheKernelIsInSyncWith(t *testing.T) {
	t.Parallel()
	s := quiet()
	s.LastReload = &shaper.Reload{Time: noon(), Result: shaper.ReloadFailure, Problems: []string{"roles.json:1:1: it is cut off"}}
	s.HTTPError = "listen on :9825: another program has the port"
	s.HistoryError = "write /run/bulkshaper/history.state: no space left on device"
	text := strings.Join(StatusHead(screen.Style{}, s), "\n")
	for _, want := range []string{"in sync with the last good files", "FILES REFUSED", "HTTP NOT SERVED, so no metrics either: listen on :9825: another program has the port", "HISTORY NOT KEPT: a restart of the daemon loses it: write /run/bulkshaper/history.state: no space left on device"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "what config and inventory say") {
		t.Errorf("the files of now are not what the kernel holds:\n%s", text)
	}
}

// TestDisagreementWithoutAClass: a reason is told as a reason, once where it is that of all.
func TestDisagreementWithoutAClass(t *testing.T) {
	t.Parallel()
	unshaped := "eth1 is not shaped by us: its root qdisc is noqueue 0:"
	one := Disagree{Address: "10.0.0.1", Server: "s1", Wanted: "cross-cabinet 1:20", Kernel: unshaped, Nowhere: true}
	two := Disagree{Address: "10.0.0.2", Server: "s2", Wanted: "cross-cabinet 1:20", Kernel: "default 1:100"}
	for want, list := range map[string][]Disagree{
		"DISAGREES on 2 of 9 destinations: " + unshaped:                                                                                                           {one, one},
		"DISAGREES on 1 of 9 destinations: s2 10.0.0.2 goes to default 1:100, wanted cross-cabinet 1:20":                                                          {two},
		"DISAGREES on 2 of 9 destinations: s2 10.0.0.2 goes to default 1:100, wanted cross-cabinet 1:20; s1 10.0.0.1: wanted cross-cabinet 1:20, and " + unshaped: {two, one},
	} {
		if got := checkedText(screen.Style{}, Checked{Asked: 9, Disagree: list}); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
