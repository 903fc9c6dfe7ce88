package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bulkshaper/shaper/kernel/kerneltest"
)

// asProgram makes the test binary be the program, so that tests run the real thing in a namespace, race detector included.
const asProgram = "BULKSHAPER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// host is a node in a namespace of its own.
type host struct {
	*kerneltest.Namespace
	t   *testing.T
	env []string // of the program, besides the test's own
}

func newHost(t *testing.T, options ...kerneltest.Option) *host {
	t.Helper()
	return &host{Namespace: kerneltest.New(t, options...), t: t}
}

type result struct {
	stdout, stderr string
	code           int
}

func (h *host) program(args ...string) *exec.Cmd {
	h.t.Helper()
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	cmd := h.Command(self, args...)
	cmd.Env = append(append(os.Environ(), asProgram+"=1"), h.env...)
	return cmd
}

// run runs a command of the program to its end.
func (h *host) run(args ...string) result {
	h.t.Helper()
	return h.runWith(nil, args...)
}

// runWith runs a command of the program that prepare may change before it starts.
func (h *host) runWith(prepare func(*exec.Cmd), args ...string) result {
	h.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := h.program(args...)
	if prepare != nil {
		prepare(cmd)
	}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var err error
	h.Do(func() { err = cmd.Run() })
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		h.t.Fatalf("run %q: %v", args, err)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// withoutPrivilege has the command run without CAP_NET_ADMIN, by setpriv of util-linux.
func withoutPrivilege(cmd *exec.Cmd) {
	path, err := exec.LookPath("setpriv")
	if err != nil {
		cmd.Err = fmt.Errorf("%w: install util-linux", err)
		return
	}
	cmd.Args = append([]string{"setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = path
}

// must runs a command that has to succeed and returns what it printed.
func (h *host) must(args ...string) string {
	h.t.Helper()
	r := h.run(args...)
	if r.code != exitDone {
		h.t.Fatalf("bulkshaper %s: exit %d\n%s%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
	}
	return r.stdout
}

// daemonProcess is a running `bulkshaper run`.
type daemonProcess struct {
	t   *testing.T
	cmd *exec.Cmd

	mu  sync.Mutex
	log bytes.Buffer
}

func (d *daemonProcess) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.Write(p)
}

// lines are those of the log that contain text.
func (d *daemonProcess) lines(text string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var found []string
	for _, line := range strings.Split(d.log.String(), "\n") {
		if line != "" && strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

func (d *daemonProcess) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.String()
}

// start runs the daemon; it is ended with the test.
func (h *host) start(args ...string) *daemonProcess {
	h.t.Helper()
	d := &daemonProcess{t: h.t, cmd: h.program(append([]string{"run"}, args...)...)}
	d.cmd.Stdout, d.cmd.Stderr = d, d
	var err error
	h.Do(func() { err = d.cmd.Start() })
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if d.cmd.ProcessState == nil {
			d.kill()
		}
		if h.t.Failed() {
			h.t.Logf("log of the daemon:\n%s", d.text())
		}
	})
	return d
}

func (d *daemonProcess) signal(s syscall.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(s); err != nil {
		d.t.Fatal(err)
	}
}

// stop ends the daemon as systemd does and returns its exit code.
func (d *daemonProcess) stop() int {
	d.t.Helper()
	d.signal(syscall.SIGTERM)
	return d.wait()
}

func (d *daemonProcess) wait() int {
	d.t.Helper()
	done := make(chan struct{})
	go func() { _ = d.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		d.t.Fatal("the daemon does not end")
	}
	return d.cmd.ProcessState.ExitCode()
}

func (d *daemonProcess) kill() {
	_ = d.cmd.Process.Kill()
	_ = d.cmd.Wait()
}

// eventually waits for a condition, which is looked at often.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// copyTree copies testdata into a folder that the test may edit.
func copyTree(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// edit replaces a file as an editor does, by rename.
func edit(t *testing.T, path, content string) {
	t.Helper()
	temporary := filepath.Join(filepath.Dir(path), ".new~")
	if err := os.WriteFile(temporary, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temporary, path); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
