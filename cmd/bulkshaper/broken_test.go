package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bulkshaper/cmd/bulkshaper/ask"
	"bulkshaper/cmd/bulkshaper/view"
	"bulkshaper/inventory"
	"bulkshaper/shaper"
)

// TestExplainWhileFilesAreBroken: with a daemon it answers from what that holds, without one with what the kernel does; it says so, and what is
// wrong, and ends with 2.
func TestExplainWhileFilesAreBroken(t *testing.T) {
	t.Parallel()
	d := startIncident(t)
	edit(t, d.serverFile("app01"), "{")
	eventually(t, "the refusal", func() bool { return d.status().LastReload.Result == shaper.ReloadFailure })
	ask := func(says []string, args ...string) {
		t.Helper()
		r := d.run(d.args(append([]string{"explain"}, args...)...)...)
		out := strings.Join(strings.Fields(r.stdout+r.stderr), " ")
		for _, text := range append(says, "the files are broken", "app01.json") {
			if !strings.Contains(out, text) {
				t.Errorf("%q does not say %q:\n%s%s", args, text, r.stdout, r.stderr)
			}
		}
		if r.code != exitWrong {
			t.Errorf("%q: exit %d", args, r.code)
		}
	}
	ask([]string{"owner hadoop14, cabinet b12 of nyc1, role hadoop_node", "not rule same-cabinet", "rule cross-cabinet", "class cross-cabinet 1:20, rate 204800kbit", "kernel cross-cabinet 1:20 by filter", "agrees",
		"from what the daemon at " + d.dir}, "hadoop14")
	ask([]string{"cross-cabinet 1:20, rate 204800kbit", "8 servers with 8 destinations; roles: hadoop_node 8", "rules cross-cabinet 8", "whose it is by what the daemon holds",
		"10.241.28.14/32 hadoop14 b12 hadoop_node cross-cabinet", "from what the daemon at " + d.dir}, "--class", "cross-cabinet")
	ask([]string{"8 servers with 8 destinations", "not asked: --no-kernel", "10.241.28.14 hadoop14 b12 hadoop_node cross-cabinet"}, "--class", "cross-cabinet", "--no-kernel")
	ask([]string{"neither an address nor a server of the inventory that the daemon holds", "did you mean hadoop"}, "hadoop1")
	for _, args := range [][]string{{"hadoop1"}, {"--between", "10.241.28.0/22"}, {"--class", "nosuch"}} { // no answer is announced where none follows
		if r := d.run(d.args(append([]string{"explain"}, args...)...)...); strings.Contains(r.stderr, "so the answer is from") || r.stdout != "" {
			t.Errorf("%q: %+v", args, r)
		}
	}
	d.kill()
	ask([]string{"10.241.28.14 wanted not known: the files are broken, and no daemon answers", "kernel cross-cabinet 1:20 by filter", "held to 204800kbit", "from the kernel alone"}, "10.241.28.14")
	ask([]string{"the name of a server cannot be looked up; give its address"}, "hadoop14")
	ask([]string{"cross-cabinet 1:20", "8 destinations", "10.241.28.14/32", "what its filters lead here", "holds it to 204800kbit"}, "--class", "cross-cabinet")
	ask([]string{"ask for single addresses meanwhile"}, "--between", "10.241.28.0/22")
	// So does the status: what stands, and the files' error.
	r := d.run(d.args("status")...)
	if out := strings.Join(strings.Fields(r.stdout), " "); r.code != exitWrong || !strings.Contains(r.stderr, "app01.json") || strings.Count(r.stderr, "app01.json") != 1 ||
		!strings.Contains(out, "NOT IN SYNC: what is wanted is not known") || !strings.Contains(out, "cross-cabinet 1:20 204.8mbit") || strings.Contains(out, "missing") || strings.Contains(out, "inventory: ") {
		t.Errorf("status: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	var status shaper.Status
	r = d.run(d.args("status", "--format", "json")...)
	if err := json.Unmarshal([]byte(r.stdout), &status); err != nil || r.code != exitWrong || status.InSync || len(status.Classes) != 4 || status.Classes[0].Name != "same-cabinet" {
		t.Errorf("status: exit %d, %v, %+v", r.code, err, status)
	}
	for _, c := range status.Classes {
		if want := map[string]int{"same-cabinet": 10, "cross-cabinet": 8}[c.Name]; want != 0 && c.Destinations != want || !c.Standing || c.Rate == 0 {
			t.Errorf("%+v", c)
		}
	}
	if r = d.run(d.args("status", "--watch")...); r.code != exitWrong || r.stdout != "" {
		t.Errorf("status --watch: %+v", r)
	}
	var answers []view.Explanation
	r = d.run(d.args("explain", "--format", "json", "10.241.28.14")...)
	if err := json.Unmarshal([]byte(r.stdout), &answers); err != nil || len(answers) != 1 || answers[0].Kernel.ClassID != "1:20" || answers[0].Unplanned == "" || answers[0].Disagrees() {
		t.Errorf("%v %+v", err, answers)
	}
	if r := d.run(d.args("explain", "hadoop14", "--class", "cross-cabinet")...); r.code != exitWrong || !strings.Contains(r.stderr, "one question at a time") {
		t.Errorf("a name and a class: %+v", r)
	}
}

// TestBesideABrokenConfig: what asks the daemon finds it by the run folder that the broken config still names, and says where it looks.
func TestBesideABrokenConfig(t *testing.T) {
	t.Parallel()
	d := startIncident(t)
	good := read(t, d.config())
	edit(t, d.config(), "run_dir: "+d.dir+"\n"+strings.Replace(good, "rate: 819200kbit", "rate: 5", 1))
	for _, args := range [][]string{{"history"}, {"override", "list"}, {"status"}} {
		r := d.run(append(args, "--config", d.config())...)
		if r.code != exitDone || !strings.Contains(r.stderr, "the config") || !strings.Contains(r.stderr, "wrong") || args[0] != "status" && !strings.Contains(r.stderr, d.dir) {
			t.Errorf("%q: %+v", args, r)
		}
	}
	for _, guess := range []string{"run_dir: [\n", "interface: eth1\nclasses: [\n"} {
		edit(t, d.config(), guess)
		for _, args := range [][]string{{"override", "cross-cabinet", "rate=1mbit", "--for", "1m"}, {"override", "clear", "cross-cabinet"}} {
			if r := d.run(append(args, "--config", d.config())...); r.code != exitWrong || r.stdout != "" {
				t.Errorf("%q in a run folder that is a guess: %+v", args, r)
			}
		}
	}
	edit(t, d.config(), "run_dir: [\n")
	for _, args := range [][]string{{"history"}, {"override", "list"}, {"confirm"}} {
		r := d.run(append(args, "--config", d.config())...)
		if r.code == exitDone || !strings.Contains(r.stderr, "the run folder is taken to be /run/bulkshaper; give --run-dir") {
			t.Errorf("%q: %+v", args, r)
		}
		r = d.run(append(args, "--config", d.config(), "--run-dir", d.dir)...)
		if strings.Contains(r.stderr, "is taken to be") || args[0] != "confirm" && r.code != exitDone {
			t.Errorf("%q with --run-dir: %+v", args, r)
		}
	}
}

// withoutOverride has the command run without root's power over the modes of files, by setpriv of util-linux: as a user does whom they lock out.
// To become another user takes more than a user namespace has.
func withoutOverride(cmd *exec.Cmd) {
	path, err := exec.LookPath("setpriv")
	if err != nil {
		cmd.Err = fmt.Errorf("%w: install util-linux", err)
		return
	}
	cmd.Args = append([]string{"setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = path
}

// TestWhoMayNotAskIsToldSo: permission denied is not "no daemon". History and others say who may ask, and answer with what they may read.
func TestWhoMayNotAskIsToldSo(t *testing.T) {
	t.Parallel()
	d := startIncident(t)
	d.must(d.args("override", "cross-cabinet", "rate=50mbit", "--for", "1h")...)
	eventually(t, "a history is kept", func() bool { _, err := os.Stat(filepath.Join(d.dir, shaper.HistoryFile)); return err == nil })
	socket := filepath.Join(d.dir, ask.SocketName)
	chmod := func(path string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	lockedOut := func(args ...string) (r result, out string) {
		t.Helper()
		r = d.runWith(withoutOverride, d.args(args...)...)
		return r, strings.Join(strings.Fields(r.stdout+r.stderr), " ")
	}
	chmod(socket, 0o060)
	for command, answer := range map[string]string{"history": "start", "status": "as told by this command", "override list": "cross-cabinet"} {
		r, out := lockedOut(strings.Fields(command)...)
		for _, text := range []string{"permission denied", "this user may not ask at " + socket + ": run it as root", answer} {
			if r.code != exitDone || !strings.Contains(out, text) {
				t.Errorf("%s: exit %d, it does not say %q: %s", command, r.code, text, out)
			}
		}
	}
	if r, out := lockedOut("apply"); r.code != exitFailed || !strings.Contains(out, fmt.Sprintf("a daemon (process %d) keeps eth1", d.cmd.Process.Pid)) {
		t.Errorf("apply: exit %d, %s", r.code, out)
	}
	// In a folder that lets nobody in there is nothing to read either.
	inner := filepath.Join(d.dir, "private")
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	chmod(inner, 0)
	t.Cleanup(func() { chmod(inner, 0o700) })
	r := d.runWith(withoutOverride, "history", "--config", d.config(), "--run-dir", inner)
	if r.code != exitFailed || !strings.Contains(r.stderr, "this user may not ask at "+filepath.Join(inner, ask.SocketName)+": run it as root") || !strings.Contains(r.stderr, "what was kept cannot be read either") {
		t.Errorf("in a folder that lets nobody in: %+v", r)
	}
}

// TestFilesThatCannotBeReadAreNotCalledBroken: what they say may be right.
func TestFilesThatCannotBeReadAreNotCalledBroken(t *testing.T) {
	t.Parallel()
	unreadable := inventory.Problem{File: "roles.json", Message: "read file: permission denied", Remedy: inventory.UnreadableRemedy}
	broken := inventory.Problem{File: "nyc1/jsons/app01.json", Message: "file is empty", Remedy: "write it whole"}
	for want, problems := range map[string]inventory.Problems{"the files cannot be read": {unreadable}, "the files are broken": {broken, unreadable}} {
		if got := filesAre(wrong(problems)); got != want {
			t.Errorf("%v: %s, want %s", problems, got, want)
		}
		var told bytes.Buffer
		place{broken: wrong(problems), runDir: "/run/bulkshaper"}.tellWhere(&told)
		if wrongIs := strings.Contains(told.String(), "the config is wrong"); wrongIs != (len(problems) == 2) {
			t.Errorf("%v: %s", problems, told.String())
		}
	}
}
