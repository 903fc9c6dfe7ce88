//go:build system

package systemtest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// incident copies testdata/incident as a node's /etc/bulkshaper, readable for everybody, with more of config behind it.
func incident(t *testing.T, config string) string {
	t.Helper()
	etc := filepath.Join(t.TempDir(), "etc")
	if err := os.CopyFS(etc, os.DirFS("../../testdata/incident")); err != nil {
		t.Fatal(err)
	}
	if config != "" {
		edit(t, filepath.Join(etc, "config.yaml"), func(s string) string { return s + config })
	}
	return etc
}

// edit changes a file as editors do: by a new one in its place.
func edit(t *testing.T, path string, change func(string) string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := change(string(text))
	if changed == string(text) {
		t.Fatalf("edit %s: nothing changes", path)
	}
	if err := os.WriteFile(path+"~", []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		t.Fatal(err)
	}
}

// class is what tc tells of one.
type class struct {
	rate    string
	packets int
}

// classes is what tc tells of the classes, by classid. (The oldest tc prints no JSON of classes.)
func (c *container) classes(t *testing.T) map[string]class {
	t.Helper()
	text := c.run(t, "tc", "-statistics", "class", "show", "dev", "eth1")
	classes := make(map[string]class)
	for _, m := range regexp.MustCompile(`class htb (\S+) .* rate (\S+) .*\n Sent \d+ bytes (\d+) pkt`).FindAllStringSubmatch(text, -1) {
		packets, err := strconv.Atoi(m[3])
		if err != nil {
			t.Fatal(err)
		}
		classes[m[1]] = class{m[2], packets}
	}
	if len(classes) == 0 {
		t.Fatalf("no classes in\n%s", text)
	}
	return classes
}

// metrics is what the daemon's /metrics says, by series.
func (c *container) metrics(t *testing.T) map[string]float64 {
	t.Helper()
	values, err := c.scrape()
	if err != nil {
		t.Fatal(err)
	}
	return values
}

func (c *container) scrape() (map[string]float64, error) {
	answer, err := c.try("bash", "-c", `exec 3<>/dev/tcp/127.0.0.1/9825 && printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3 && cat <&3`)
	values := make(map[string]float64)
	for _, line := range strings.Split(answer, "\n") {
		if name, value, ok := strings.Cut(line, " "); ok && !strings.HasPrefix(line, "#") {
			if v, err := strconv.ParseFloat(value, 64); err == nil {
				values[name] = v
			}
		}
	}
	return values, err
}

// status is the process's status file, by key.
func (c *container) status(t *testing.T, pid string) map[string]string {
	t.Helper()
	values := make(map[string]string)
	for _, line := range strings.Split(c.run(t, "cat", "/proc/"+pid+"/status"), "\n") {
		key, value, _ := strings.Cut(line, ":")
		values[key] = strings.TrimSpace(value)
	}
	return values
}

// hadoop13 is in another cabinet, so it is of class 1:20.
const (
	hadoop13 = "10.241.28.13"
	cross    = "1:20"
)

