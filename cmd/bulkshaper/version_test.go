package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestRevision(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	for name, c := range map[string]struct {
		settings []debug.BuildSetting
		want     string
	}{
		"nothing recorded": {nil, ""},
		"a commit":         {[]debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: commit}, {Key: "vcs.modified", Value: "false"}}, "0123456789ab"},
		"files edited":     {[]debug.BuildSetting{{Key: "vcs.revision", Value: commit}, {Key: "vcs.modified", Value: "true"}}, "0123456789ab-dirty"},
		"edited, unknown":  {[]debug.BuildSetting{{Key: "vcs.modified", Value: "true"}}, ""},
	} {
		if got := revisionOf(&debug.BuildInfo{Settings: c.settings}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestVersionIsOneEverywhere: command and metric name the same build.
func TestVersionIsOneEverywhere(t *testing.T) {
	want := fmt.Sprintf("# HELP bulkshaper_build_info Always 1; the labels name the version.\n# TYPE bulkshaper_build_info gauge\n"+
		"bulkshaper_build_info{goversion=%q,revision=%q,version=%q} 1\n", runtime.Version(), revision(), version())
	if err := testutil.CollectAndCompare(buildInfo(), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	line := versionLine()
	for _, part := range []string{"bulkshaper " + version() + " (", revision(), runtime.Version(), runtime.GOARCH} {
		if !strings.Contains(line, part) {
			t.Errorf("version says %q, without %q", line, part)
		}
	}
}
