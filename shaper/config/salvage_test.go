package config

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSalvage: what a config that is wrong says all the same of where the daemon and the inventory are.
func TestSalvage(t *testing.T) {
	t.Parallel()
	const files = "inventory: {roles: r.json, servers: [jsons]}\n"
	for name, c := range map[string]struct {
		text   string
		source bool
		runDir string
	}{
		"a class that is wrong":        {"interface: eth1\nrun_dir: /r\n" + files + "classes: {a: {id: zz}}\n", true, "/r"},
		"a rate in the middle":         {"classes: {default: {id: 100, rate: 5}}\n" + files + "run_dir: /r\n", true, "/r"},
		"no inventory, wrong class":    {"interface: eth1\nclasses: {a: {id: zz}}\n", true, Default().RunDir},
		"a misspelled inventory":       {"interface: eth1\nrun_dir: /r\ninventroy: {roles: r.json, servers: [jsons]}\n", false, "/r"},
		"a misspelled key beside":      {"interfase: eth1\n" + files, true, Default().RunDir},
		"misspelled fields":            {"interface: eth1\ninventory: {roles: r.json, servers: [jsons], feilds: {name: [x]}}\n", false, Default().RunDir},
		"no YAML":                      {"interface: [\n", false, Default().RunDir},
		"a run_dir that is wrong":      {"interface: eth1\nrun_dir: [a, b]\n" + files, true, Default().RunDir},
		"a servers pattern that is no": {"interface: eth1\ninventory: {roles: r.json, servers: ['[']}\n", false, Default().RunDir},
	} {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path, Overrides{}); err == nil {
			t.Errorf("%s: nothing is wrong with it", name)
		}
		s := Salvage(path, Overrides{})
		if s.Source != c.source || s.Config.RunDir != c.runDir {
			t.Errorf("%s: source %v, want %v; run folder %s, want %s", name, s.Source, c.source, s.Config.RunDir, c.runDir)
		}
		if want := filepath.Join(filepath.Dir(path), "r.json"); c.source && c.text != "" && s.Config.Source.Roles != want && s.Config.Source.Roles != Default().Source.Roles {
			t.Errorf("%s: roles at %s", name, s.Config.Source.Roles)
		}
	}
	// Flags stand whatever the file is.
	var o Overrides
	if err := o.Set("run-dir", "/flag"); err != nil {
		t.Fatal(err)
	}
	if s := Salvage("/absent/config.yaml", o); s.Config.RunDir != "/flag" || s.Source {
		t.Errorf("%+v", s)
	}
}

// TestRatesInBytes are taken as tc takes them, and it is said once for each, with what was meant.
func TestRatesInBytes(t *testing.T) {
	t.Parallel()
	c, err := Parse("c.yaml", []byte(`interface: eth1
link_rate: 10gbps
classes:
  a: {id: 10, rate: 50mbps, ceil: 60Mbps}
  b: {id: 20, rate: {of: 1gbps, use: 10%, among: {role: x}, min: 1mbit}}
  c: {id: 30, rate: 50mbit}
default_class: c
rules: []
`), Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	if c.LinkRate != 80_000_000_000 || c.Classes[0].Rate.Fixed != 400_000_000 {
		t.Errorf("not tc's meaning: %+v", c)
	}
	want := []string{
		"c.yaml:2:12: link_rate: 10gbps is in bytes, as for tc, and so taken for 80gbit; write 10gbit if bits were meant, or 80gbit if not",
		"c.yaml:4:21: class a: rate: 50mbps is in bytes, as for tc, and so taken for 400mbit; write 50mbit if bits were meant, or 400mbit if not",
		"c.yaml:4:35: class a: ceil: 60Mbps is in bytes, as for tc, and so taken for 480mbit; write 60mbit if bits were meant, or 480mbit if not",
		"c.yaml:5:26: class b: rate.of: 1gbps is in bytes, as for tc, and so taken for 8gbit; write 1gbit if bits were meant, or 8gbit if not",
	}
	if len(c.Warnings) != len(want) {
		t.Fatalf("%d warnings: %v", len(c.Warnings), c.Warnings)
	}
	for i, w := range c.Warnings {
		if w.String() != want[i] {
			t.Errorf("%s\nwant\n%s", w.String(), want[i])
		}
	}
	for _, text := range []string{"50mbit", "5%", "bps", "xmbps", "mbps", ""} {
		if taken, _, ok := InBytes(text); ok {
			t.Errorf("%q: %s", text, taken)
		}
	}
}