// life is that of a node from its boot, before its bulk interface is there, to the last restart: it is shaped, edited, broken, killed,
// hung and stopped. It ends with the unit active.
func life(t *testing.T, c *container) {
	config := filepath.Join(c.etc, "config.yaml")
	step := steps(t)

	step("the unit is well written", func(t *testing.T) {
		unit := c.property(t, "FragmentPath")
		if unit != "/lib/systemd/system/bulkshaper.service" && unit != "/usr/lib/systemd/system/bulkshaper.service" {
			t.Errorf("the unit is %q", unit)
		}
		if out := c.run(t, "systemd-analyze", "verify", unit); out != "" {
			t.Errorf("systemd-analyze verify says:\n%s", out)
		}
		exposure(t, c.run(t, "systemd-analyze", "security", "--no-pager", "bulkshaper.service"))
		exposure(t, c.run(t, "systemd-analyze", "security", "--no-pager", "--offline=true", unit))
	})

	step("it waits for its interface", func(t *testing.T) {
		eventually(t, "a process", func() error {
			if pid := c.property(t, "MainPID"); pid == "0" {
				return fmt.Errorf("none")
			}
			return nil
		})
		if state := c.property(t, "ActiveState"); state != "activating" {
			t.Fatalf("without an interface it is %s, want activating; its log:\n%s", state, strings.Join(c.journal(t), "\n"))
		}
		c.says(t, 0, "no such interface: eth1", "listening")
		c.run(t, "systemctl", "stop", "bulkshaper.service")
		if state, result := c.property(t, "ActiveState"), c.property(t, "Result"); state != "inactive" || result != "success" {
			t.Errorf("stopped while it waits it is %s, result %s", state, result)
		}
		c.run(t, "systemctl", "start", "--no-block", "bulkshaper.service")
		c.plug(t)
		c.active(t)
		if text := c.property(t, "StatusText"); text == "" {
			t.Error("no status line")
		}
		classes := c.classes(t)
		for id, rate := range map[string]string{"1:10": "819200Kbit", cross: "204800Kbit", "1:100": "204800Kbit"} {
			if classes[id].rate != rate {
				t.Errorf("class %s has a rate of %s, want %s", id, classes[id].rate, rate)
			}
		}
		if n := c.property(t, "NRestarts"); n != "0" {
			t.Errorf("it took %s restarts; its log:\n%s", n, strings.Join(c.journal(t), "\n"))
		}
	})

	step("it has CAP_NET_ADMIN and nothing else", func(t *testing.T) {
		status := c.status(t, c.property(t, "MainPID"))
		const netAdmin = "0000000000001000" // 1<<12, capabilities(7)
		for key, want := range map[string]string{
			"CapInh": netAdmin, "CapPrm": netAdmin, "CapEff": netAdmin, "CapBnd": netAdmin, "CapAmb": netAdmin, "NoNewPrivs": "1", "Seccomp": "2",
		} {
			if status[key] != want {
				t.Errorf("%s is %s, want %s", key, status[key], want)
			}
		}
		if strings.HasPrefix(status["Uid"], "0\t") || strings.HasPrefix(status["Gid"], "0\t") {
			t.Errorf("it runs as user %s, group %s", status["Uid"], status["Gid"])
		}
	})

	step("it can be asked", func(t *testing.T) {
		var status struct {
			Interface string
			InSync    bool `json:"in_sync"`
			Classes   []struct{ ClassID string }
		}
		out := c.run(t, "bulkshaper", "status", "--format", "json", "--config", "/etc/bulkshaper/config.yaml")
		if err := json.Unmarshal([]byte(out), &status); err != nil {
			t.Fatalf("%v in\n%s", err, out)
		}
		if status.Interface != "eth1" || !status.InSync || len(status.Classes) < 3 {
			t.Errorf("status:\n%s", out)
		}
		metrics := c.metrics(t)
		if metrics["bulkshaper_in_sync"] != 1 || metrics["bulkshaper_scrape_errors_total"] != 0 {
			t.Errorf("in_sync %v, scrape errors %v", metrics["bulkshaper_in_sync"], metrics["bulkshaper_scrape_errors_total"])
		}
		if metrics["process_start_time_seconds"] < 1e9 {
			t.Errorf("process_start_time_seconds is %v", metrics["process_start_time_seconds"])
		}
	})

	step("its counters count", func(t *testing.T) {
		before := c.classes(t)[cross].packets
		c.send(t, hadoop13, 20)
		if got := c.classes(t)[cross].packets - before; got != 20 {
			t.Errorf("20 packets to %s: class %s sent %d", hadoop13, cross, got)
		}
		series := `bulkshaper_class_sent_packets_total{class="cross-cabinet",classid="1:20",interface="eth1",kind="leaf"}`
		if got, want := c.metrics(t)[series], float64(c.classes(t)[cross].packets); got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	})

	step("a reload follows the files", func(t *testing.T) {
		pid, packets, lines := c.property(t, "MainPID"), c.classes(t)[cross].packets, len(c.journal(t))
		edit(t, config, func(s string) string {
			return strings.Replace(s, "cross-cabinet: {id: 20,  rate: 204800kbit", "cross-cabinet: {id: 20,  rate: 100mbit", 1)
		})
		c.run(t, "systemctl", "reload", "bulkshaper.service")
		eventually(t, "the new rate", func() error {
			if rate := c.classes(t)[cross].rate; rate != "100Mbit" {
				return fmt.Errorf("class %s has a rate of %s", cross, rate)
			}
			return nil
		})
		c.active(t)
		if got := c.property(t, "MainPID"); got != pid {
			t.Errorf("process %s is now %s", pid, got)
		}
		if got := c.classes(t)[cross].packets; got < packets {
			t.Errorf("class %s had sent %d packets and now %d", cross, packets, got)
		}
		eventually(t, "a line in the journal", func() error {
			if len(c.journal(t)) == lines {
				return fmt.Errorf("none")
			}
			return nil
		})
		if said := c.journal(t)[lines:]; len(said) != 1 {
			t.Errorf("one line is due for a reload, there are %d:\n%s", len(said), strings.Join(said, "\n"))
		}
	})

	step("bad files are refused", func(t *testing.T) {
		lines := len(c.journal(t))
		good, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		edit(t, config, func(s string) string { return strings.Replace(s, "rate: 100mbit", "rate: 100", 1) })
		c.run(t, "systemctl", "reload", "bulkshaper.service")
		eventually(t, "a refusal", func() error {
			if m := c.metrics(t); m["bulkshaper_last_reload_successful"] != 0 || m[`bulkshaper_inventory_reloads_total{result="failure"}`] == 0 {
				return fmt.Errorf("the last reload counts as good")
			}
			return nil
		})
		c.active(t)
		if rate := c.classes(t)[cross].rate; rate != "100Mbit" {
			t.Errorf("class %s has a rate of %s now", cross, rate)
		}
		c.says(t, lines, "input refused, the last good shaping stays")
		edit(t, config, func(string) string { return string(good) })
		eventually(t, "the good file", func() error {
			if c.metrics(t)["bulkshaper_last_reload_successful"] != 1 {
				return fmt.Errorf("it is not taken")
			}
			return nil
		})
		c.says(t, lines, "input refused, the last good shaping stays", "inventory read, nothing to change")
	})

	step("killed, it comes back and takes over", func(t *testing.T) {
		c.send(t, hadoop13, 20)
		pid, before, lines := c.property(t, "MainPID"), c.classes(t)[cross].packets, len(c.journal(t))
		c.run(t, "systemctl", "kill", "--kill-who=main", "--signal=KILL", "bulkshaper.service")
		c.restarted(t, pid)
		if got := c.classes(t)[cross].packets; got < before {
			t.Errorf("class %s had sent %d packets and now %d", cross, before, got)
		}
		c.nothingDone(t)
		c.says(t, lines, "shaping that stood is adopted", "listening")
	})

	step("hung, it is restarted", func(t *testing.T) {
		pid := c.property(t, "MainPID")
		c.run(t, "kill", "-STOP", pid)
		c.restarted(t, pid)
		if out := c.run(t, "journalctl", "--quiet", "--output=cat", "--unit=bulkshaper.service"); !strings.Contains(out, "Watchdog timeout") {
			t.Errorf("no watchdog in the journal:\n%s", out)
		}
	})

	step("what root overrides the daemon's user follows, over a restart, and ends", func(t *testing.T) {
		before := c.classes(t)[cross].rate
		if out := c.run(t, "bulkshaper", "override", "cross-cabinet", "rate=7mbit", "--for", "1h", "--why", "copy"); !strings.Contains(out, "the daemon follows") {
			t.Errorf("it said:\n%s", out)
		}
		c.run(t, "systemctl", "restart", "bulkshaper.service")
		c.active(t)
		if rate := c.classes(t)[cross].rate; rate != "7Mbit" {
			t.Errorf("after a restart class %s has a rate of %s", cross, rate)
		}
		c.run(t, "bulkshaper", "override", "cross-cabinet", "rate=6mbit", "--for", "2s")
		eventually(t, "it ends by itself, and the daemon takes it out of root's file", func() error {
			file := c.run(t, "cat", "/run/bulkshaper/overrides.state")
			if rate := c.classes(t)[cross].rate; rate != before || strings.Contains(file, "6mbit") {
				return fmt.Errorf("rate %s, file %s", rate, file)
			}
			return nil
		})
	})

	step("stopped, it leaves the shaping", func(t *testing.T) {
		before, lines := c.shaping(t), len(c.journal(t))
		c.run(t, "systemctl", "disable", "--now", "bulkshaper")
		if state, result := c.property(t, "ActiveState"), c.property(t, "Result"); state != "inactive" || result != "success" {
			t.Errorf("it is %s, result %s", state, result)
		}
		if after := c.shaping(t); after != before {
			t.Errorf("shaping was\n%s\nand is\n%s", before, after)
		}
		if out := c.run(t, "ls", "/run/bulkshaper/"); !strings.Contains(out, "history.state") {
			t.Errorf("the run folder holds no history: %s", out)
		}
		c.says(t, lines, "told to stop; the shaping stays")
	})

	step("enabled, it goes on", func(t *testing.T) {
		before := c.shaping(t)
		c.run(t, "systemctl", "enable", "--now", "bulkshaper")
		c.active(t)
		if out := c.run(t, "systemctl", "is-enabled", "bulkshaper.service"); out != "enabled" {
			t.Errorf("it is %s", out)
		}
		if after := c.shaping(t); after != before {
			t.Errorf("shaping was\n%s\nand is\n%s", before, after)
		}
		c.run(t, "systemctl", "stop", "bulkshaper.service")
	})

	step("files broken at the start are waited for", func(t *testing.T) {
		before := c.classes(t)[cross]
		edit(t, config, func(s string) string { return strings.Replace(s, "rate: 100mbit", "rate: 100", 1) })
		c.run(t, "systemctl", "start", "--no-block", "bulkshaper.service")
		eventually(t, "it is tried again", func() error {
			if n := c.property(t, "NRestarts"); n == "0" || n == "1" {
				return fmt.Errorf("%s restarts", n)
			}
			return nil
		})
		if out := c.run(t, "journalctl", "--quiet", "--output=cat", "--unit=bulkshaper.service"); !strings.Contains(out, "status=2/") {
			t.Errorf("no end with exit code 2 in the journal:\n%s", out)
		}
		if now := c.classes(t)[cross]; now != before {
			t.Errorf("class %s was %v and is %v", cross, before, now)
		}
		edit(t, config, func(s string) string { return strings.Replace(s, "rate: 100,", "rate: 200mbit,", 1) })
		c.active(t)
		if rate := c.classes(t)[cross].rate; rate != "200Mbit" {
			t.Errorf("class %s has a rate of %s", cross, rate)
		}
	})
}

