package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
)

// release is set by the linker: -X main.release=v1.2.3.
var release string

// version is the release, or the module's version or revision as the Go tool recorded it.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if r := revisionOf(info); r != "" {
		return "devel-" + r
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return "devel"
}

// revision is the commit that was built, in twelve digits, and "" where the Go tool recorded none. It tells builds apart that go by one
// version: one that was made again, or by hand.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return revisionOf(info)
}

// revisionOf ends in -dirty where files differed from the commit.
func revisionOf(info *debug.BuildInfo) string {
	var commit, dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			commit = s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if commit == "" {
		return ""
	}
	return commit + dirty
}

// versionLine is what `version` and --version say.
func versionLine() string {
	commit := ""
	if r := revision(); r != "" {
		commit = "commit " + r + ", "
	}
	return fmt.Sprintf("bulkshaper %s (%s%s, %s/%s)", version(), commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "The version of this program",
		Example: "  bulkshaper version",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), versionLine())
			return err
		},
	}
}

// buildInfo is the metric that names the version.
func buildInfo() prometheus.Collector {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "bulkshaper_build_info", Help: "Always 1; the labels name the version.",
	}, []string{"version", "revision", "goversion"})
	g.WithLabelValues(version(), revision(), runtime.Version()).Set(1)
	return g
}
