//go:build system

package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// suite is a test binary to run. The file suites.json has a list of them.
type suite struct {
	Name   string
	Binary string
	Dir    string
	Args   []string
}

// inGuest is set in the environment of what init starts.
const inGuest = "BULKSHAPER_GUEST"

// TestMain is init where it is the first process, and otherwise runs the tests.
func TestMain(m *testing.M) {
	if os.Getpid() != 1 {
		if os.Getenv(inGuest) == "" {
			fmt.Fprintln(os.Stderr, "these tests are for the inside of a virtual machine: go test -tags system ./shaper/kernel/qemutest starts it")
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	// The results go to a serial line of their own: the first has what the kernel says.
	results, err := boot()
	if err != nil {
		fmt.Println("== boot failed:", err)
	} else if err := runSuites(results); err != nil {
		fmt.Fprintln(results, "== suites failed:", err)
	}
	unix.Sync()
	err = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	fmt.Println("== power off failed:", err)
}

// boot makes a minimal system: file systems, loopback, modules.
func boot() (io.Writer, error) {
	for _, m := range []struct{ kind, at string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"devpts", "/dev/pts"}, {"tmpfs", "/tmp"}, {"tmpfs", "/run"},
	} {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return nil, err
		}
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil {
			return nil, fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	for name, value := range map[string]string{"PATH": "/bin", "HOME": "/tmp", "TMPDIR": "/tmp", inGuest: "1"} {
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
	}
	results, err := os.OpenFile("/dev/ttyS1", os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	modules, err := filepath.Glob("/modules/*")
	if err != nil {
		return nil, err
	}
	for _, path := range modules {
		if err := load(path); err != nil {
			return nil, fmt.Errorf("load %s: %w", path, err)
		}
	}
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("set lo up: %w: %s", err, out)
	}
	return results, nil
}

func load(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.FinitModule(int(file.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

func runSuites(results io.Writer) error {
	text, err := os.ReadFile("/suites.json")
	if err != nil {
		return err
	}
	var suites []suite
	if err := json.Unmarshal(text, &suites); err != nil {
		return err
	}
	var uname unix.Utsname
	if err := unix.Uname(&uname); err != nil {
		return err
	}
	fmt.Fprintf(results, "== kernel %s, %d processors\n", unix.ByteSliceToString(uname.Release[:]), runtime.NumCPU())
	for _, s := range suites {
		fmt.Fprintf(results, "== suite %s\n", s.Name)
		begun := time.Now()
		cmd := exec.Command(s.Binary, s.Args...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = s.Dir, results, results
		outcome := "passed"
		if err := cmd.Run(); err != nil {
			outcome = "failed: " + err.Error()
		}
		fmt.Fprintf(results, "\n== suite %s ended after %s: %s\n", s.Name, time.Since(begun).Round(time.Second), outcome)
	}
	fmt.Fprintln(results, "== all suites ended")
	return nil
}
