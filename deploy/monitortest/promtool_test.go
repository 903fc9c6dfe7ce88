//go:build system

package monitortest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bulkshaper/systemd/debian"
)

// need has a Prometheus there, and promtool; it takes root to make network namespaces.
func need(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("these tests make network namespaces and install what they need: run them as root")
	}
	debian.Need(t, map[string]string{"prometheus": "prometheus", "promtool": "prometheus"})
}

func promtool(args ...string) error {
	out, err := exec.Command("promtool", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("promtool %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// TestRules runs the unit tests of the rules, and sees that they notice a rule that is a little off.
func TestRules(t *testing.T) {
	need(t)
	for _, args := range [][]string{{"check", "rules", rulesFile}, {"check", "config", configFile}, {"test", "rules", unitFile}} {
		if err := promtool(args...); err != nil {
			t.Error(err)
		}
	}
	rules, tests := string(read(t, rulesFile)), string(read(t, unitFile))
	for _, off := range []struct{ alert, is, was string }{
		{"Down", "for: 6m", "for: 5m"}, {"Down", "up == 0", `up{job="bulkshaper"} == 0`}, {"Down", "", ` or absent(up{job="bulkshaper"})`},
		{"Restarting", "> 2", "> 3"}, {"Restarting", "> 4", "> 3"}, {"Restarting", "[3h]", "[1h]"},
		{"OutOfSync", "for: 6m", "for: 5m"}, {"OutOfSync", "for: 4m", "for: 5m"},
		{"ReloadFailing", "for: 11m", "for: 10m"}, {"ReloadFailing", "for: 9m", "for: 10m"},
		{"InventoryOld", "7 * 3600", "6 * 3600"}, {"InventoryOld", "5 * 3600", "6 * 3600"}, {"InventoryOld", "bulkshaper_last_reload_successful >= 0", "bulkshaper_last_reload_successful == 0"},
		{"InventoryDiffers", "(0.9,", "(0.5,"}, {"InventoryDiffers", "(cluster, job)", "(cluster, job, datacenter)"}, {"InventoryDiffers", "for: 20m", "for: 30m"},
		{"Contended", "for: 6m", "for: 5m"}, {"Contended", "for: 4m", "for: 5m"},
		{"DropsHigh", "> 0.2", "> 0.05"}, {"DropsHigh", "> 0.01", "> 0.05"}, {"DropsHigh", "> 5", "> 10"}, {"DropsHigh", "", `{kind="leaf"}`},
		{"MostTrafficInDefault", "> 0.8", "> 0.5"}, {"MostTrafficInDefault", "> 0.2", "> 0.5"}, {"MostTrafficInDefault", "> 12500", "> 125000"},
		{"MostTrafficInDefault", "bulkshaper_class_default", "bulkshaper_class_default == 1"},
		{"DirectPackets", "> 3", "> 1"}, {"DirectPackets", "for: 1m", "for: 10m"},
		{"OverrideLong", "for: 9h", "for: 8h"}, {"OverrideLong", "for: 7h", "for: 8h"},
		{"VersionsDiffer", "for: 2d", "for: 1d"}, {"VersionsDiffer", "for: 1h", "for: 1d"}, {"VersionsDiffer", "> 0", "> 1"},
	} {
		begin := strings.Index(rules, "alert: Bulkshaper"+off.alert+"\n")
		if begin < 0 {
			t.Fatalf("there is no alert %s", off.alert)
		}
		end := begin + strings.Index(rules[begin:], "annotations:")
		changed := strings.ReplaceAll(rules[begin:end], off.was, off.is)
		if changed == rules[begin:end] {
			t.Errorf("%s has no %q", off.alert, off.was)
			continue
		}
		folder := t.TempDir()
		for name, text := range map[string]string{filepath.Base(rulesFile): rules[:begin] + changed + rules[end:], filepath.Base(unitFile): testsOf(tests, off.alert)} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := promtool("check", "rules", filepath.Join(folder, filepath.Base(rulesFile))); err != nil {
			t.Error(err)
		}
		if err := promtool("test", "rules", filepath.Join(folder, filepath.Base(unitFile))); err == nil {
			t.Errorf("the unit tests do not see that %s has %q instead of %q", off.alert, off.is, off.was)
		}
	}
}

// testsOf leaves those of an alert: a day in the life of another one takes promtool seconds.
func testsOf(tests, alert string) string {
	const begin = "\n  - name: "
	head, rest, _ := strings.Cut(tests, begin)
	for _, test := range strings.Split(rest, begin) {
		if strings.Contains(test, "Bulkshaper"+alert) {
			head += begin + test
		}
	}
	return head
}
