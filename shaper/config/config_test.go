package config

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"bulkshaper/inventory"
	"bulkshaper/shaper/tc"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// exact compares configs but for the places of what is in them.
func exact() cmp.Option {
	return cmp.Options{cmpopts.IgnoreFields(Class{}, "Place"), cmpopts.IgnoreFields(Rule{}, "Place"), cmpopts.IgnoreFields(Config{}, "File"),
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })}
}

func parse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("c.yaml", []byte("interface: eth1\n"+text), Overrides{})
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return c
}

func TestReferenceIsDefault(t *testing.T) {
	got, err := Parse("/etc/bulkshaper/config.yaml", Reference(), Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Interface = "eth1"
	if d := cmp.Diff(want, got, exact()); d != "" {
		t.Error(d)
	}
}

// TestReferenceHasEveryKey keeps the manual whole: each setting stands in it with its default.
func TestReferenceHasEveryKey(t *testing.T) {
	root, problems := readYAML("reference.yaml", Reference())
	if problems != nil {
		t.Fatal(problems)
	}
	for _, key := range Keys() {
		at := root
		for _, name := range strings.Split(key.YAML, ".") {
			i := slices.IndexFunc(at.pairs, func(p pair) bool { return p.key.text == name })
			if i < 0 {
				t.Errorf("the reference config has no %s", key.YAML)
				break
			}
			at = at.pairs[i].value
		}
	}
}

// TestKeysAreReadInFileAndFlag gives every setting the text of a value that is not its default in both ways.
func TestKeysAreReadInFileAndFlag(t *testing.T) {
	values := map[string]string{
		"interface": "bond0", "node": "n1", "link-rate": "25gbit", "roles": "/r.json", "servers": "/a,/b/*", "max-shrink": "12.5%",
		"debounce": "1s", "rescan": "2m", "default-class": "same-cabinet", "ack-class": "", "layout": "list", "takeover": "true", "allow-writable-by-others": "true",
		"run-dir": "/run/x", "resync": "1h", "listen": "127.0.0.1:1", "web-config": "/w.yml", "log-level": "debug", "log-format": "json",
	}
	for _, s := range settings() {
		value, ok := values[s.Flag]
		if !ok {
			t.Errorf("no value for --%s", s.Flag)
			continue
		}
		parts := strings.Split(value, ",")
		var o Overrides
		if err := o.Set("interface", "eth9"); err != nil {
			t.Fatal(err)
		}
		if err := o.Set(s.Flag, parts...); err != nil {
			t.Fatal(err)
		}
		if !o.Given(s.Flag) {
			t.Errorf("--%s is not given", s.Flag)
		}
		byFlag, err := Parse("", nil, o)
		if err != nil {
			t.Errorf("--%s %s: %v", s.Flag, value, err)
			continue
		}
		text := s.YAML + ": [" + value + "]\n"
		if s.Kind != Paths {
			text = s.YAML + ": \"" + value + "\"\n"
		}
		if section, key, nested := strings.Cut(text, "."); nested && strings.Contains(s.YAML, ".") {
			text = section + ":\n  " + key
		}
		if s.YAML != "interface" {
			text += "interface: eth9\n"
		}
		byFile, err := Parse("c.yaml", []byte(text), Overrides{})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		byFlag.NodeByFlag = false // that it is a flag's is for the errors
		if d := cmp.Diff(byFlag, byFile, exact()); d != "" {
			t.Errorf("%s: %s", s.YAML, d)
		}
		if got := s.get(byFlag); got != value {
			t.Errorf("--%s %s is read as %s", s.Flag, value, got)
		}
		// The flag wins over the file.
		both, err := Parse("c.yaml", Reference(), o)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.get(both); got != value {
			t.Errorf("--%s %s over the reference config is %s", s.Flag, value, got)
		}
	}
}

// TestZeroNeedsNoUnit: no time and no share are the same in any unit.
func TestZeroNeedsNoUnit(t *testing.T) {
	c, err := Parse("c.yaml", []byte("interface: eth1\ninventory: {debounce: 0, max_shrink: 0}\n"), Overrides{})
	if err != nil || c.Debounce != 0 || c.MaxShrink != 0 {
		t.Errorf("got %+v, %v", c, err)
	}
	if _, err := Parse("c.yaml", []byte("interface: eth1\nresync: 0\n"), Overrides{}); err == nil || !strings.Contains(err.Error(), "0s is less than 100ms") {
		t.Errorf("resync 0: %v", err)
	}
}

func TestDefaultsReadBack(t *testing.T) {
	for _, s := range settings() {
		c := Default()
		if text := s.get(c); text != "" {
			if err := s.set(c, strings.Split(text, ",")); err != nil {
				t.Errorf("%s: %v", s.YAML, err)
			}
		}
		if d := cmp.Diff(Default(), c, exact()); d != "" {
			t.Errorf("%s: %s", s.YAML, d)
		}
	}
}

func TestOverridesAreChecked(t *testing.T) {
	var o Overrides
	if err := o.Set("no-such-flag", "x"); err == nil || err.Error() != "set --no-such-flag: the config has no such key" {
		t.Error(err)
	}
	if err := o.Set("node", "a", "b"); err == nil {
		t.Error("two nodes were taken")
	}
	for flag, value := range map[string]string{"interface": "eth/1", "link-rate": "100", "default-class": "defualt", "takeover": "yes"} {
		if err := o.Set(flag, value); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Parse("", nil, o)
	const want = `--default-class: default_class: class "defualt" does not exist; did you mean default?
--interface: "eth/1" is no interface name: it has a slash, a colon or a blank; see ` + "`ip link`" + `
--link-rate: rate "100" has no unit; write 100mbit or 100kbit (units are tc's: bit kbit mbit gbit tbit, kibit ..., bps kbps ... are bytes)
--takeover: "yes" is neither true nor false; write one of them`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestWithoutFile(t *testing.T) {
	_, err := Load("", Overrides{})
	if err == nil || err.Error() != "no interface is given; write interface: eth1, or give --interface" {
		t.Error(err)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	good := write("good.yaml", "interface: eth1\ninventory: {roles: roles.json, servers: [dc/*/jsons, /abs]}\nmetrics: {web_config: web.yml}\n")
	c, err := Load(good, Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	// Relative paths are relative to the file, so that a check from another folder reads the same.
	if c.Source.Roles != dir+"/roles.json" || !slices.Equal(c.Source.Servers, []string{dir + "/dc/*/jsons", "/abs"}) || c.WebConfig != dir+"/web.yml" || c.File != good {
		t.Errorf("%+v", c)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	large := write("large.yaml", strings.Repeat("# comment\n", 110_000))
	for path, want := range map[string]string{
		dir + "/none": dir + "/none: open: no such file or directory",
		dir:           dir + ": is not a regular file (mode d",
		fifo:          fifo + ": is not a regular file (mode prw-------)",
		large:         large + ": is larger than 1048576 bytes",
	} {
		_, err := Load(path, Overrides{})
		var ps inventory.Problems
		if !errors.As(err, &ps) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestRelativePathsKeepGlobCharactersOfTheFolder(t *testing.T) {
	c, err := Parse("/etc/a[1]*/c.yaml", []byte("interface: e\ninventory: {servers: 'dc/*'}"), Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Source.Servers[0]; got != `/etc/a\[1]\*/dc/*` {
		t.Error(got)
	}
}

func TestIDsAreHexadecimalAsWritten(t *testing.T) {
	for text, want := range map[string]uint16{"10": 0x10, "010": 0x10, "1e2": 0x1e2, "0x10": 0x10, "0X1F": 0x1f, "'10'": 0x10, "fffe": 0xfffe,
		"1": 1, "100": 0x100, "0e1": 0xe1, "FF": 0xff, "1e-2": 0, "0o10": 0, "1_0": 0, "-1": 0, "1.0": 0, "": 0, "ffff": 0, "b000": 0, "b001": 0,
		"4fff": 0, "0": 0, "10000": 0, "123456789abcdef01234": 0, "'1:10'": 0, "0x": 0, "true": 0, "[1]": 0, "0x0x1": 0, "!!str 10": 0} {
		c, err := Parse("c", []byte("interface: e\nclasses: {a: {id: "+text+", rate: 1mbit}}\ndefault_class: a\nrules: []\n"), Overrides{})
		switch {
		case want == 0 && err == nil:
			t.Errorf("id %s is accepted as %x", text, c.Classes[0].ID)
		case want != 0 && err != nil:
			t.Errorf("id %s: %v", text, err)
		case want != 0 && c.Classes[0].ID != want:
			t.Errorf("id %s is read as %x", text, c.Classes[0].ID)
		}
	}
}

func TestWholeConfig(t *testing.T) {
	got := parse(t, `
node: N1
link_rate: 10gbit
inventory:
  roles: /r
  servers: /s
  fields: {name: id, addresses: [ip, ips], cabinet: rack}
  max_shrink: 0%
  debounce: 0s
classes:
  all: {id: 1, rate: 100%}
  bulk: &bulk
    id: 2
    parent: all
    rate: {of: 10gbit, use: 80%, among: {role: [a, "12"], cabinet: same, datacenter: same}, min: 50mbit, max: 1gbit}
    ceil: 50%
    prio: 7
    burst: 1600b
    cburst: 64kb
    quantum: 1514
    leaf: {kind: pfifo, limit: 100}
  rest: {<<: *bulk, id: 0a, leaf: {kind: bfifo, limit: 64kb}, prio: 0}
default_class: rest
rules:
  - name: a
    match: {role: a, cabinet: [012, 12, other], datacenter: nyc1, server: "DB*.", address: [10.0.0.1, 10.1.0.0/16, "2001:db8::/32", "::ffff:10.2.0.0/112"]}
    class: bulk
metrics: {listen: ""}
layout: list
takeover: true
log: {level: debug}
`)
	share := &Share{Of: 10e9, Use: 0.8, Among: Match{Role: []string{"a", "12"}, Cabinet: []string{Same}, Datacenter: []string{Same}}, Min: 50e6, Max: 1e9}
	want := Default()
	want.Interface, want.Node, want.LinkRate = "eth1", "N1", 10e9
	want.Source = inventory.Source{Roles: "/r", Servers: []string{"/s"}, Fields: inventory.Fields{Name: []string{"id"}, Addresses: []string{"ip", "ips"}, Cabinet: []string{"rack"}}}
	want.MaxShrink, want.Debounce = 0, 0
	want.Classes = []Class{
		{Name: "all", ID: 1, Rate: Rate{Percent: 100}, Leaf: Leaf{Kind: "auto"}},
		{Name: "bulk", ID: 2, Parent: "all", Rate: Rate{Share: share}, Ceil: Rate{Percent: 50}, Prio: 7, Burst: 1600, Cburst: 65536, Quantum: 1514, Leaf: Leaf{"pfifo", 100}},
		{Name: "rest", ID: 10, Parent: "all", Rate: Rate{Share: share}, Ceil: Rate{Percent: 50}, Burst: 1600, Cburst: 65536, Quantum: 1514, Leaf: Leaf{"bfifo", 65536}},
	}
	want.DefaultClass = "rest"
	want.Rules = []Rule{{Name: "a", Class: "bulk", Match: Match{Role: []string{"a"}, Cabinet: []string{"012", "12", Other}, Datacenter: []string{"nyc1"}, Server: []string{"db*"},
		Address: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("10.2.0.0/16")}}}}
	want.Listen, want.Layout, want.Takeover, want.Log.Level = "", "list", true, "debug"
	if d := cmp.Diff(want, got, exact()); d != "" {
		t.Error(d)
	}
	if s := got.Classes[1].Rate.String(); s != "{of: 10gbit, use: 80%, among: {role: [a, 12], cabinet: same, datacenter: same}, min: 50mbit, max: 1gbit}" {
		t.Error(s)
	}
	if got.Classes[1].Place != (inventory.Problem{File: "c.yaml", Line: 13, Column: 3}) || got.Rules[0].Place != (inventory.Problem{File: "c.yaml", Line: 26, Column: 5}) {
		t.Error(got.Classes[1].Place, got.Rules[0].Place)
	}
}

func TestOrderOfClassesDoesNotMatter(t *testing.T) {
	const a, b = "  a: {id: 20, rate: 1mbit}\n", "  b: {id: 3, rate: 1mbit}\n"
	const rest = "default_class: a\nrules: []\n"
	one, two := parse(t, "classes:\n"+a+b+rest), parse(t, "classes:\n"+b+a+rest)
	if d := cmp.Diff(one, two, exact()); d != "" {
		t.Error(d)
	}
	if one.Classes[0].Name != "b" {
		t.Error("classes are not sorted by id")
	}
}

func TestManyClassesAreNotNested(t *testing.T) {
	text := "default_class: c1\nrules: []\nclasses: {"
	for i := 1; i <= 1000; i++ {
		text += fmt.Sprintf("c%x: {id: %x, rate: 1mbit},\n ", i, i)
	}
	if n := len(parse(t, text+"}\n").Classes); n != 1000 {
		t.Errorf("%d classes", n)
	}
}

func TestEncodings(t *testing.T) {
	plain, err := Parse("c", Reference(), Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"BOM":  "\xef\xbb\xbf" + string(Reference()),
		"CRLF": strings.ReplaceAll(string(Reference()), "\n", "\r\n"),
		"---":  "---\n" + string(Reference()) + "---\n",
	} {
		c, err := Parse("c", []byte(data), Overrides{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(plain, c, exact()); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestNearest(t *testing.T) {
	keys := []string{"interface", "inventory", "classes", "rules", "default_class", "link_rate"}
	for word, want := range map[string]string{"interfcae": "interface", "Interface": "interface", "link-rate": "link_rate", "clases": "classes",
		"rule": "rules", "default": "", "x": "", "": "", "default_clas": "default_class", "inventroy": "inventory"} {
		if got := Nearest(word, keys); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}

func TestExactPercentages(t *testing.T) {
	for _, c := range []struct {
		percent string
		link    tc.BitRate
		want    tc.BitRate
	}{{"80%", 1e9, 800e6}, {"33.3%", 1e9, 333e6}, {"20%", 1024e6, 204800e3}, {"0.1%", 10e9, 10e6}, {"100%", 400e9, 400e9}, {"7%", 1e9, 70e6},
		{"33.333%", 100e6, 33333e3}, {"1%", 1000, 8}, {"57%", 100, 56}, {"29%", 100e9, 29e9}} {
		rate, err := ParseRate(c.percent)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := rate.Of(c.link); !ok || got != c.want {
			t.Errorf("%s of %s is %s, want %s", c.percent, c.link, got, c.want)
		}
	}
	if got := (&Share{Of: 10e9, Use: 0.8}).Each(3); got != 2666666664 {
		t.Error(got)
	}
	for _, s := range []string{"80", "80%%", "%", "-1%", "0%", "100.1%", "1e1%", "0x1%", ".%", "1.2.3%", "NaN%", "inf%", "100 gbit%", "5 0%", "1234567890123%"} {
		if r, err := ParseRate(s); err == nil {
			t.Errorf("%s is read as %v", s, r)
		}
	}
}
