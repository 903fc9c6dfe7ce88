package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bulkshaper/metrics"
	"bulkshaper/shaper"
	"bulkshaper/shaper/override"
)

// classRate is what tc says of a class.
func (h *host) classRate(class string) string {
	h.t.Helper()
	for _, line := range strings.Split(h.TC("class", "show", "dev", "eth1"), "\n") {
		if _, rest, ok := strings.Cut(line, "class htb "+class+" "); ok {
			_, rate, _ := strings.Cut(rest, " rate ")
			rate, _, _ = strings.Cut(rate, " ")
			return rate
		}
	}
	return ""
}

func (d *daemonHost) args(args ...string) []string {
	return append(args, "--config", d.config(), "--run-dir", d.dir)
}

// TestOverride turns a class down beside a running daemon, which follows at once, survives a restart with it, and takes it back.
func TestOverride(t *testing.T) {
	t.Parallel()
	d := startIncident(t)
	before := d.filters()
	said := d.must(d.args("override", "cross-cabinet", "rate=50mbit", "--for", "1h", "--why", "archive copy")...)
	if d.classRate("1:20") != "50Mbit" {
		t.Errorf("when the command ends, the class is at %s; it said\n%s", d.classRate("1:20"), said)
	}
	if !strings.Contains(said, "cross-cabinet on eth1: rate 50mbit (configured 204800kbit), ceil 50mbit (configured 204800kbit), until ") || !strings.Contains(said, "the daemon follows") {
		t.Errorf("it said:\n%s", said)
	}
	if now := d.filters(); now != before {
		t.Error("filters changed")
	}
	s := d.status()
	if len(s.Overrides) != 1 || s.Overrides[0].Class != "cross-cabinet" || s.Overrides[0].Rate != 50_000_000 || s.Overrides[0].Why != "archive copy" || s.Overrides[0].By == "" {
		t.Errorf("status: %+v", s.Overrides)
	}
	if plan := d.run(d.args("plan", "--exit-code")...); plan.code != exitDone || !strings.Contains(plan.stderr, "note: an override holds cross-cabinet to 50mbit") {
		t.Errorf("plan: %+v", plan)
	}

	// The config of now need not be right, nor must the daemon be the one that was there when it was given.
	config := read(t, d.config())
	edit(t, d.config(), "clases: {}\n")
	if r := d.run("override", "list", "--config", d.config(), "--run-dir", d.dir); r.code != exitDone || !strings.Contains(r.stdout, "archive copy") {
		t.Errorf("list beside a broken config: %+v", r)
	}
	edit(t, d.config(), config)
	d.kill()
	d.launch()
	eventually(t, "the new daemon tells", func() bool { return len(d.status().Overrides) == 1 })
	if r := d.classRate("1:20"); r != "50Mbit" {
		t.Errorf("after a restart the class is at %s", r)
	}

	d.must(d.args("override", "clear", "cross-cabinet")...)
	if r := d.classRate("1:20"); r != "204800Kbit" {
		t.Errorf("cleared, the class is at %s", r)
	}
	if text := d.must(d.args("override", "list")...); text != "no overrides on eth1\n" {
		t.Errorf("list: %q", text)
	}
	// And by itself.
	d.must(d.args("override", "default", "rate=10mbit", "--for", "2s")...)
	if r := d.classRate("1:100"); r != "10Mbit" {
		t.Errorf("default at %s", r)
	}
	if r := d.classRate("1:ffff"); r != "204800Kbit" {
		t.Errorf("ARP was turned down with the default class, to %s", r)
	}
	eventually(t, "the end", func() bool { return d.classRate("1:100") == "204800Kbit" })
	eventually(t, "nothing stored", func() bool { list, err := (override.Store{Dir: d.dir}).Load(); return err == nil && len(list) == 0 })

	history := d.must(d.args("history")...)
	for _, want := range []string{"override set: cross-cabinet at 50mbit until ", "(archive copy)", "override cleared", "override ended: default at 10mbit", "class 1:20 (cross-cabinet): rate is",
		"hitless, took"} {
		if !strings.Contains(history, want) {
			t.Errorf("history lacks %q:\n%s", want, history)
		}
	}

	// What cannot be read is not nothing.
	edit(t, filepath.Join(d.dir, override.FileName), "garbage")
	eventually(t, "the daemon says that it cannot read them", func() bool { return d.status().OverridesError != "" })
	list := func(who string) {
		r := d.run(d.args("override", "list")...)
		if r.code != exitDone || r.stdout != "no override is followed on eth1\n" || strings.Count(r.stderr, override.FileName) != 1 {
			t.Errorf("garbage stored, %s: %+v", who, r)
		}
	}
	list("told by the daemon")
	d.kill()
	list("without a daemon")
}

