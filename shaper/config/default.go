package config

import (
	"time"

	"bulkshaper/inventory"
)

// Default is the packaged config: what stands where neither the file nor a flag says otherwise. Only the interface is missing.
func Default() *Config {
	percent := func(n float64) Rate { return Rate{Percent: n} }
	auto := Leaf{Kind: LeafAuto}
	return &Config{
		Source:    inventory.Source{Roles: "/etc/bulkshaper/roles.json", Servers: []string{"/etc/bulkshaper/dc/*/jsons"}},
		MaxShrink: 0.5,
		Debounce:  200 * time.Millisecond,
		Rescan:    time.Minute,
		// The original incident's 819200kbit and 204800kbit on links of 1 Gbit/s, as parts of any link.
		Classes: []Class{
			{Name: "same-cabinet", ID: 0x10, Rate: percent(80), Leaf: auto},
			{Name: "cross-cabinet", ID: 0x20, Rate: percent(20), Leaf: auto},
			{Name: "priority-role", ID: 0x30, Rate: percent(20), Leaf: auto},
			{Name: "default", ID: 0x100, Rate: percent(20), Leaf: auto},
		},
		DefaultClass: "default",
		Rules: []Rule{
			{Name: "same-cabinet", Match: Match{Cabinet: []string{Same}}, Class: "same-cabinet"},
			{Name: "priority-role", Match: Match{Role: []string{"hadoop_namenode", "hadoop_jobtracker", "monitoring"}}, Class: "priority-role"},
			{Name: "cross-cabinet", Match: Match{Role: []string{"hadoop_node"}}, Class: "cross-cabinet"},
		},
		Listen: ":9825",
		Layout: "hash",
		RunDir: "/run/bulkshaper",
		Resync: 30 * time.Second,
		Log:    Log{Level: "info", Format: "auto"},
	}
}
