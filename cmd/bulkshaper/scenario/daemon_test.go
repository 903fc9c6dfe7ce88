package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// daemon is a running `bulkshaper run`.
type daemon struct {
	cmd    *exec.Cmd
	done   chan struct{}
	mayEnd bool
}

func (d *daemon) ended() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// dump ends the daemon by SIGQUIT, so that its log tells where each of its goroutines was, and tells where the kernel had its threads.
func (d *daemon) dump() (threads string) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", d.cmd.Process.Pid)) // the pattern is right
	for _, task := range tasks {
		status, _ := os.ReadFile(filepath.Join(task, "status")) // a thread may end meanwhile
		stack, _ := os.ReadFile(filepath.Join(task, "stack"))
		state := regexp.MustCompile(`(?m)^(State|SigPnd|ShdPnd|SigBlk):.*$`).FindAllString(string(status), -1)
		threads += fmt.Sprintf("%s: %s\n%s", filepath.Base(task), strings.Join(state, ", "), stack)
	}
	_ = d.cmd.Process.Signal(syscall.SIGQUIT) // it may have ended
	select {
	case <-d.done:
	case <-time.After(20 * time.Second):
		d.kill()
	}
	return threads
}

func (d *daemon) kill() {
	_ = d.cmd.Process.Kill() // it may have ended
	<-d.done
}

func (n *node) cmdDaemon(ts *testscript.TestScript, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	what, args := args[0], args[1:]
	if what != "start" && n.daemon == nil {
		return errors.New("there is no daemon")
	}
	switch what {
	case "start":
		return n.start(args)
	case "restart":
		if err := n.stop(); err != nil {
			return err
		}
		return n.start(args)
	case "stop":
		return n.stop()
	case "kill":
		n.daemon.mayEnd = true
		n.daemon.kill()
		return nil
	case "signal":
		if len(args) != 1 {
			return errUsage
		}
		return n.signal(args[0])
	case "ends":
		if len(args) != 1 {
			return errUsage
		}
		return n.ends(args[0])
	case "says":
		if len(args) != 1 {
			return errUsage
		}
		return n.says(args[0])
	}
	return errUsage
}

// start runs the daemon with a notify socket, as systemd does.
func (n *node) start(args []string) error {
	if n.daemon != nil && !n.daemon.ended() {
		return errors.New("the daemon runs already")
	}
	var under []string
	ready := true
	for len(args) > 0 && (args[0] == "-unready" || args[0] == "-under") {
		if args[0] == "-unready" {
			ready, args = false, args[1:]
			continue
		}
		if len(args) < 2 {
			return errUsage
		}
		under, args = strings.Fields(args[1]), args[2:]
	}
	if n.notify == nil {
		var err error
		if n.notify, err = openNotify(filepath.Join(n.dir, "notify.sock")); err != nil {
			return err
		}
	}
	n.notify.forget()
	command := slices.Concat(under, []string{n.program, "run", "--config", "config.yaml", "--layout", n.layout, "--run-dir", n.runDir(),
		"--listen", "127.0.0.1:9825", "--log-format", "json"}, args)
	cmd := n.Command(command[0], command[1:]...)
	cmd.Dir = n.dir
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+n.notify.path, "GORACE=atexit_sleep_ms=0")
	cmd.Stdout, cmd.Stderr = n.log, n.log
	d := &daemon{cmd: cmd, done: make(chan struct{}), mayEnd: !ready}
	var err error
	n.Do(func() { err = cmd.Start() })
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	go func() {
		_ = cmd.Wait() // how it ended is asked of its state
		close(d.done)
	}()
	n.daemon = d
	n.acted = time.Now()
	if ready {
		return n.says("READY=1")
	}
	return nil
}

func (n *node) stop() error {
	n.daemon.mayEnd = true
	if err := n.signal("TERM"); err != nil {
		return err
	}
	return n.ends("0")
}

func (n *node) signal(name string) error {
	s := unix.SignalNum("SIG" + name)
	if s == 0 {
		return fmt.Errorf("there is no signal %s", name)
	}
	n.acted = time.Now()
	if s == unix.SIGTERM {
		n.daemon.mayEnd = true
	}
	if err := n.daemon.cmd.Process.Signal(syscall.Signal(s)); err != nil || s != unix.SIGSTOP {
		return err
	}
	return n.await("the daemon to stand still", func() (bool, string) { return n.daemon.still(), "it runs" })
}

// still tells whether every thread has stopped: a signal takes effect some time after it was sent.
func (d *daemon) still() bool {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", d.cmd.Process.Pid))
	if err != nil || len(files) == 0 {
		return false
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		// The state follows the name, which is in brackets (proc(5)).
		if _, state, _ := cutLast(string(text), ") "); !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return true
}

func (n *node) ends(code string) error {
	n.daemon.mayEnd = true
	if err := n.await("the daemon's end", func() (bool, string) { return n.daemon.ended(), "it runs" }); err != nil {
		return fmt.Errorf("%w\nits threads:\n%s", err, n.daemon.dump())
	}
	if got := n.daemon.cmd.ProcessState.ExitCode(); strconv.Itoa(got) != code {
		return fmt.Errorf("the daemon ended with %s, not with %s", n.daemon.cmd.ProcessState, code)
	}
	return nil
}

func (n *node) says(pattern string) error {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	return n.await("a message "+pattern, func() (bool, string) { return n.notify.take(re), "heard " + strings.Join(n.notify.all(), " | ") })
}

// cmdProgram runs another command of the program.
func (n *node) cmdProgram(ts *testscript.TestScript, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	return n.exec(ts, n.program, n.withFlags(args)...)
}

// withFlags adds the flags that say which node it is.
func (n *node) withFlags(args []string) []string {
	var flags []string
	switch args[0] {
	case "plan", "apply", "explain":
		flags = []string{"--config", "config.yaml", "--layout", n.layout}
	case "status":
		flags = []string{"--config", "config.yaml", "--run-dir", n.runDir()}
	case "check", "clear":
		flags = []string{"--config", "config.yaml"}
	}
	return slices.Concat(args[:1], flags, args[1:])
}

// notifySocket hears what the daemon says to the service manager.
type notifySocket struct {
	path string
	mu   sync.Mutex
	said []string
	next int // the first message that no wait has passed
}

func openNotify(path string) (*notifySocket, error) {
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o777); err != nil { // the daemon may be another user
		return nil, err
	}
	s := &notifySocket{path: path}
	go func() {
		buffer := make([]byte, 64<<10)
		for {
			k, err := conn.Read(buffer)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.said = append(s.said, string(buffer[:k]))
			s.mu.Unlock()
		}
	}()
	return s, nil
}

// take finds a message behind those that were found before.
func (s *notifySocket) take(re *regexp.Regexp) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := s.next; i < len(s.said); i++ {
		if re.MatchString(s.said[i]) {
			s.next = i + 1
			return true
		}
	}
	return false
}

func (s *notifySocket) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = len(s.said)
}

func (s *notifySocket) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.said)
}

// logFile is what the daemons of a script wrote.
type logFile struct {
	mu      sync.Mutex
	written bytes.Buffer
}

func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written.Write(p)
}

func (l *logFile) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written.String()
}

// lines are those that are complete.
func (l *logFile) lines() []string {
	text := l.text()
	var lines []string
	for _, line := range strings.SplitAfter(text, "\n") {
		if strings.HasSuffix(line, "\n") && strings.TrimSpace(line) != "" {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

func (l *logFile) matching(re *regexp.Regexp) []string {
	var found []string
	for _, line := range l.lines() {
		if re.MatchString(line) {
			found = append(found, line)
		}
	}
	return found
}
