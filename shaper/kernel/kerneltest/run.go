package kerneltest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// inheritedNamespace is where a program that Run starts in the node's namespace finds the peer's namespace.
const inheritedNamespace = "/proc/self/fd/3"

// Command prepares a program to run inside the namespace: start it within Do, since it inherits the thread's namespace.
// Descriptor 3 is the peer's namespace.
func (n *Namespace) Command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.ExtraFiles = []*os.File{n.peer.file}
	return cmd
}

// Run runs a program inside the namespace and returns what it printed; the test fails if the program does.
func (n *Namespace) Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := n.run("", name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TC runs tc inside the namespace and returns what it printed; the test fails if tc does.
func (n *Namespace) TC(args ...string) string {
	n.t.Helper()
	return n.Run(n.t, "tc", args...)
}

// TryTC is TC for commands that may fail.
func (n *Namespace) TryTC(args ...string) (string, error) { return n.run("", "tc", args...) }

// TCBatch feeds lines to tc -batch. tc stops at the first line that fails.
func (n *Namespace) TCBatch(lines string) error {
	_, err := n.run(lines, "tc", "-batch", "-")
	return err
}

func (n *Namespace) run(stdin, name string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := n.Command(name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	var err error
	n.Do(func() { err = cmd.Run() })
	if err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
