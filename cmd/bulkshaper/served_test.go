package main

import (
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"bulkshaper/cmd/bulkshaper/ask"
)

// TestPortTaken: the shaping does not depend on the port. That it is taken is told once, and when it is free again it is used.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	d := &daemonHost{host: newHost(t), dir: copyTree(t, incident)}
	var taken net.Listener
	var err error
	d.Do(func() { taken, err = net.Listen("tcp", "127.0.0.1:9825") })
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	d.launch("--listen", "127.0.0.1:9825")
	eventually(t, "an answer at the socket", func() bool {
		return d.run("status", "--format", "json", "--config", d.config(), "--run-dir", d.dir).code == exitDone
	})
	if s := d.status(); !s.InSync {
		t.Errorf("not in sync: %s", s.Reason)
	}
	told := func() []string { return d.lines("cannot answer") }
	eventually(t, "a word about the port", func() bool { return len(told()) > 0 })
	if line := told()[0]; !strings.Contains(line, "address already in use") || !strings.Contains(line, "another program has the port") {
		t.Errorf("the log says %s", line)
	}
	taken.Close()
	client := http.Client{Transport: &http.Transport{DialContext: d.dial, DisableKeepAlives: true}}
	eventually(t, "an answer at the port", func() bool {
		response, err := client.Get("http://127.0.0.1:9825/-/ready")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	eventually(t, "a word that the port is used", func() bool { return len(d.lines("listening")) > 0 }) // which may come after the first answer
	if n := len(told()); n != 1 || len(d.lines("listening")) != 1 {
		t.Errorf("told %d times that the port is taken, %d times that it is used:\n%s", n, len(d.lines("listening")), d.text())
	}
	if code := d.stop(); code != exitDone {
		t.Errorf("exit code %d", code)
	}
}

// TestFilesOfOthers: check and start refuse an inventory and a config that others may write; a running daemon keeps its shaping, tells it
// once, and takes the files again when they are put right or when it is allowed.
func TestFilesOfOthers(t *testing.T) {
	t.Parallel()
	d := startIncident(t, "--rescan", "100ms")
	chmod := func(name string, mode uint32) {
		t.Helper()
		if err := unix.Chmod(filepath.Join(d.dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	file := "nyc1/jsons/hadoop14.json"
	message := file + ": not trusted: everybody may write it (mode 0646, owner "
	before := d.filters()
	chmod(file, 0o646)
	eventually(t, "a refusal", func() bool { return d.status().LastReload.Result == "failure" })
	if r := d.run("check", "--config", d.config()); r.code != exitWrong || !strings.Contains(r.stdout, "error: "+filepath.Join(d.dir, message)) || !strings.Contains(r.stdout, "chmod o-w ") {
		t.Errorf("check: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if !slices.ContainsFunc(d.status().LastReload.Problems, func(p string) bool { return strings.Contains(p, message) }) {
		t.Errorf("the status says %q", d.status().LastReload.Problems)
	}
	if now := d.filters(); now != before {
		t.Errorf("filters were\n%s\nand are\n%s", before, now)
	}
	if r := d.run("plan", "--config", d.config(), "--allow_writable_by_others"); r.code != exitDone {
		t.Errorf("allowed by flag: exit %d, %s", r.code, r.stderr)
	}
	chmod(file, 0o644)
	eventually(t, "the files to be taken again", func() bool { return d.status().LastReload.Result != "failure" })
	chmod("nyc1", 0o777)
	eventually(t, "another refusal", func() bool { return d.status().LastReload.Result == "failure" })
	if r := d.run("apply", "--config", d.config()); r.code != exitWrong || !strings.Contains(r.stderr, "nyc1: not trusted: everybody may write this folder (mode 0777") {
		t.Errorf("apply: exit %d, %s", r.code, r.stderr)
	}
	edit(t, d.config(), read(t, d.config())+"allow_writable_by_others: true\n")
	eventually(t, "it to be allowed", func() bool { return d.status().LastReload.Result != "failure" })
	chmod("config.yaml", 0o646)
	eventually(t, "a refusal of the config", func() bool {
		return slices.ContainsFunc(d.status().LastReload.Problems, func(p string) bool { return strings.Contains(p, "config.yaml: not trusted") })
	})
	if n := len(d.lines("input refused")); n != 3 {
		t.Errorf("three refusals are told in %d lines:\n%s", n, d.text())
	}
	if r := d.run("run", "--config", d.config()); r.code != exitWrong || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("run: exit %d, %s", r.code, r.stderr)
	}
}

// TestSocketRemoved: where somebody clears the run folder under a daemon, it can be asked again soon, and says once what happened.
func TestSocketRemoved(t *testing.T) {
	t.Parallel()
	d := startIncident(t)
	socket := filepath.Join(d.dir, ask.SocketName)
	d.status()
	remove(t, socket)
	if s := d.status(); !s.InSync {
		t.Errorf("not in sync: %s", s.Reason)
	}
	if n := len(d.lines("somebody removed the socket")); n != 1 {
		t.Errorf("told %d times", n)
	}
	if code := d.stop(); code != exitDone {
		t.Errorf("exit %d", code)
	}
}

// TestToldIsLogged: who sends a signal sees in the log that it came, also where it brought no change.
func TestToldIsLogged(t *testing.T) {
	t.Parallel()
	d := startIncident(t)
	d.signal(unix.SIGHUP)
	eventually(t, "a line about the reading", func() bool { return len(d.lines("files read again as told to (SIGHUP): nothing has changed")) == 1 })
	if code := d.stop(); code != exitDone {
		t.Errorf("exit %d", code)
	}
	if lines := d.lines("told to stop; the shaping stays"); len(lines) != 1 || !strings.Contains(lines[0], "terminated") {
		t.Errorf("of the end the log says %q", lines)
	}
}
