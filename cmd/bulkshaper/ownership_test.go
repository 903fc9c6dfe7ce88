package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"bulkshaper/shaper"
)

// TestTakeover replaces a foreign root only where it is allowed, by the flag or by the key, and says so beforehand.
func TestTakeover(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args   []string
		config string
	}{"flag": {[]string{"--takeover"}, ""}, "key": {nil, "takeover: true\n"}} {
		t.Run(name, func(t *testing.T) {
			h, dir := newHost(t), copyTree(t, incident)
			h.TC("qdisc", "add", "dev", "eth1", "root", "handle", "42:", "htb")
			config := filepath.Join(dir, "config.yaml")
			edit(t, config, read(t, config)+c.config)
			with := func(command string, args ...string) []string {
				return append(append([]string{command, "--config", config}, c.args...), args...)
			}
			r := h.run(with("plan", "--exit-code")...)
			if r.code != exitDiffers || !strings.Contains(r.stdout, "REBUILD") || !strings.Contains(r.stdout, "NOT HITLESS") || !strings.Contains(r.stdout, "42:") {
				t.Errorf("plan: exit %d\n%s%s", r.code, r.stdout, r.stderr)
			}
			if r := h.run(with("apply")...); r.code != exitDone || !strings.Contains(r.stderr, "warning: htb 42: was probably made by YARN") {
				t.Errorf("apply: %+v", r)
			}
			if q := h.TC("qdisc", "show", "dev", "eth1"); !strings.HasPrefix(q, "qdisc htb 1: root") || strings.Contains(q, "42:") {
				t.Errorf("after the takeover:\n%s", q)
			}
			h.must("plan", "--exit-code", "--config", incidentConfig())
		})
	}
}

// TestTakeoverForTcBatch feeds the plan of a takeover in place to the real tc: what stands then is what apply makes.
func TestTakeoverForTcBatch(t *testing.T) {
	t.Parallel()
	h, other := newHost(t), newHost(t)
	script := read(t, filepath.Join(incident, "hand-written.tc"))
	for _, h := range []*host{h, other} {
		if err := h.TCBatch(script); err != nil {
			t.Fatal(err)
		}
	}
	lines := h.must("plan", "--takeover", "--format", "tc", "--config", incidentConfig())
	if err := h.TCBatch(lines); err != nil {
		t.Fatalf("%v\n%s", err, lines)
	}
	for _, line := range strings.Split(strings.TrimSpace(h.must("plan", "--format", "tc", "--config", incidentConfig())), "\n") {
		if line != "" && !strings.HasPrefix(line, "#") {
			t.Errorf("after tc -batch there is still to do: %s", line)
		}
	}
	other.must("apply", "--takeover", "--config", incidentConfig())
	by, applied := fmt.Sprint(shownFilters(h.TC("filter", "show", "dev", "eth1", "parent", "1:"))), fmt.Sprint(shownFilters(other.TC("filter", "show", "dev", "eth1", "parent", "1:")))
	if by != applied {
		t.Errorf("tc -batch made\n%s\napply makes\n%s", by, applied)
	}
	if left := h.TC("filter", "show", "dev", "eth1", "parent", "1:"); strings.Contains(left, "pref 49") {
		t.Errorf("prefs by hand are left:\n%s", left)
	}
}

// TestStatusDoesNotTakeTheirClassesForOurs: rules by hand have our classids, and what their classes send is not ours.
func TestStatusDoesNotTakeTheirClassesForOurs(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	if err := h.TCBatch(read(t, filepath.Join(incident, "hand-written.tc"))); err != nil {
		t.Fatal(err)
	}
	var s shaper.Status
	if err := json.Unmarshal([]byte(h.must("status", "--format", "json", "--config", incidentConfig())), &s); err != nil || s.InSync || len(s.Classes) == 0 {
		t.Fatalf("%v, %+v", err, s)
	}
	for _, c := range s.Classes {
		if c.Standing || c.StandingRate != 0 {
			t.Errorf("%s %s is said to stand", c.Name, c.ClassID)
		}
	}
	if out := strings.Join(strings.Fields(h.must("status", "--config", incidentConfig())), " "); !strings.Contains(out, "which is not ours") || !strings.Contains(out, "bulkshaper plan --takeover") || strings.Contains(out, "`bulkshaper plan` says") {
		t.Errorf("status:\n%s", out)
	}
}

// TestDaemonRefusesAForeignRoot at its first contact ends, touches nothing, and takes it where it may.
func TestDaemonRefusesAForeignRoot(t *testing.T) {
	t.Parallel()
	d := &daemonHost{host: newHost(t), dir: copyTree(t, incident)}
	d.TC("qdisc", "add", "dev", "eth1", "root", "handle", "42:", "htb")
	before := d.TC("qdisc", "show", "dev", "eth1")
	d.begin()
	if code := d.wait(); code != exitFailed || !strings.Contains(d.text(), "YARN") || !strings.Contains(d.text(), "takeover") {
		t.Errorf("exit %d", code)
	}
	if after := d.TC("qdisc", "show", "dev", "eth1"); after != before {
		t.Errorf("the root changed: %s", after)
	}
	d.launch("--takeover")
	if len(shownFilters(d.filters())) != 21 {
		t.Error("not shaped")
	}
}

