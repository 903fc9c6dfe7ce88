package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bulkshaper/cmd/bulkshaper/view"
)

// TestCheckTellsWhatAnEditChanges on a node, however the files lie and are named, without asking a kernel.
func TestCheckTellsWhatAnEditChanges(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.Disconnect()
	// A repository with the config in a folder of its own and the inventory beside it.
	repository := func() string {
		dir := t.TempDir()
		tree := copyTree(t, incident)
		for from, to := range map[string]string{"config.yaml": "deploy/config.yaml", "roles.json": "data/roles.json", "nyc1": "data/nyc1"} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, to)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(tree, from), filepath.Join(dir, to)); err != nil {
				t.Fatal(err)
			}
		}
		config := filepath.Join(dir, "deploy/config.yaml")
		edit(t, config, strings.NewReplacer("roles: roles.json", "roles: ../data/roles.json", "[nyc1/jsons]", "[../data/*/jsons]").Replace(read(t, config)))
		return dir
	}
	flat, flatOld := copyTree(t, incident), copyTree(t, incident)
	whole, wholeOld := repository(), repository()
	absolute, absoluteOld := copyTree(t, incident), copyTree(t, incident)
	for _, dir := range []string{absolute, absoluteOld} { // both name the place where the files are in use
		edit(t, dir+"/config.yaml", strings.NewReplacer("roles: roles.json", "roles: "+absolute+"/roles.json", "[nyc1/jsons]", "["+absolute+"/*/jsons]").Replace(read(t, dir+"/config.yaml")))
	}
	change := func(servers, config string) {
		edit(t, servers+"/hadoop14.json", strings.Replace(read(t, servers+"/hadoop14.json"), `"b12"`, `"b13"`, 1))
		edit(t, servers+"/app01.json", strings.Replace(read(t, servers+"/app01.json"), "10.241.28.103", "10.241.28.203", 1))
		edit(t, config, strings.Replace(read(t, config), "rate: 819200kbit", "rate: 700mbit", 1))
	}
	change(flat+"/nyc1/jsons", flat+"/config.yaml")
	change(whole+"/data/nyc1/jsons", whole+"/deploy/config.yaml")
	change(absolute+"/nyc1/jsons", absolute+"/config.yaml")
	for name, c := range map[string]struct {
		dir  string
		args []string
	}{
		"copies of the folder":           {flat, []string{"--config", "config.yaml", "--diff", flatOld}},
		"from elsewhere":                 {"/", []string{"--config", flat + "/config.yaml", "--diff", flatOld}},
		"a whole checkout":               {whole, []string{"--config", "deploy/config.yaml", "--diff", wholeOld}},
		"absolute paths inside":          {absolute, []string{"--config", "config.yaml", "--diff", absoluteOld}},
		"flags for the inventory's keys": {flat, []string{"--config", "config.yaml", "--roles", "roles.json", "--servers", "nyc1/jsons", "--diff", flatOld}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := append([]string{"check", "--node", "hadoop27", "--format", "json"}, c.args...)
			r := h.runIn(c.dir, cmd...)
			var report view.Report
			if err := json.Unmarshal([]byte(r.stdout), &report); err != nil || r.code != exitDone || report.Diff == nil {
				t.Fatalf("exit %d, %v\n%s%s", r.code, err, r.stdout, r.stderr)
			}
			d := report.Diff
			moved := view.DestinationChange{Prefix: "10.241.28.14/32", Server: "hadoop14", From: "cross-cabinet", To: "same-cabinet", Rule: "same-cabinet"}
			rate := view.ClassChange{Name: "same-cabinet", Key: "rate", From: "819200kbit", To: "700mbit"}
			if d.Node != "hadoop27" || len(d.Moved) != 1 || d.Moved[0] != moved || len(d.Added) != 1 || len(d.Removed) != 1 || len(d.Ruled) != 0 || len(d.Classes) != 1 || d.Classes[0] != rate || len(report.DiffNote) != 0 {
				t.Errorf("%+v, %q", d, report.DiffNote)
			}
		})
	}
	says := func(dir string, code int, text string, args ...string) {
		t.Helper()
		if r := h.runIn(dir, append([]string{"check", "--config", "config.yaml"}, args...)...); r.code != code || !strings.Contains(r.stdout+r.stderr, text) {
			t.Errorf("%q: exit %d, does not say %q\n%s%s", args, r.code, text, r.stdout, r.stderr)
		}
	}
	says(flat, exitDone, "move    1 destination from cross-cabinet to same-cabinet, by rule same-cabinet: hadoop14", "--node", "hadoop27", "--diff", flatOld)
	says(flatOld, exitDone, "the edit changes nothing", "--node", "hadoop27", "--diff", copyTree(t, incident))
	says(flat, exitWrong, "it is no folder", "--node", "hadoop27", "--diff", "/no/such/folder")
	says(flat, exitWrong, "the config of before is not there", "--node", "hadoop27", "--diff", t.TempDir())
	says(flat, exitDone, "lies outside", "--node", "hadoop27", "--roles", incidentRoles(t), "--diff", flatOld)
	edit(t, flatOld+"/roles.json", "{")
	says(flat, exitDone, "the files of before cannot be compared: ", "--node", "hadoop27", "--diff", flatOld) // the edit may be what mends them
	edit(t, flat+"/roles.json", "{")
	says(flat, exitWrong, "error: ", "--node", "hadoop27", "--diff", flatOld)
}

