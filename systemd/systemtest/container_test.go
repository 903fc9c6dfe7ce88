//go:build system

package systemtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// container is a booted Debian with an interface host0, whose other end lies in a network namespace made for it.
type container struct {
	// leader is the process id of its systemd, host that of nspawn, in the namespace with the other end.
	leader, host string
	// etc is its /etc/bulkshaper.
	etc string
}

// boot starts a container of the suite with the unit enabled, the binary in its place, and the folder etc as /etc/bulkshaper.
// What is written elsewhere goes to memory. It ends with the test. options are more of nspawn's.
func boot(t *testing.T, suite, binary, etc string, options ...string) *container {
	t.Helper()
	unit, err := filepath.Abs("../bulkshaper.service")
	if err != nil {
		t.Fatal(err)
	}
	// wants is what enabling the unit does.
	c := bootRoot(t, suiteFolder(t, suite), "bulkshaper"+strconv.Itoa(os.Getpid()), []string{"systemd.wants=bulkshaper.service"}, append([]string{
		"--bind-ro=" + binary + ":/usr/bin/bulkshaper", "--bind-ro=" + unit + ":/etc/systemd/system/bulkshaper.service", "--bind=" + etc + ":/etc/bulkshaper",
	}, options...)...)
	c.etc = etc
	return c
}

// bootRoot boots the Debian in the folder root as a machine of that name, with nothing of ours. What is written there goes to memory, so
// several may share a root. kernel is for systemd's kernel command line, options are more of nspawn's.
func bootRoot(t *testing.T, root, machine string, kernel []string, options ...string) *container {
	t.Helper()
	before := links(t)
	var console bytes.Buffer
	args := []string{"--net", "--mount", "--", "systemd-nspawn", "--directory", root, "--volatile=overlay", "--boot", "--register=no", "--keep-unit", "--network-veth",
		"--machine=" + machine, "--console=pipe", "--quiet"}
	// What stands behind --boot is systemd's kernel command line.
	c := exec.Command("unshare", append(append(args, options...), kernel...)...)
	c.Env = append(os.Environ(), "SYSTEMD_NSPAWN_LOCK=0")
	c.Stdout, c.Stderr = &console, &console
	// Whoever is killed takes it along: nspawn, which kills what is in it when it ends. An order to power off might hang, with nobody to see it.
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	t.Cleanup(func() {
		// nspawn hands this on as the order to power off.
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("stop the container: %v", err)
		}
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Errorf("the container did not power off; console:\n%s", tail(console.String()))
			_ = c.Process.Kill()
			<-ended
		}
		if after := links(t); after != before {
			t.Errorf("the machine's own links were\n%s\nand are\n%s", before, after)
		}
	})
	box := &container{host: strconv.Itoa(c.Process.Pid)}
	t.Cleanup(func() { // before the one above
		if t.Failed() && box.leader != "" {
			out, err := box.try("journalctl", "--no-pager", "--output=short-monotonic", "--lines=60")
			t.Logf("journal of the container (%v):\n%s", err, out)
		}
	})
	children := fmt.Sprintf("/proc/%d/task/%d/children", c.Process.Pid, c.Process.Pid)
	eventually(t, "the container starts", func() error {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the container ended: %v\n%s", err, tail(console.String()))
		default:
		}
		for _, pid := range strings.Fields(readFile(children)) {
			if name := readFile("/proc/" + pid + "/comm"); name == "systemd\n" {
				box.leader = pid
				return nil
			}
		}
		return fmt.Errorf("no systemd among the children %q of nspawn", readFile(children))
	})
	// The unit may be waiting for its interface at this time: that holds up no boot.
	eventually(t, "the container boots", func() error {
		_, err := box.try("systemctl", "is-active", "multi-user.target")
		return err
	})
	if after := links(t); after != before {
		t.Errorf("the machine's own links were\n%s\nand with the container are\n%s", before, after)
	}
	return box
}

// plug makes host0 the bulk interface eth1, with an address and a carrier, and sends everything to it.
func (c *container) plug(t *testing.T) {
	t.Helper()
	outside := []string{"--target", c.host, "--net", "--", "ip"}
	for _, line := range strings.Split(run(t, "nsenter", append(outside, "-brief", "link", "show", "type", "veth")...), "\n") {
		name, _, _ := strings.Cut(line, "@")
		run(t, "nsenter", append(outside, "link", "set", name, "up")...)
	}
	c.run(t, "ip", "link", "set", "host0", "name", "eth1")
	c.run(t, "ip", "address", "add", "192.0.2.1/24", "dev", "eth1")
	c.run(t, "ip", "link", "set", "eth1", "up")
	c.run(t, "ip", "neighbour", "replace", "192.0.2.254", "lladdr", "02:00:00:00:00:01", "dev", "eth1", "nud", "permanent")
	c.run(t, "ip", "route", "replace", "default", "via", "192.0.2.254")
}

// run does a command in the container, as its root.
func (c *container) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.try(args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimRight(out, "\n")
}

func (c *container) try(args ...string) (string, error) {
	return try("nsenter", append([]string{"--target", c.leader, "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd", "--"}, args...)...)
}

// property is a property of the unit, as systemd tells it.
func (c *container) property(t *testing.T, name string) string {
	t.Helper()
	return c.run(t, "systemctl", "show", "--value", "--property="+name, "bulkshaper.service")
}

// send sends packets of UDP from the container.
func (c *container) send(t *testing.T, address string, packets int) {
	t.Helper()
	c.run(t, "bash", "-c", fmt.Sprintf("for i in $(seq %d); do echo x > /dev/udp/%s/9; done", packets, address))
}

// journal has the messages of the unit's own processes.
func (c *container) journal(t *testing.T) []string {
	t.Helper()
	out := c.run(t, "journalctl", "--quiet", "--output=cat", "--no-pager", "_SYSTEMD_UNIT=bulkshaper.service")
	return strings.Split(out, "\n")
}

// links is the machine's own links.
func links(t *testing.T) string {
	t.Helper()
	return run(t, "ip", "-brief", "link")
}

func readFile(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "" // processes come and go
	}
	return string(text)
}

// eventually waits until condition holds, for as long as the slowest machine may need.
func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute: %v", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