// TestWhatAnEarlierConfigLeftIsPruned starts after edits that nobody was there to follow: classes and filters of before go, and
// what is not ours stays.
func TestWhatAnEarlierConfigLeftIsPruned(t *testing.T) {
	t.Parallel()
	d := startIncident(t)
	d.stop()
	d.TC("class", "add", "dev", "eth1", "parent", "1:", "classid", "1:777", "htb", "rate", "1mbit")
	d.TC("filter", "add", "dev", "eth1", "parent", "1:", "protocol", "ip", "pref", "7", "u32", "match", "ip", "dst", "203.0.113.9/32", "flowid", "1:777")
	edit(t, d.config(), strings.Replace(read(t, d.config()), "id: 20,", "id: 2f,", 1))
	remove(t, d.serverFile("hadoop14"))
	edit(t, filepath.Join(d.dir, "roles.json"), strings.ReplaceAll(strings.ReplaceAll(read(t, filepath.Join(d.dir, "roles.json")), `"hadoop14", `, ""), `"hadoop14",`, ""))
	d.launch()
	classes := d.TC("class", "show", "dev", "eth1")
	for id, want := range map[string]bool{"1:20 ": false, "1:2f ": true, "1:777 ": true} {
		if strings.Contains(classes, "class htb "+id) != want {
			t.Errorf("class %s there: %v\n%s", id, !want, classes)
		}
	}
	filters := d.filters()
	if _, there := shownFilters(filters)["0af11c0e"]; there {
		t.Error("the filter of a server that is gone stands")
	}
	if strings.Contains(filters, "flowid 1:20 ") || !strings.Contains(filters, "pref 7") {
		t.Errorf("filters:\n%s", filters)
	}
	if s := d.status(); !s.InSync || len(s.Foreign) != 2 {
		t.Errorf("in sync %v, foreign %q", s.InSync, s.Foreign)
	}
	d.stop()
	if out := d.must("clear", "--config", d.config()); !strings.Contains(out, "not ours") {
		t.Errorf("clear does not say what stays: %s", out)
	}
	if left := d.TC("class", "show", "dev", "eth1"); strings.Count(left, "class htb") != 2 || !strings.Contains(left, "1:777") || !strings.Contains(left, "1:ffff") {
		t.Errorf("classes after clear, of which the control class marks the root as ours:\n%s", left)
	}
	if left := d.filters(); !strings.Contains(left, "pref 7") || strings.Count(left, "flowid") != 1 {
		t.Errorf("filters after clear:\n%s", left)
	}
	d.must("apply", "--config", d.config()) // the root is ours still
	if left := d.filters(); !strings.Contains(left, "pref 7") || len(shownFilters(left)) != 21 {
		t.Errorf("filters after clear and apply:\n%s", left)
	}
}

// TestAppliesAtOnce starts many on a bare interface: one of them shapes it, all end well, and nothing is left to do.
func TestAppliesAtOnce(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	results := make([]result, 6)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() { results[i] = h.run("apply", "--config", incidentConfig()) })
	}
	all.Wait()
	for _, r := range results {
		if r.code != exitDone {
			t.Errorf("exit %d: %s%s", r.code, r.stdout, r.stderr)
		}
	}
	h.must("plan", "--exit-code", "--config", incidentConfig())
}

// TestTwoDaemons with run folders of their own: the second one is refused, whatever its config. Whoever shapes all the same is seen at work,
// repairs are spaced out, and the daemon says so. On another network's interface of that name a daemon is welcome.
//
// PROMISES.md: A second daemon is started with another run folder, or somebody applies or clears beside the daemon
func TestTwoDaemons(t *testing.T) {
	t.Parallel()
	d := startIncident(t)
	dir := copyTree(t, incident)
	rival := filepath.Join(dir, "config.yaml")
	edit(t, rival, strings.Replace(read(t, rival), "rate: 819200kbit", "rate: 500mbit", 1))
	arguments := []string{"--config", rival, "--run-dir", t.TempDir()}
	who := fmt.Sprintf("(process %d)", d.cmd.Process.Pid)
	for _, command := range [][]string{{"run", "--listen", ""}, {"apply"}, {"apply", "--confirm", "60s"}, {"clear"}} {
		if r := d.run(append(command, arguments...)...); r.code != exitFailed || !strings.Contains(r.stderr, who) || len(d.lines("repaired")) > 0 {
			t.Errorf("%q: %+v", command, r)
		}
	}
	elsewhere := &daemonHost{host: newHost(t), dir: dir}
	elsewhere.launch()
	eventually(t, "contended", func() bool {
		d.must(append([]string{"apply", "--beside-daemon"}, arguments...)...)
		return d.status().Contended
	})
	c := d.status().Contention
	if c == nil || len(c.Objects) == 0 || !strings.Contains(c.Objects[0].Object, "same-cabinet") {
		t.Fatalf("it does not say over what: %+v", c)
	}
	if len(c.By) == 0 || !strings.HasPrefix(c.By[0], "process ") && !strings.HasPrefix(c.By[0], "a program with several netlink sockets (perhaps another bulkshaper: `pgrep -a bulkshaper`; port ") {
		t.Errorf("changed by %q", c.By)
	}
	if out := strings.Join(strings.Fields(d.must("status", "--config", d.config(), "--run-dir", d.dir)), " "); !strings.Contains(out, "CONTENDED: somebody keeps changing") ||
		!strings.Contains(out, "same-cabinet 1:10") || !strings.Contains(out, c.By[0]) || !strings.Contains(out, "remedy: stop what changes it") {
		t.Errorf("status:\n%s", out)
	}
	repairs := func() int { return len(d.lines("repaired")) }
	seen := repairs()
	if seen > 20 {
		t.Errorf("%d repairs before they were spaced out", seen)
	}
}