// says waits until the unit has said all that is due since its journal had the lines from, and fails where it says more: each of due is in
// a line of its own, in any order.
func (c *container) says(t *testing.T, from int, due ...string) {
	t.Helper()
	said := func() []string { return c.journal(t)[from:] }
	eventually(t, "all that is due in the journal", func() error {
		left := said()
		for _, text := range due {
			i := slices.IndexFunc(left, func(line string) bool { return strings.Contains(line, text) })
			if i < 0 {
				return fmt.Errorf("no %q in\n%s", text, strings.Join(said(), "\n"))
			}
			left = slices.Delete(left, i, i+1)
		}
		return nil
	})
	if lines := said(); len(lines) != len(due) {
		t.Errorf("due are %q, and it says\n%s", due, strings.Join(lines, "\n"))
	}
}

// active waits until systemd calls the unit active.
func (c *container) active(t *testing.T) {
	t.Helper()
	eventually(t, "the unit is active", func() error {
		if state := c.property(t, "ActiveState"); state != "active" {
			return fmt.Errorf("it is %s; its log:\n%s", state, strings.Join(c.journal(t), "\n"))
		}
		return nil
	})
}

// restarted waits until another process than pid is active.
func (c *container) restarted(t *testing.T, pid string) {
	t.Helper()
	eventually(t, "a new process", func() error {
		now, state := c.property(t, "MainPID"), c.property(t, "ActiveState")
		if now == pid || now == "0" || state != "active" {
			return fmt.Errorf("process %s, %s", now, state)
		}
		return nil
	})
}

// TestUnitWithoutCapability is a container that may not shape: one error that says so, no process and no restarts.
func TestUnitWithoutCapability(t *testing.T) {
	c := boot(t, oldest, build(t), incident(t, ""), "--drop-capability=CAP_NET_ADMIN")
	if out, err := c.try("systemctl", "start", "bulkshaper.service"); err == nil {
		t.Errorf("it started: %s", out)
	}
	if assert, restarts := c.property(t, "AssertResult"), c.property(t, "NRestarts"); assert != "no" || restarts != "0" {
		t.Errorf("AssertResult %s, %s restarts", assert, restarts)
	}
	out := c.run(t, "journalctl", "--quiet", "--output=cat", "--unit=bulkshaper.service")
	if !strings.Contains(out, "AssertCapability=CAP_NET_ADMIN") && !strings.Contains(out, "Assertion failed") {
		t.Errorf("the journal does not say why:\n%s", out)
	}
}