func incidentRoles(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(incident + "/roles.json")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// runIn runs a command with another working directory.
func (h *host) runIn(dir string, args ...string) result {
	h.t.Helper()
	return h.runWith(func(cmd *exec.Cmd) { cmd.Dir = dir }, args...)
}

// TestCheckTellsAllAtOnce: what is wrong with the config does not hide what is wrong with the inventory, nor the warnings.
func TestCheckTellsAllAtOnce(t *testing.T) {
	t.Parallel()
	h, dir := newHost(t), copyTree(t, incident)
	check := func(args ...string) (r result, out string) {
		r = h.run(append([]string{"check", "--config", filepath.Join(dir, "config.yaml"), "--node", "hadoop27"}, args...)...)
		return r, strings.Join(strings.Fields(r.stdout+r.stderr), " ")
	}
	all := func(code int, says ...string) {
		t.Helper()
		r, out := check()
		if r.code != code {
			t.Errorf("exit %d", r.code)
		}
		for _, text := range says {
			if !strings.Contains(out, text) {
				t.Errorf("it does not say %q:\n%s", text, r.stdout)
			}
		}
	}
	config, server := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "nyc1/jsons/hadoop14.json")
	good := read(t, config)
	edit(t, config, strings.Replace(good, "rate: 819200kbit", "rate: 50mbps", 1))
	all(exitDone, "warning: "+config, "50mbps is in bytes, as for tc, and so taken for 400mbit", "remedy: write 50mbit if bits were meant")
	edit(t, server, strings.Replace(read(t, server), `"b12"`, `null`, 1)) // a warning
	edit(t, config, strings.Replace(strings.Replace(good, "rate: 819200kbit", "rate: 50mbps", 1), "id: 20", "id: 2o", 1))
	all(exitWrong, "error: "+config, "2o", "50mbps is in bytes", "warning: "+server, "cabinet")
	edit(t, filepath.Join(dir, "nyc1/jsons/app01.json"), "{")
	all(exitWrong, "error: "+config, "app01.json:", "warning: "+server)
	edit(t, config, strings.Replace(good, "inventory:", "inventroy:", 1))
	all(exitWrong, "did you mean inventory?", "note: the inventory was not looked at")
	// The folder that others write.
	edit(t, config, good)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(run, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(run, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, out := check("--run-dir", run); !strings.Contains(out, "warning: the mode 0777 of the run folder "+run) || !strings.Contains(out, "chmod o-w") {
		t.Errorf("a run folder that everybody may write:\n%s", out)
	}
}

// TestCheckTellsWhatADaemonRefuses: an inventory that shrank, settings that take a restart; by the folder of before, and beside a daemon by what
// that says.
func TestCheckTellsWhatADaemonRefuses(t *testing.T) {
	t.Parallel()
	d := startIncident(t, "--debounce", "1s") // so that of 20 files that go one after the other it sees none or all
	old := copyTree(t, incident)
	check := func(code int, says string, args ...string) {
		t.Helper()
		r := d.run(d.args(append([]string{"check", "--node", "hadoop27"}, args...)...)...)
		if out := strings.Join(strings.Fields(r.stdout+r.stderr), " "); r.code != code || !strings.Contains(out, says) {
			t.Errorf("exit %d, want %d; it does not say %q:\n%s", r.code, code, says, r.stdout)
		}
	}
	check(exitDone, "ok:")
	config := read(t, d.config())
	edit(t, d.config(), strings.Replace(config, "127.0.0.1:9825", "127.0.0.1:9999", 1)+"log: {level: debug}\n")
	check(exitDone, "changed while the daemon runs: metrics.listen (127.0.0.1:9825, now 127.0.0.1:9999)", "--diff", old)
	check(exitDone, "a running daemon uses from its next start on: log.level", "--diff", old)
	edit(t, d.config(), config)
	roles := read(t, filepath.Join(d.dir, "roles.json"))
	edit(t, filepath.Join(d.dir, "roles.json"), roles)
	jsons := filepath.Join(d.dir, "nyc1/jsons")
	entries, err := os.ReadDir(jsons)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "hadoop27.json" && e.Name() != "hadoop26.json" {
			remove(t, filepath.Join(jsons, e.Name()))
		}
	}
	check(exitWrong, "a running daemon refuses this: inventory lost 20 of 22 servers", "--diff", old)
	check(exitWrong, "remedy: if they are really gone, set inventory.max_shrink to 100% for one reload", "--diff", old)
	eventually(t, "the daemon refuses", func() bool { r := d.status().LastReload; return r.Result != "success" })
	check(exitDone, "refuses its files since ")
	check(exitDone, "inventory lost 20 of 22 servers")
}
