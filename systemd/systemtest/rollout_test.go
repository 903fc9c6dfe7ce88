//go:build system

package systemtest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRoleIsWellWritten: the strictest profile of ansible-lint finds nothing.
func TestRoleIsWellWritten(t *testing.T) {
	need(t, map[string]string{"ansible-lint": "ansible-lint", "ansible-playbook": "ansible-core"})
	if out, err := try("sh", "-c", "cd ../../deploy/ansible && LC_ALL=C.UTF-8 exec ansible-lint --offline --nocolor --strict --profile production site.yml roles/bulkshaper"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestRollOut brings three nodes that have nothing from none to shaped, from one inventory to the next, and stops at each bad edit before
// it has spread.
func TestRollOut(t *testing.T) {
	binary := build(t)
	f := newFleet(t, "bulkshaper_binary="+binary, "bulkshaper_checker="+binary, "bulkshaper_sync_timeout=30", "bulkshaper_sync_interval=1", `{"bulkshaper_keep": ["web.yml", "keys/missing.pem"]}`)
	config := filepath.Join(f.files, "config.yaml")
	server := func(name string) string { return filepath.Join(f.files, "nyc1/jsons", name+".json") }
	step := func(name string, test func(*testing.T)) {
		t.Helper()
		if !t.Run(name, test) {
			t.FailNow() // each begins where the one before ends
		}
	}
	rate := func(t *testing.T, name string) string { return f.nodes[name].classes(t)[cross].rate }
	setRate := func(t *testing.T, rate string) {
		edit(t, config, func(s string) string {
			before, rest, _ := strings.Cut(s, "cross-cabinet: {id: 20,  rate: ")
			_, after, _ := strings.Cut(rest, ",")
			return before + "cross-cabinet: {id: 20,  rate: " + rate + "," + after
		})
	}
	// undo makes the files again what they were before the step.
	undo := func(t *testing.T, path string) {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.WriteFile(path, text, 0o644); err != nil {
				t.Error(err)
			}
		})
	}

	step("a try changes nothing", func(t *testing.T) {
		before := f.states(t)
		f.rolls(t, "--check")
		f.same(t, before, f.names...)
	})

	step("nodes without anything", func(t *testing.T) {
		out := f.rolls(t)
		for _, name := range f.names {
			c := f.nodes[name]
			c.active(t)
			if got := rate(t, name); got != "204800Kbit" {
				t.Errorf("%s: class %s has a rate of %s", name, cross, got)
			}
			if m := c.metrics(t); m["bulkshaper_in_sync"] != 1 {
				t.Errorf("%s: in_sync %v", name, m["bulkshaper_in_sync"])
			}
			if got := c.run(t, "systemctl", "is-enabled", "bulkshaper.service"); got != "enabled" {
				t.Errorf("%s: the unit is %s", name, got)
			}
			if out, err := c.try("bulkshaper", "confirm"); err == nil || !strings.Contains(err.Error(), "the new shaping was confirmed") {
				t.Errorf("%s: the first shaping was not confirmed: %s, %v", name, out, err)
			}
		}
		plays := strings.Split(out, "PLAY [Roll out, one node first]")
		if len(plays) < 3 || strings.Contains(plays[1], "hadoop14]") || strings.Contains(plays[1], "hadoop27]") {
			t.Errorf("the first node was not rolled out alone:\n%s", tail(out))
		}
	})

	step("an edit of rates and of the inventory", func(t *testing.T) {
		packets := map[string]int{}
		for _, name := range f.names {
			f.nodes[name].send(t, "10.241.29.28", 20)
			packets[name] = f.nodes[name].classes(t)[cross].packets + f.nodes[name].classes(t)["1:10"].packets
			if packets[name] < 20 {
				t.Fatalf("%s: of 20 packets %d were counted", name, packets[name])
			}
		}
		own := f.nodes["hadoop13"] // its web.yml is its own, by bulkshaper_keep
		own.run(t, "sh", "-c", "echo '{}' >/etc/bulkshaper/web.yml && echo note >/etc/bulkshaper/note.txt")
		setRate(t, "100mbit")
		out := f.rolls(t, "--check", "--limit", "hadoop13")
		if !strings.Contains(out, "100mbit") {
			t.Errorf("a try does not tell the new rate:\n%s", tail(out))
		}
		if got := rate(t, "hadoop13"); got != "204800Kbit" {
			t.Errorf("a try has set a rate of %s", got)
		}
		edit(t, server("app01"), func(s string) string {
			return strings.Replace(s, `"ip_address": "`, `"ip_address": "10.241.77.7", "former": "`, 1)
		})
		f.rolls(t, "-e", "bulkshaper_probe='tc class show dev eth1 | grep -q 100Mbit'")
		for _, name := range f.names {
			c := f.nodes[name]
			c.active(t)
			if got := rate(t, name); got != "100Mbit" {
				t.Errorf("%s: class %s has a rate of %s", name, cross, got)
			}
			if out := c.run(t, "bulkshaper", "explain", "10.241.77.7"); !strings.Contains(out, "app01") {
				t.Errorf("%s does not know app01's new address:\n%s", name, out)
			}
			if got := c.classes(t)[cross].packets + c.classes(t)["1:10"].packets; got < packets[name] {
				t.Errorf("%s: %d packets were counted, and now %d", name, packets[name], got)
			}
			if out, err := c.try("systemctl", "is-active", "bulkshaper-return.timer"); err == nil {
				t.Errorf("%s: a timer is left: %s", name, out)
			}
		}
		if got := own.run(t, "sh", "-c", "cd /etc/bulkshaper && cat web.yml && ls note.txt 2>&1 || true"); !strings.HasPrefix(got, "{}\n") || !strings.Contains(got, "No such file") {
			t.Errorf("what belongs to the node should stay, and nothing else: %s", got)
		}
	})

	deb := debOf(t, f.shared, "v9.1.0")
	step("the next version comes as a package, by a URL", func(t *testing.T) {
		before := map[string]string{}
		for _, name := range f.names {
			before[name] = f.shaping(t, name)
			f.nodes[name].run(t, "systemd-run", "--unit=web", "python3", "-m", "http.server", "--bind", "127.0.0.1", "--directory", "/srv", "8000")
			eventually(t, name+" serves the package", func() error {
				_, err := f.nodes[name].try("bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8000")
				return err
			})
		}
		text, err := os.ReadFile(deb)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		others := f.vars[1:]
		f.vars = append([]string{"bulkshaper_package=http://127.0.0.1:8000/" + filepath.Base(deb)}, others...)
		f.stops(t, "give bulkshaper_package_checksum")
		f.stops(t, "did not match", "-e", "bulkshaper_package_checksum=sha256:"+strings.Repeat("0", 64))
		right := fmt.Sprintf("bulkshaper_package_checksum=sha256:%x", sum)
		f.rolls(t, "-e", right, "--check", "--limit", "hadoop13")
		f.rolls(t, "-e", right)
		f.vars = append([]string{"bulkshaper_package=" + deb}, others...) // the same from here
		for _, name := range f.names {
			c := f.nodes[name]
			c.active(t)
			if page := c.get(t, "/metrics"); !regexp.MustCompile(`(?m)^bulkshaper_build_info{.*version="v9.1.0".*} 1$`).MatchString(page) {
				t.Errorf("%s: the daemon is of another version:\n%s", name, page)
			}
			if now := f.shaping(t, name); now != before[name] {
				t.Errorf("%s: the shaping, with its counters, was\n%s\nand is\n%s", name, before[name], now)
			}
		}
	})

	step("a second time there is nothing to do", func(t *testing.T) {
		before := f.states(t)
		out := f.rolls(t)
		for _, name := range f.names {
			if n := changed(t, out, name); n != "0" {
				t.Errorf("%s: %s tasks changed something:\n%s", name, n, tail(out))
			}
		}
		f.same(t, before, f.names...)
	})

	step("what is wrong in itself touches no node", func(t *testing.T) {
		before := f.states(t)
		undo(t, config)
		setRate(t, "100") // no unit
		f.stops(t, "has no unit; write 100mbit")
		f.same(t, before, f.names...)
	})

	step("what loses most servers touches no node", func(t *testing.T) {
		before := f.states(t)
		files, err := filepath.Glob(server("*"))
		if err != nil || len(files) < 20 {
			t.Fatal(files, err)
		}
		for _, path := range files {
			if _, node := addresses[strings.TrimSuffix(filepath.Base(path), ".json")]; node {
				continue
			}
			undo(t, path)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		f.stops(t, "the inventory has 3 servers and had 22")
		f.same(t, before, f.names...)
	})

	step("what only the node can see stops at the first", func(t *testing.T) {
		before := f.states(t)
		undo(t, config)
		edit(t, config, func(s string) string { return strings.Replace(s, "interface: eth1", "interface: eth9", 1) })
		f.stops(t, "eth9")
		f.same(t, before, f.names...)
	})

	step("what the services do not like is taken back on the first", func(t *testing.T) {
		before := f.states(t)
		undo(t, config)
		setRate(t, "8kbit")
		out := f.stops(t, "hadoop13 did not get in sync, and the roll-out stops. It is shaped as before", "-e", "bulkshaper_probe='! tc class show dev eth1 | grep -q \"rate 8Kbit\"'")
		if !strings.Contains(out, "Ask whether all is well") {
			t.Errorf("it does not say what failed:\n%s", tail(out))
		}
		f.same(t, before, f.names...)
		if m := f.nodes["hadoop13"].metrics(t); m["bulkshaper_in_sync"] != 1 {
			t.Errorf("in_sync %v", m["bulkshaper_in_sync"])
		}
	})

	step("what cuts the node off is taken back by the node", func(t *testing.T) {
		before := f.states(t)
		undo(t, config)
		setRate(t, "9kbit")
		f.ssh = "-o ControlMaster=no"
		f.stops(t, "unreachable=1", "-e", "bulkshaper_confirm=10", "-e", "bulkshaper_probe='touch /srv/{{ inventory_hostname }}'")
		f.ssh = stays
		if _, err := os.Stat("/etc/bulkshaper.new"); err == nil {
			t.Error("the control host has files of a node")
		}
		f.same(t, before, f.names...)
		if err := os.Remove(filepath.Join(f.shared, "hadoop13")); err != nil {
			t.Errorf("it was not cut off: %v", err)
		}
	})

	step("a node that is not in sync ends it", func(t *testing.T) {
		before := f.states(t)
		sick := f.nodes["hadoop14"]
		sick.run(t, "tc", "class", "add", "dev", "eth1", "parent", "1:20", "classid", "1:77", "htb", "rate", "1mbit")
		eventually(t, "hadoop14 says so", func() error {
			_, err := sick.try("bash", "-c", `bulkshaper status --format json | grep -q '"in_sync": false'`)
			return err
		})
		setRate(t, "50mbit")
		f.stops(t, "hadoop14 is not in sync, and nothing was touched", "-e", "bulkshaper_batch=1")
		if got := rate(t, "hadoop13"); got != "50Mbit" {
			t.Errorf("hadoop13 was in sync and has a rate of %s", got)
		}
		f.same(t, before, "hadoop27")
		sick.run(t, "tc", "class", "delete", "dev", "eth1", "classid", "1:77")
		f.same(t, before, "hadoop14")
	})

	step("files that are to mend a node that is not in sync", func(t *testing.T) {
		sick := f.nodes["hadoop14"]
		sick.run(t, "sh", "-c", "sed -i 's/interface: eth1/interface: eth9/' /etc/bulkshaper/config.yaml && systemctl restart --no-block bulkshaper.service")
		eventually(t, "hadoop14 waits for another interface", func() error {
			_, err := sick.try("bash", "-c", `bulkshaper status --format json | grep -q '"in_sync": false'`)
			return err
		})
		f.stops(t, "hadoop14 is not in sync, and nothing was touched", "--limit", "hadoop14")
		f.rolls(t, "--limit", "hadoop14", "-e", "bulkshaper_mend=true")
		sick.active(t)
		if got := rate(t, "hadoop14"); got != "50Mbit" {
			t.Errorf("hadoop14 is mended and has a rate of %s", got)
		}
	})

	// hadoop13 and hadoop14 have the config of the steps before already, hadoop27 gets it with the inventory.
	step("daemons that follow by themselves, and one that refuses to", func(t *testing.T) {
		pid := f.nodes["hadoop13"].property(t, "MainPID")
		edit(t, server("app02"), func(s string) string {
			return strings.Replace(s, `"ip_address": "`, `"ip_address": "10.241.77.8", "former": "`, 1)
		})
		f.rolls(t, "-e", "bulkshaper_confirm=0")
		for _, name := range f.names {
			if out := f.nodes[name].run(t, "bulkshaper", "explain", "10.241.77.8"); !strings.Contains(out, "app02") {
				t.Errorf("%s does not know app02's new address:\n%s", name, out)
			}
			if got := rate(t, name); got != "50Mbit" {
				t.Errorf("%s has a rate of %s", name, got)
			}
		}
		if now := f.nodes["hadoop13"].property(t, "MainPID"); now != pid {
			t.Errorf("process %s is now %s", pid, now)
		}
		before := f.states(t)
		for _, name := range []string{"hadoop16", "hadoop17", "hadoop18", "hadoop19", "hadoop20", "hadoop21", "hadoop22", "hadoop23", "hadoop24", "hadoop25", "hadoop26", "hadoop28"} {
			undo(t, server(name))
			if err := os.Remove(server(name)); err != nil {
				t.Fatal(err)
			}
		}
		f.stops(t, "hadoop13 did not get in sync, and the roll-out stops. It is shaped as before", "-e", "bulkshaper_confirm=0", "-e", "bulkshaper_max_shrink=100", "-e", "bulkshaper_sync_timeout=5")
		f.same(t, before, f.names...)
	})
}