// TestOverrideWithoutDaemon: nothing follows by itself, and it is said; plan and apply honour it.
func TestOverrideWithoutDaemon(t *testing.T) {
	t.Parallel()
	h, dir := newHost(t), t.TempDir()
	args := func(args ...string) []string {
		return append(args, "--config", incident+"/config.yaml", "--run-dir", filepath.Join(dir, "run"))
	}
	h.must(args("apply")...)
	r := h.run(args("override", "cross-cabinet", "rate=50mbit", "--for", "1h")...)
	if r.code != exitDone || !strings.Contains(r.stderr, "no daemon answers (the daemon at ") || !strings.Contains(r.stderr, "`bulkshaper apply` shapes with it now") {
		t.Errorf("%+v", r)
	}
	if r := h.run(args("plan", "--exit-code")...); r.code != exitDiffers || !strings.Contains(r.stdout, "rate is 204800kbit, wanted 50mbit") {
		t.Errorf("plan: %+v", r)
	}
	if r := h.run(args("apply")...); r.code != exitDone || !strings.Contains(r.stderr, "note: an override holds cross-cabinet to 50mbit") || h.classRate("1:20") != "50Mbit" {
		t.Errorf("apply: %+v, class at %s", r, h.classRate("1:20"))
	}
	path := filepath.Join(dir, "run", override.FileName)
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if r := h.run(args("plan")...); r.code != exitDone || !strings.Contains(r.stderr, "warning: no overrides are followed") || !strings.Contains(r.stderr, "lets others write it") {
		t.Errorf("plan with a file that others may write: %+v", r)
	}
	if out := strings.Join(strings.Fields(h.must(args("status")...)), " "); !strings.Contains(out, "OVERRIDES NOT READ: read overrides: ") || !strings.Contains(out, "lets others write it") {
		t.Errorf("status with a file that others may write:\n%s", out)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	h.must(args("override", "clear")...)
	h.must(args("apply")...)
	if r := h.classRate("1:20"); r != "204800Kbit" {
		t.Errorf("cleared and applied: %s", r)
	}
}

// TestOverrideRefused: what is wrong is said with what to do, and nothing is written.
func TestOverrideRefused(t *testing.T) {
	t.Parallel()
	h, dir := newHost(t), t.TempDir()
	for _, c := range []struct {
		args string
		says string
	}{
		{"cros-cabinet rate=50mbit --for 30m", "did you mean cross-cabinet?"},
		{"cross-cabinet rate=50 --for 30m", "write 50mbit"},
		{"cross-cabinet rate=50mbit", "write --for 30m"},
		{"cross-cabinet rate=50mbit --for 30", "write 30m for minutes"},
		{"cross-cabinet rate=50mbit --for -5m", "shorter than"},
		{"cross-cabinet rate=50mbit --for 300h", "edit the rate in the config"},
		{"cross-cabinet rate=500mbit --for 30m", "over its ceil 204800kbit; give ceil=500mbit as well"},
		{"cross-cabinet rate=50mbit ceil=20mbit --for 30m", "rate 50mbit is over its ceil 20mbit"},
		{"rate=50mbit --for 30m", "is no class"},
		{"cross-cabinet 50mbit --for 30m", "write it like rate=50mbit"},
		{"control rate=50mbit --for 30m", "ARP"},
		{"clear nobody", "does not exist"},
	} {
		r := h.run(append(append([]string{"override"}, strings.Fields(c.args)...), "--config", incident+"/config.yaml", "--run-dir", dir)...)
		if r.code != exitWrong || !strings.Contains(r.stderr, c.says) || r.stdout != "" {
			t.Errorf("override %s: %+v, want %q", c.args, r, c.says)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("written: %v %v", left, err)
	}
}

// TestHistory: what a running daemon did and refused, by the command and by HTTP, also after a restart.
func TestHistory(t *testing.T) {
	t.Parallel()
	d := startIncident(t)
	edit(t, d.serverFile("hadoop14"), strings.Replace(read(t, d.serverFile("hadoop14")), `"b12"`, `"b13"`, 1))
	eventually(t, "the filter moves", func() bool { return shownFilters(d.filters())["0af11c0e"] == "1:10" })
	// What is changed before the daemon has read back is not drift, but a kernel that does not hold what it accepted.
	eventually(t, "the move is told", func() bool { return len(d.lines("files edited")) == 1 })
	d.TC("class", "change", "dev", "eth1", "classid", "1:20", "htb", "rate", "1mbit")
	eventually(t, "the repair", func() bool { return d.classRate("1:20") == "204800Kbit" })
	edit(t, filepath.Join(d.dir, "roles.json"), "{")
	eventually(t, "the refusal", func() bool { return d.status().LastReload.Result == shaper.ReloadFailure })

	ask := func() (answer metrics.HistoryAnswer) {
		t.Helper()
		if err := json.Unmarshal([]byte(d.must(d.args("history", "--format", "json")...)), &answer); err != nil {
			t.Fatal(err)
		}
		return answer
	}
	answer := ask()
	var kinds []string
	for _, e := range answer.Events {
		kinds = append(kinds, string(e.Kind))
	}
	if got := strings.Join(kinds, " "); got != "refused repaired changed changed" || answer.Interface != "eth1" || answer.Node != "hadoop27" {
		t.Fatalf("events of %s on %s: %s", answer.Interface, answer.Node, got)
	}
	refused, repaired, moved, first := answer.Events[0], answer.Events[1], answer.Events[2], answer.Events[3]
	if refused.Result != "failure" || len(refused.Problems) == 0 || !strings.Contains(refused.Problems[0], "roles.json") {
		t.Errorf("%+v", refused)
	}
	if !strings.HasPrefix(repaired.Why, "changed in the kernel: class") || len(repaired.Operations) != 1 || repaired.Operations[0].Examples[0].Class != "cross-cabinet" {
		t.Errorf("%+v", repaired)
	}
	if moved.Why != "files edited" || len(moved.Files) != 1 || moved.Files[0] != d.serverFile("hadoop14") || moved.Operations[0].Count != 1 ||
		!strings.Contains(moved.Operations[0].Examples[0].Why, "hadoop14") || !moved.Hitless || moved.Result != "success" || moved.Took <= 0 {
		t.Errorf("%+v", moved)
	}
	if first.Why != "start" || first.Hitless {
		t.Errorf("%+v", first)
	}
	edit(t, filepath.Join(d.dir, "roles.json"), read(t, filepath.Join(incident, "roles.json")))
	eventually(t, "files are good again", func() bool { return d.status().LastReload.Result == shaper.ReloadSuccess })
	count := len(ask().Events)
	if code := d.stop(); code != exitDone {
		t.Fatalf("exit %d", code)
	}
	if r := d.run(d.args("history", "-n", "2")...); r.code != exitDone || !strings.Contains(r.stderr, "no daemon answers") || !strings.Contains(r.stdout, "reload ") ||
		strings.Contains(r.stdout, "start") {
		t.Errorf("without a daemon: %+v", r)
	}
	d.launch()
	eventually(t, "a new event", func() bool { return len(ask().Events) > count })
	if latest := ask().Events[0]; latest.Kind != shaper.EventAdopted || latest.Why != "start" {
		t.Errorf("after a restart: %+v", latest)
	}
}
