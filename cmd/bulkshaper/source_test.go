package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bulkshaper/cmd/bulkshaper/ask"
	"bulkshaper/shaper"
)

// TestWhoIsAsked: the socket, else the port, else nobody; what answers is said, and why others did not.
func TestWhoIsAsked(t *testing.T) {
	t.Parallel()
	d := &daemonHost{host: newHost(t), dir: copyTree(t, incident)}
	d.launch("--listen", "127.0.0.1:9825") // the later flag counts
	d.address()
	status := func(runDir string, args ...string) string {
		t.Helper()
		return d.must(append([]string{"status", "--config", d.config(), "--run-dir", runDir}, args...)...)
	}
	if out := status(d.dir); !strings.Contains(out, "as told by the daemon at "+filepath.Join(d.dir, ask.SocketName)) {
		t.Errorf("with a socket:\n%s", out)
	}
	elsewhere := t.TempDir()
	if out := status(elsewhere); !strings.Contains(out, "as told by the daemon at http://127.0.0.1:9825") {
		t.Errorf("with a port only:\n%s", out)
	}
	// A socket that this user may not open, and another program's port.
	if code := d.stop(); code != exitDone {
		t.Fatalf("exit %d", code)
	}
	var listener net.Listener
	var err error
	d.Do(func() { listener, err = net.Listen("tcp", "127.0.0.1:9825") })
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, `{"status": "up"}`) })}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	if err := os.WriteFile(filepath.Join(elsewhere, ask.SocketName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out := strings.Join(strings.Fields(status(elsewhere)), " ")
	for _, text := range []string{"as told by this command", "no daemon answers", "connection refused", "something else than bulkshaper answers there"} {
		if !strings.Contains(out, text) {
			t.Errorf("without a daemon it does not say %q:\n%s", text, out)
		}
	}
}

// TestDaemonElsewhere: what the config says of where the daemon is may have been edited, which a running one refuses. It is not taken for one
// that does not run, and no override is written for nobody.
func TestDaemonElsewhere(t *testing.T) {
	t.Parallel()
	d := startIncident(t)
	elsewhere := t.TempDir()
	args := func(args ...string) []string { return append(args, "--config", d.config(), "--run-dir", elsewhere) }
	held := fmt.Sprintf("the daemon that shapes the interface (process %d) does not answer", d.cmd.Process.Pid)
	out := strings.Join(strings.Fields(d.must(args("status", "--layout", "hash")...)), " ")
	for _, want := range []string{held, "NOT IN SYNC: ", "may go by other files"} {
		if !strings.Contains(out, want) {
			t.Errorf("status does not say %q:\n%s", want, out)
		}
	}
	if r := d.run(args("override", "cross-cabinet", "rate=50mbit", "--for", "1h")...); r.code != exitFailed || !strings.Contains(r.stderr, held) || !strings.Contains(r.stderr, "nothing is written") {
		t.Errorf("override: %+v", r)
	}
	if entries, err := os.ReadDir(elsewhere); err != nil || len(entries) > 0 {
		t.Errorf("written for nobody: %v %v", entries, err)
	}
}

// TestDaemonOfAnotherInterface: an edit of the interface, which a running daemon refuses, hides neither its status nor its history; both say what
// to do, and nothing is written for an interface that is not its own. Who names the interface on the command line means that one.
func TestDaemonOfAnotherInterface(t *testing.T) {
	t.Parallel()
	d := startIncident(t)
	edit(t, d.config(), strings.Replace(read(t, d.config()), "interface: eth1", "interface: eth2", 1))
	eventually(t, "the refusal", func() bool { return d.status().LastReload.Result == shaper.ReloadFailure })
	const remedy = "it shapes eth1, and the config names eth2, which a running daemon refuses: restart it"
	for command, says := range map[string]string{"status": "hadoop27  eth1  cabinet b13", "history": "refused", "override list": "no overrides on eth1"} {
		if r := d.run(d.args(strings.Fields(command)...)...); r.code != exitDone || !strings.Contains(r.stderr, remedy) || !strings.Contains(r.stdout, says) {
			t.Errorf("%s: exit %d\n%s%s", command, r.code, r.stdout, r.stderr)
		}
	}
	if r := d.run(d.args("override", "cross-cabinet", "rate=50mbit", "--for", "1h")...); r.code != exitFailed || !strings.Contains(r.stderr, "nothing is written") || !strings.Contains(r.stderr, remedy) {
		t.Errorf("override: %+v", r)
	}
	if r := d.run(d.args("status", "--interface", "eth2")...); r.code != exitWrong || !strings.Contains(r.stderr, "eth2") || strings.Contains(r.stderr, remedy) {
		t.Errorf("eth2 by name: %+v", r)
	}
}

// TestDaemonThatHangs: status says so in plain words, soon, and shows what the kernel holds; nothing is written that nobody follows.
func TestDaemonThatHangs(t *testing.T) {
	t.Parallel()
	d := startIncident(t, "--listen", "127.0.0.1:9825") // two places to ask at
	d.address()
	d.signal(syscall.SIGSTOP)
	defer d.signal(syscall.SIGCONT)
	hangs := fmt.Sprintf("the daemon (process %d) hangs or is stopped", d.cmd.Process.Pid)
	start := time.Now()
	r := d.run(d.args("status")...)
	took := time.Since(start)
	out := strings.Join(strings.Fields(r.stderr+r.stdout), " ")
	for _, want := range []string{hangs, "no answer within 2s", "`systemctl restart bulkshaper` leaves the shaping", "cross-cabinet 1:20 204.8mbit"} {
		if r.code != exitDone || !strings.Contains(out, want) {
			t.Errorf("exit %d, status does not say %q:\n%s%s", r.code, want, r.stdout, r.stderr)
		}
	}
	if strings.Contains(out, "Client.Timeout") || strings.Contains(out, "context") {
		t.Errorf("jargon:\n%s", out)
	}
	if took > 9*time.Second { // some 3 s; two places asked in turn, each with the patience of a slow answer, are 11
		t.Errorf("it took %s", took)
	}
	if r := d.run(d.args("override", "cross-cabinet", "rate=50mbit", "--for", "1h")...); r.code != exitFailed || !strings.Contains(r.stderr, "nothing is written") || !strings.Contains(r.stderr, hangs) {
		t.Errorf("override: %+v", r)
	}
}

// TestSendingIsMeasured, by the daemon at once and without one over an interval, in text and in JSON.
func TestSendingIsMeasured(t *testing.T) {
	t.Parallel()
	d := startIncident(t)
	ask := func(args ...string) (s shaper.Status) {
		t.Helper()
		if err := json.Unmarshal([]byte(d.must(append([]string{"status", "--format", "json", "--config", d.config()}, args...)...)), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	sending := func(s shaper.Status) *uint64 {
		for _, c := range s.Classes {
			if c.Name == "cross-cabinet" {
				return c.Sending
			}
		}
		t.Fatal("no class cross-cabinet")
		return nil
	}
	eventually(t, "the daemon knows what is sent", func() bool { return sending(ask("--run-dir", d.dir)) != nil })
	d.Send(t, netip.MustParseAddr("10.241.28.14"), 50)
	s := ask("--run-dir", d.dir)
	if v := sending(s); !s.Daemon || v == nil || *v == 0 || s.SendingOver < 0.5 || s.SendingOver > 60 {
		t.Errorf("by the daemon: %v over %v s", v, s.SendingOver)
	}
	none := t.TempDir()
	if s := ask("--run-dir", none); s.Daemon || sending(s) != nil {
		t.Errorf("one reading without a daemon: %+v", s)
	}
	if s := ask("--run-dir", none, "--interval", "600ms"); sending(s) == nil || *sending(s) != 0 || s.SendingOver < 0.6 {
		t.Errorf("two readings without a daemon: %+v", s)
	}
	if r := d.run("status", "--interval", "1ms", "--config", d.config()); r.code != exitWrong {
		t.Errorf("an interval of 1ms: exit %d", r.code)
	}
}

// TestWatchInAPipe prints a line a class at each reading, and JSON a line each, until it is told to end.
func TestWatchInAPipe(t *testing.T) {
	t.Parallel()
	d := startIncident(t)
	for _, format := range []string{"text", "json"} {
		p := &daemonProcess{t: t, cmd: d.program("status", "--watch", "--interval", "100ms", "--format", format, "--config", d.config(), "--run-dir", d.dir)}
		p.cmd.Stdout, p.cmd.Stderr = p, p
		var err error
		d.Do(func() { err = p.cmd.Start() })
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "three readings as "+format, func() bool { return len(p.lines("cross-cabinet")) >= 3 })
		if code := p.stop(); code != exitDone {
			t.Errorf("exit %d", code)
		}
		for i, line := range p.lines("") {
			switch {
			case strings.Contains(line, "\x1b"):
				t.Fatalf("cursor tricks in a pipe: %q", line)
			case format == "json":
				var s shaper.Status
				if err := json.Unmarshal([]byte(line), &s); err != nil || len(s.Classes) != 4 || i > 0 && s.SendingOver == 0 {
					t.Errorf("line %d: %v, %+v", i, err, s)
				}
			case strings.Contains(line, "cross-cabinet") && !strings.Contains(line, " of 204.8mbit") || strings.Count(line, ":") < 2:
				t.Errorf("line %d: %s", i, line)
			}
		}
	}
}
