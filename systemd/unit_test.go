package systemd_test

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// unit is the settings of bulkshaper.service by "Section.Key", each with all its values.
func unit(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("bulkshaper.service")
	if err != nil {
		t.Fatal(err)
	}
	settings := make(map[string][]string)
	section := ""
	for _, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if line[0] == '[' {
			section = strings.Trim(line, "[]")
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			t.Fatalf("line %q is no setting", line)
		}
		settings[section+"."+key] = append(settings[section+"."+key], value)
	}
	return settings
}

// TestUnitSays has the settings that were got wrong elsewhere, or that the daemon's promises rest on. That the unit works with
// them is tested in systemtest.
func TestUnitSays(t *testing.T) {
	settings := unit(t)
	for _, want := range []struct{ setting, value, why string }{
		{"Service.ExecStart", "/usr/bin/bulkshaper run --config /etc/bulkshaper/config.yaml", "that is where the packages put them"},
		{"Service.ExecReload", "/bin/kill -HUP $MAINPID", "SIGHUP reads the files again"},
		{"Service.Type", "notify", "active means shaped"},
		{"Service.NotifyAccess", "main", "nobody else speaks for the daemon"},
		{"Service.TimeoutStartSec", "infinity", "the interface may come late"},
		{"Service.WatchdogSec", "60s", "a hung loop is restarted"},
		{"Service.Restart", "on-failure", "a crash is not the end"},
		{"Service.RestartPreventExitStatus", "77", "without permission a restart is no use"},
		{"Service.RestartSec", "10s", "nor does it need haste: the shaping stays in the kernel"},
		{"Unit.StartLimitIntervalSec", "0", "nor are many crashes"},
		{"Unit.AssertCapability", "CAP_NET_ADMIN", "without it one error and no restarts"},
		{"Unit.DefaultDependencies", "no", "an interface that never comes holds up no boot"},
		{"Unit.Conflicts", "shutdown.target", "which without default dependencies must be said"},
		{"Service.RuntimeDirectory", "bulkshaper", "the socket of `bulkshaper status` lies there"},
		{"Service.RuntimeDirectoryPreserve", "yes", "overrides and history outlive a restart"},
		{"Service.CapabilityBoundingSet", "CAP_NET_ADMIN", "it needs no more"},
		{"Service.AmbientCapabilities", "CAP_NET_ADMIN", "a bounding set alone grants nothing (ClickHouse#52357)"},
		{"Service.NoNewPrivileges", "yes", "and gets no more"},
		{"Service.DynamicUser", "yes", "it is not root"},
	} {
		if got := settings[want.setting]; !slices.Equal(got, []string{want.value}) {
			t.Errorf("%s is %q, want %q: %s", want.setting, got, want.value, want.why)
		}
	}
	families := strings.Fields(strings.Join(settings["Service.RestrictAddressFamilies"], " "))
	for _, family := range []string{"AF_NETLINK", "AF_UNIX", "AF_INET", "AF_INET6"} {
		if !slices.Contains(families, family) {
			t.Errorf("RestrictAddressFamilies has no %s (unbound#350)", family)
		}
	}
	for setting, why := range map[string]string{
		"Unit.BindsTo":         "it stops the daemon with the interface and does not start it again (systemd#35079)",
		"Unit.Requisite":       "it makes a late interface an error",
		"Service.ExecStop":     "a stop leaves the shaping",
		"Service.ExecStopPost": "a stop leaves the shaping",
		"Service.ExecStartPre": "the daemon checks its files itself, and keeps the last good ones",
		// What systemtest shows of the first four, holds of the rest for the same reason.
		"Service.PrivateNetwork":       "another namespace has other interfaces",
		"Service.PrivateUsers":         "CAP_NET_ADMIN would not hold for the node's interface",
		"Service.MountFlags":           "an inventory that is mounted later must be seen",
		"Service.TemporaryFileSystem":  "it hides the files",
		"Service.NetworkNamespacePath": "another namespace has other interfaces",
		"Service.JoinsNamespaceOf":     "another namespace has other interfaces",
		"Service.RootDirectory":        "it hides the files",
		"Service.RootImage":            "it hides the files",
		"Service.InaccessiblePaths":    "it may hide the files",
		"Service.ExecPaths":            "it does not keep the files from being read, but NoExecPaths= does keep the program from running",
		"Service.NoExecPaths":          "it keeps the program from running",
		"Service.RestrictFileSystems":  "the inventory may lie on any, also on NFS",
		"Service.MemoryMax":            "an inventory of 100,000 servers is no reason to be killed",
		"Service.LimitNOFILE":          "a watch and a socket need a descriptor each",
	} {
		if got, ok := settings[setting]; ok {
			t.Errorf("%s=%s: %s", setting, got, why)
		}
	}
	for _, key := range []string{"Unit.After", "Unit.Wants", "Unit.Requires"} {
		for _, value := range strings.Fields(strings.Join(settings[key], " ")) {
			if value == "network-online.target" || strings.HasSuffix(value, ".device") {
				t.Errorf("%s=%s: the daemon waits for its interface itself (puppet-hpc#70)", key, value)
			}
		}
	}
}
