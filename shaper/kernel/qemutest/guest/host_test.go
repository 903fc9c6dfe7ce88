//go:build system

package guest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"bulkshaper/shaper/kernel/kerneltest"
)

// host is a node of the incident in a namespace, with the program and a copy of its files.
type host struct {
	*kerneltest.Namespace
	t      *testing.T
	config string
}

func newHost(t *testing.T) *host {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("/src/testdata/incident")); err != nil {
		t.Fatal(err)
	}
	return &host{kerneltest.New(t), t, filepath.Join(dir, "config.yaml")}
}

// try runs a command of the program and gives what it wrote, both streams, and its exit code.
func (h *host) try(command string, args ...string) (string, int) {
	h.t.Helper()
	var out bytes.Buffer
	cmd := h.Command("/bin/bulkshaper", append([]string{command, "--config", h.config}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	var err error
	h.Do(func() { err = cmd.Run() })
	if cmd.ProcessState == nil {
		h.t.Fatalf("run bulkshaper %s: %v", command, err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

func (h *host) must(command string, args ...string) string {
	h.t.Helper()
	out, code := h.try(command, args...)
	if code != 0 {
		h.t.Fatalf("bulkshaper %s %v: exit %d\n%s", command, args, code, out)
	}
	return out
}

// nothingLeft checks that a second run has nothing to do.
func (h *host) nothingLeft(args ...string) {
	h.t.Helper()
	if out, code := h.try("plan", append(args, "--exit-code")...); code != 0 {
		h.t.Errorf("plan after apply: exit %d\n%s", code, out)
	}
}

// packets is what tc counted on each class of an interface, sent and dropped, by classid.
func (h *host) packets(device string) map[string]int {
	h.t.Helper()
	counts := map[string]int{}
	for _, m := range regexp.MustCompile(`class htb (\S+) [^\n]*\n Sent \d+ bytes (\d+) pkt \(dropped (\d+),`).FindAllStringSubmatch(h.TC("-s", "class", "show", "dev", device), -1) {
		sent, _ := strconv.Atoi(m[2])
		dropped, _ := strconv.Atoi(m[3])
		counts[m[1]] = sent + dropped
	}
	return counts
}

// grows gives the classes that count more after f than before, and by how much.
func (h *host) grows(device string, f func()) map[string]int {
	h.t.Helper()
	before := h.packets(device)
	f()
	grown := map[string]int{}
	for id, n := range h.packets(device) {
		if n != before[id] {
			grown[id] = n - before[id]
		}
	}
	return grown
}

// daemon starts `bulkshaper run` and returns the address of its metrics. It is ended with the test.
func (h *host) daemon(args ...string) (log *bytes.Buffer, process *exec.Cmd) {
	h.t.Helper()
	log = &bytes.Buffer{}
	cmd := h.Command("/bin/bulkshaper", append([]string{"run", "--config", h.config, "--run-dir", h.runDir()}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	var err error
	h.Do(func() { err = cmd.Start() })
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if h.t.Failed() {
			h.t.Logf("log of the daemon:\n%s", log)
		}
	})
	return log, cmd
}

func (h *host) runDir() string { return filepath.Dir(h.config) }

// eventually waits for a condition, which says what is missing or "".
func eventually(t *testing.T, missing func() string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		what := missing()
		if what == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// finding tells about this kernel in the report of the tests outside.
func finding(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Log("finding: " + fmt.Sprintf(format, args...))
}

func lines(text, with string) (found []string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, with) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}
