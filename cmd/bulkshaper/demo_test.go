package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"bulkshaper/shaper"
	"bulkshaper/shaper/kernel/lab"
)

// demoBinary builds the program, for everybody to run.
func demoBinary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(openFolder(t), "bulkshaper")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// openFolder is a folder that everybody may use, like /tmp, which those of t.TempDir are not.
func openFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "demo-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return dir
}

// runDemo runs the demo with a folder of its own for temporary files, and sees that nothing is left: no file, no process and
// no interface.
func runDemo(t *testing.T, binary string, attr *syscall.SysProcAttr, during func(*exec.Cmd, string), args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return runDemoIn(t, openFolder(t), binary, attr, during, args...)
}

func runDemoIn(t *testing.T, temp, binary string, attr *syscall.SysProcAttr, during func(*exec.Cmd, string), args ...string) (stdout, stderr string, code int) {
	t.Helper()
	before := interfaces(t)
	var out, progress bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"demo"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	cmd.Stdout, cmd.SysProcAttr = &out, attr
	lines, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for scanner := bufio.NewScanner(lines); scanner.Scan(); {
		fmt.Fprintln(&progress, scanner.Text())
		if during != nil {
			during(cmd, scanner.Text())
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left in the folder for temporary files: %v, %v", left, err)
	}
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range commands {
		if text, _ := os.ReadFile(path); bytes.Contains(text, []byte(temp)) { // one that is gone by now is gone
			t.Errorf("%s still runs: %q", path, text)
		}
	}
	if after := interfaces(t); after != before {
		t.Errorf("interfaces after: %s, before: %s", after, before)
	}
	return out.String(), progress.String(), cmd.ProcessState.ExitCode()
}

func interfaces(t *testing.T) string {
	t.Helper()
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(links)
}

// TestDemo runs the demo in short form, with a link that a busy machine can fill.
func TestDemo(t *testing.T) {
	binary := demoBinary(t)
	t.Run("to its end", func(t *testing.T) { testDemo(t, binary) })
	t.Run("as an ordinary user", func(t *testing.T) { testDemoAsUser(t, binary) })
	t.Run("interrupted", func(t *testing.T) { testDemoInterrupted(t, binary) })
	t.Run("incident, interrupted", func(t *testing.T) { testIncidentInterrupted(t, binary) })
	t.Run("incident, killed", func(t *testing.T) { testIncidentKilled(t, binary) })
	t.Run("no place for sockets", func(t *testing.T) { testDemoFails(t, binary) })
	t.Run("a daemon that ends", func(t *testing.T) { testDaemonFails(t, binary) })
}

func testDemo(t *testing.T, binary string) {
	start := time.Now()
	stdout, stderr, code := runDemo(t, binary, nil, nil, "--rate", "20mbit", "--duration", "3s")
	if code != exitDone {
		t.Fatalf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
	for _, line := range []string{
		`same-cabinet +1:10 +hadoop02 +10mbit +9\.\dmbit +9\d|10\d\.\d%`, `cross-cabinet +1:20 +hadoop04 +4mbit +3\.\dmbit`,
		`priority-role +1:30 +namenode01 +3mbit +2\.\dmbit`, `default +1:100 +client01 +2mbit +1\.\dmbit`, `control +1:ffff +- +2mbit`,
		`went past the classes: 0\.`, `hadoop03 received 3\.\dmbit before and [89]\.\dmbit after`,
		`of the \d+ filters on hadoop01 one changed: filter ip pref 11100 \S+ dst 10\.1\.12\.13/32: 1:20 is now 1:10`,
		`operations by daemon: hadoop01 1, hadoop02 1, hadoop03 \d, hadoop04 1,`, `All is as it should be`,
	} {
		if !regexp.MustCompile(line).MatchString(stdout) {
			t.Errorf("no %s in\n%s", line, stdout)
		}
	}
	if strings.ContainsRune(stdout+stderr, '\x1b') {
		t.Error("escape sequences where there is no terminal")
	}
	if took := time.Since(start); took > 40*time.Second {
		t.Errorf("took %s", took)
	}
}

// testDemoAsUser runs it as an ordinary user, if the test itself does not, with the result as JSON.
func testDemoAsUser(t *testing.T, binary string) {
	var attr *syscall.SysProcAttr
	const nobody = 65534
	// In a user namespace as unshare --map-root-user makes it there is nobody else to be.
	if text, err := os.ReadFile("/proc/self/uid_map"); err != nil {
		t.Fatal(err)
	} else if fields := strings.Fields(string(text)); os.Geteuid() == 0 && len(fields) == 3 && fields[2] == "4294967295" {
		attr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	stdout, stderr, code := runDemo(t, binary, attr, nil, "--rate", "20mbit", "--duration", "2s", "--format", "json")
	if code != exitDone {
		t.Fatalf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
	var r demoReport
	d := json.NewDecoder(strings.NewReader(stdout))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	if len(r.Classes) != 5 || len(r.Daemons) != 6 || len(r.Edit.Changed) != 1 || r.Edit.Seconds <= 0 || r.judge() != nil {
		t.Errorf("%+v", r)
	}
}

// testDemoInterrupted: everything is taken down again.
func testDemoInterrupted(t *testing.T, binary string) {
	for _, when := range []string{"network namespaces", "have shaped"} {
		interrupt := func(cmd *exec.Cmd, line string) {
			if strings.Contains(line, when) {
				if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
					t.Error(err)
				}
			}
		}
		stdout, stderr, code := runDemo(t, binary, nil, interrupt, "--rate", "20mbit")
		if code != exitFailed || !strings.HasSuffix(stderr, "bulkshaper: interrupted\n") || stdout != "" {
			t.Errorf("interrupted at %q: exit code %d, stdout %q, stderr %q", when, code, stdout, stderr)
		}
	}
}

// testIncidentInterrupted: the workers with the traffic and the daemons end as well, whenever it comes.
func testIncidentInterrupted(t *testing.T, binary string) {
	for _, when := range []string{"network namespaces", "phase 1 of"} {
		interrupt := func(cmd *exec.Cmd, line string) {
			if strings.Contains(line, when) {
				if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
					t.Error(err)
				}
			}
		}
		stdout, stderr, code := runDemo(t, binary, nil, interrupt, "--scenario", "incident", "--short")
		if code != exitFailed || !strings.HasSuffix(stderr, "bulkshaper: interrupted\n") || stdout != "" {
			t.Errorf("interrupted at %q: exit code %d, stdout %q, stderr %q", when, code, stdout, stderr)
		}
		if left := running(t, binary); len(left) > 0 {
			t.Errorf("interrupted at %q: processes %v still run", when, left)
		}
	}
}

// testIncidentKilled: when it is killed, with no time to tidy up, its processes die with it, and with them the namespaces. Only the
// folder for temporary files stays.
func testIncidentKilled(t *testing.T, binary string) {
	cmd := exec.CommandContext(t.Context(), binary, "demo", "--scenario", "incident", "--short")
	cmd.Env = append(os.Environ(), "TMPDIR="+openFolder(t))
	lines, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	workers := 0
	for scanner := bufio.NewScanner(lines); scanner.Scan(); {
		if strings.Contains(scanner.Text(), "phase 1 of") {
			workers = len(running(t, binary)) - 1
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	_ = cmd.Wait() // it was killed
	if workers != 2 {
		t.Errorf("%d workers, want one for bulk and one for requests", workers)
	}
	eventually(t, "the end of all its processes", func() bool { return len(running(t, binary)) == 0 })
}

// running are the processes of a program.
func running(t *testing.T, binary string) (pids []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && to == binary { // one that is gone by now is gone
			pids = append(pids, filepath.Base(filepath.Dir(link)))
		}
	}
	return pids
}

// testDaemonFails: of a daemon that ends the demo says how it ended and what it wrote.
func testDaemonFails(t *testing.T, binary string) {
	cluster, err := lab.Build(lab.Topology{Cabinets: []lab.Cabinet{{Name: "b12", Prefix: netip.MustParsePrefix("10.1.12.0/24"),
		Servers: []lab.Server{{Name: "hadoop01", Address: netip.MustParseAddr("10.1.12.11")}}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	n := &demoNode{host: cluster.Host("hadoop01"), logFile: filepath.Join(t.TempDir(), "log"), status: daemonAsker("/no/such/socket")}
	log, err := os.Create(n.logFile)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if n.daemon, err = n.host.Start(binary, []string{"run", "--config", "/no/such/config.yaml"}, []string{}, log); err != nil {
		t.Fatal(err)
	}
	err = n.wait(t.Context(), readyLimit, func(shaper.Status) bool { return true })
	if err == nil || !strings.Contains(err.Error(), "it has ended: exit status 2") || !strings.Contains(n.logTail(), "/no/such/config.yaml") {
		t.Errorf("%v%s", err, n.logTail())
	}
}

// testDemoFails: what cannot work is said before anything is started.
func testDemoFails(t *testing.T, binary string) {
	temp := filepath.Join(openFolder(t), strings.Repeat("x", 100))
	if err := os.Mkdir(temp, 0o777); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := runDemoIn(t, temp, binary, nil, nil, "--rate", "20mbit")
	if code != exitFailed || stdout != "" || !strings.Contains(stderr, "set TMPDIR to a folder with a shorter path") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestDemoUsage(t *testing.T) {
	for _, args := range [][]string{
		{"--rate", "100"}, {"--rate", "1mbit"}, {"--rate", "10gbit"}, {"--duration", "1s"}, {"--duration", "1h"}, {"--format", "xml"}, {"now"},
		{"--scenario", "accident"}, {"--short"}, {"--out", "/tmp"}, {"--scenario", "incident", "--rate", "50mbit"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), append([]string{"demo"}, args...), &stdout, &stderr); code != exitWrong || stderr.Len() == 0 || stdout.Len() != 0 {
			t.Errorf("%q: exit code %d, %q", args, code, stderr.String())
		}
	}
}