// TestSecondDaemonWithTheSameRunFolder ends at once and says who has it, before it changes anything; when the first is killed the next one
// takes its place. A run folder that cannot be written keeps nobody from shaping.
//
// PROMISES.md: A second daemon is started with the same run folder
func TestSecondDaemonWithTheSameRunFolder(t *testing.T) {
	t.Parallel()
	d := startIncident(t)
	rival := filepath.Join(copyTree(t, incident), "config.yaml")
	edit(t, rival, strings.Replace(read(t, rival), "rate: 819200kbit", "rate: 500mbit", 1))
	r := d.run("run", "--config", rival, "--run-dir", d.dir, "--listen", "")
	if r.code != exitFailed || !strings.Contains(r.stderr, fmt.Sprintf("the run folder %s is in use by another daemon (process %d)", d.dir, d.cmd.Process.Pid)) || !strings.Contains(r.stderr, "stop that one") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	if n := len(d.lines("repaired")); n != 0 || d.classRate("1:10") != "819200Kbit" {
		t.Errorf("%d repairs, the class is at %s", n, d.classRate("1:10"))
	}
	d.kill()
	d.launch()
	if code := d.stop(); code != exitDone {
		t.Fatalf("exit %d", code)
	}
	for _, dir := range []string{"/proc/sys", "/proc/sys/absent"} {
		d.listen()
		d.begin("--run-dir", dir)
		d.waitFor("READY=1")
		if code := d.stop(); code != exitDone {
			t.Errorf("run folder %s: exit %d", dir, code)
		}
	}
}

// TestChangesForTcBatch feeds the changes that an edit asks for to the real tc: additions, deletions and redirections of filters, a
// new class and one that goes.
func TestChangesForTcBatch(t *testing.T) {
	t.Parallel()
	h, dir := newHost(t), copyTree(t, incident)
	config := filepath.Join(dir, "config.yaml")
	h.must("apply", "--config", config)
	server := func(name string) string { return filepath.Join(dir, "nyc1/jsons", name+".json") }
	edit(t, server("hadoop14"), strings.Replace(read(t, server("hadoop14")), `"b12"`, `"b13"`, 1))
	edit(t, server("app01"), strings.Replace(read(t, server("app01")), "10.241.28.103", "10.241.28.203", 1))
	edit(t, server("userdb01"), strings.Replace(read(t, server("userdb01")), `"cabinet"`, `"prefixes": ["10.244.9.0/24"], "cabinet"`, 1))
	edit(t, config, strings.Replace(read(t, config), "id: 20,", "id: 2f,", 1))
	lines := h.must("plan", "--format", "tc", "--config", config)
	for _, verb := range []string{"class add", "class delete", "qdisc add", "filter add", "filter delete", "filter change"} {
		if !strings.Contains(lines, verb+" dev eth1") {
			t.Errorf("no %s in\n%s", verb, lines)
		}
	}
	if err := h.TCBatch(lines); err != nil {
		t.Fatalf("%v\n%s", err, lines)
	}
	for _, line := range strings.Split(strings.TrimSpace(h.must("plan", "--format", "tc", "--config", config)), "\n") {
		if line != "" && !strings.HasPrefix(line, "#") {
			t.Errorf("after tc -batch there is still to do: %s", line)
		}
	}
	byTC := fmt.Sprint(shownFilters(h.TC("filter", "show", "dev", "eth1", "parent", "1:")))
	other := newHost(t)
	other.must("apply", "--config", config)
	if applied := fmt.Sprint(shownFilters(other.TC("filter", "show", "dev", "eth1", "parent", "1:"))); byTC != applied {
		t.Errorf("tc -batch made\n%s\napply makes\n%s", byTC, applied)
	}
}
