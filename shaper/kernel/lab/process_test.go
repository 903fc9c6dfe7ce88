package lab

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// roleVariable makes the test binary play a part of its own.
const roleVariable = "LAB_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		goleak.VerifyTestMain(m)
	case "wait":
		// tells its interfaces, then waits for SIGTERM
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		links, _ := net.Interfaces()
		for _, l := range links {
			fmt.Println(l.Name)
		}
		fmt.Println("ready")
		<-ctx.Done()
		stop()
		os.Exit(0)
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		select {}
	case "parent":
		os.Exit(parent())
	case "guest":
		os.Exit(guest(os.Args[1:]))
	case "user":
		os.Setenv(roleVariable, "root")
		code, err := InUserNamespace(context.Background(), nil)
		if err != nil {
			fmt.Println(err)
			code = 1
		}
		os.Exit(code)
	case "root":
		c, err := Build(two())
		fmt.Printf("uid %d: %v\n", os.Geteuid(), err)
		if err != nil {
			os.Exit(1)
		}
		c.Close()
		os.Exit(7)
	}
}

// parent builds a lab, starts a process there, tells its id and waits to be killed.
func parent() int {
	c, err := Build(two())
	if err != nil {
		fmt.Println(err)
		return 1
	}
	p, err := c.Host("hadoop01").Start("/proc/self/exe", nil, []string{roleVariable + "=deaf"}, os.Stdout)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("pid", p.PID())
	<-p.Done()
	return 1
}

// start runs the test binary in a role on a server and waits until it is ready; it returns what it printed.
func start(t *testing.T, h *Host, role string) (*Process, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "output")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p, err := h.Start("/proc/self/exe", nil, []string{roleVariable + "=" + role}, out)
	if err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(string(text), "ready\n") {
			return p, string(text)
		}
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("not ready after 20 s: %s", text)
		}
	}
}

func TestProcess(t *testing.T) {
	c := build(t, two())
	h := c.Host("hadoop01")
	p, text := start(t, h, "wait")
	if !strings.Contains(text, "\n"+Interface+"\n") || !strings.Contains(text, "\n"+wire+"\n") {
		t.Errorf("the process sees the interfaces %q", text)
	}
	if err := p.Stop(10 * time.Second); err != nil {
		t.Error(err)
	}
	if err := p.Signal(syscall.SIGHUP); err != nil {
		t.Errorf("signal to an ended process: %v", err)
	}
	deaf, _ := start(t, h, "deaf")
	if err := deaf.Stop(time.Millisecond); err == nil || !strings.Contains(err.Error(), "was killed") {
		t.Errorf("stop of a deaf process: %v", err)
	}
	killed, _ := start(t, h, "wait")
	killed.Kill()
	if got := killed.Ended(); got != "signal: killed" {
		t.Errorf("ended with %s", got)
	}
	if err := killed.Stop(time.Second); err == nil {
		t.Error("no error for a process that was killed")
	}
	left, _ := start(t, h, "wait")
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-left.Done():
	default:
		t.Error("a process outlives its cluster")
	}
	if _, err := h.Start("/no/such/program", nil, nil, os.Stdout); err == nil {
		t.Error("started a program that is not there")
	}
}

// TestKilled: a process that is killed takes those along that it started in its lab.
func TestKilled(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVariable+"=parent")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child := 0
	lines := bufio.NewScanner(out)
	for ready := false; (!ready || child == 0) && lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "pid "); ok {
			if child, err = strconv.Atoi(text); err != nil {
				t.Fatal(err)
			}
		} else if ready = lines.Text() == "ready"; !ready {
			t.Fatal(lines.Text())
		}
	}
	fd, err := unix.PidfdOpen(child, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 20_000)
	if n != 1 || err != nil {
		t.Errorf("process %d is still there: %d, %v", child, n, err)
		_ = unix.Kill(child, unix.SIGKILL)
	}
}

// TestInUserNamespace: as an ordinary user, and with the exit code passed on.
func TestInUserNamespace(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVariable+"=user")
	// In a user namespace as unshare --map-root-user makes it there is nobody else to be.
	users, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		t.Fatal(err)
	}
	if fields := strings.Fields(string(users)); os.Geteuid() == 0 && len(fields) == 3 && fields[2] == "4294967295" {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 7 || string(out) != "uid 0: <nil>\n" {
		t.Errorf("%v, printed %q; want exit status 7", err, out)
	}
}
