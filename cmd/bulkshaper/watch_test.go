package main

import (
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"bulkshaper/cmd/bulkshaper/screen"
)

// terminal is a real pseudo-terminal with the program at its other end, and what a person would see there.
type terminal struct {
	t   *testing.T
	tty *os.File // the person's end
	pts *os.File // the program's end, held open
	cmd *exec.Cmd

	mu     sync.Mutex
	screen *vt.Emulator
	raw    strings.Builder
	ended  chan struct{}
}

// onTerminal runs a command of the program on a terminal of that size.
func (h *host) onTerminal(width, height uint16, env []string, args ...string) *terminal {
	h.t.Helper()
	tty, pts, err := pty.Open()
	if err != nil {
		h.t.Fatal(err)
	}
	term := &terminal{t: h.t, tty: tty, pts: pts, screen: vt.NewEmulator(int(width), int(height)), ended: make(chan struct{})}
	term.size(width, height)
	cmd := h.program(args...)
	cmd.Env = append(cmd.Env, append([]string{"TERM=xterm-256color", "LANG=C.UTF-8", "LC_ALL=", "NO_COLOR="}, env...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pts, pts, pts
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	term.cmd = cmd
	h.Do(func() { err = cmd.Start() })
	if err != nil {
		h.t.Fatal(err)
	}
	go func() { _ = cmd.Wait(); close(term.ended) }()
	go func() { // what the program asks the terminal is answered, as a real one does
		buffer := make([]byte, 4096)
		for {
			n, err := term.screen.Read(buffer)
			if err != nil {
				return
			}
			_, _ = tty.Write(buffer[:n])
		}
	}()
	go func() {
		buffer := make([]byte, 64<<10)
		for {
			n, err := tty.Read(buffer)
			if err != nil {
				return
			}
			term.mu.Lock()
			_, _ = term.screen.Write(buffer[:n])
			_, _ = term.raw.Write(buffer[:n])
			term.mu.Unlock()
		}
	}()
	h.t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
		}
		<-term.ended
		tty.Close()
		pts.Close()
	})
	return term
}

func (term *terminal) size(width, height uint16) {
	term.t.Helper()
	if err := pty.Setsize(term.tty, &pty.Winsize{Cols: width, Rows: height}); err != nil {
		term.t.Fatal(err)
	}
	term.mu.Lock()
	defer term.mu.Unlock()
	term.screen.Resize(int(width), int(height))
}

// text is what is to be seen now.
func (term *terminal) text() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.screen.String()
}

func (term *terminal) press(keys string) {
	term.t.Helper()
	if _, err := term.tty.WriteString(keys); err != nil {
		term.t.Fatal(err)
	}
}

func (term *terminal) shows(all ...string) {
	term.t.Helper()
	defer func() {
		if term.t.Failed() {
			term.t.Logf("the screen:\n%s", term.text())
		}
	}()
	for _, text := range all {
		eventually(term.t, "the screen shows "+text, func() bool { return strings.Contains(term.text(), text) })
	}
}

// settings are those of the terminal, which a program has to leave as it found them.
func (term *terminal) settings() unix.Termios {
	term.t.Helper()
	settings, err := unix.IoctlGetTermios(int(term.pts.Fd()), unix.TCGETS)
	if err != nil {
		term.t.Fatal(err)
	}
	return *settings
}

// TestWatchOnATerminal drives the live view as a person does: at 80 columns and at 200, with keys, to its end.
func TestWatchOnATerminal(t *testing.T) {
	t.Parallel()
	d := startIncident(t)
	term := d.onTerminal(80, 24, nil, "status", "--watch", "--interval", "200ms", "--config", d.config(), "--run-dir", d.dir)
	term.shows("hadoop27  eth1  cabinet b13 of nyc1", "in sync", "cross-cabinet  204.8mbit", "LAST 5 MIN", "by tree", "q quit")
	if strings.Contains(term.text(), "DESTINATIONS") {
		t.Errorf("all columns at 80:\n%s", term.text())
	}
	d.Send(t, netip.MustParseAddr("10.241.28.14"), 100)
	term.size(200, 40)
	term.shows("CLASSID", "CEIL", "PACKETS", "BORROWED", "DESTINATIONS")
	eventually(t, "the packets are counted", func() bool {
		for _, line := range strings.Split(term.text(), "\n") {
			if f := strings.Fields(line); len(f) > 0 && f[0] == "cross-cabinet" {
				for _, cell := range f {
					if cell == "100" {
						return true
					}
				}
			}
		}
		return false
	})
	term.press("s")
	term.shows("by sending")
	term.press("p")
	term.shows("PAUSED at ")
	term.press("?")
	term.shows("next and previous order")
	term.press("xp")
	term.shows("every 200ms")
	for _, line := range strings.Split(term.text(), "\n") {
		if n := screen.Cells(line); n > 200 {
			t.Errorf("a line of %d cells", n)
		}
	}
	d.kill()
	term.shows("NO ANSWER", "this is what was last known")
	d.launch()
	eventually(t, "the daemon that is back is asked again", func() bool { return !strings.Contains(term.text(), "NO ANSWER") })
	term.press("q")
	term.ends(exitDone)
	eventually(t, "the other screen is left", func() bool {
		term.mu.Lock()
		defer term.mu.Unlock()
		return !term.screen.IsAltScreen()
	})
}

func (term *terminal) ends(code int) {
	term.t.Helper()
	select {
	case <-term.ended:
	case <-time.After(20 * time.Second):
		term.t.Fatalf("it does not end:\n%s", term.text())
	}
	if got := term.cmd.ProcessState.ExitCode(); got != code {
		term.t.Errorf("exit %d, want %d:\n%s", got, code, term.text())
	}
	if s := term.settings(); s.Lflag&(unix.ICANON|unix.ECHO) != unix.ICANON|unix.ECHO {
		term.t.Errorf("the terminal is left without echo or lines: %x", s.Lflag)
	}
}

// TestWatchEndsWell whoever ends it: the terminal is as before.
func TestWatchEndsWell(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.must("apply", "--config", incidentConfig())
	for name, end := range map[string]func(*terminal){
		"Ctrl-C":  func(term *terminal) { term.press("\x03") },
		"Esc":     func(term *terminal) { term.press("\x1b") },
		"SIGTERM": func(term *terminal) { _ = term.cmd.Process.Signal(syscall.SIGTERM) },
		"SIGINT":  func(term *terminal) { _ = term.cmd.Process.Signal(syscall.SIGINT) },
	} {
		t.Run(name, func(t *testing.T) {
			term := h.onTerminal(100, 30, nil, "status", "-w", "--config", incidentConfig(), "--run-dir", t.TempDir())
			term.t = t
			before := term.settings()
			term.shows("no daemon answers", "cross-cabinet")
			end(term)
			term.ends(exitDone)
			after := term.settings()
			if before.Iflag != after.Iflag && before.Lflag != after.Lflag && after.Lflag&unix.ECHO == 0 {
				t.Errorf("settings %+v, before %+v", after, before)
			}
		})
	}
}

// TestColourIsForTerminals: there, unless NO_COLOR says no; TERM=dumb gets lines; a pipe gets neither colour nor cursor tricks.
func TestColourIsForTerminals(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.must("apply", "--config", incidentConfig())
	run := func(env []string, args ...string) string {
		term := h.onTerminal(100, 40, env, append(args, "--config", incidentConfig(), "--run-dir", t.TempDir())...)
		term.ends(exitDone)
		eventually(t, "the output", func() bool { return strings.Contains(term.text(), "cross-cabinet") })
		term.mu.Lock()
		defer term.mu.Unlock()
		return term.raw.String()
	}
	for _, command := range [][]string{{"status"}, {"plan", "--full"}, {"explain", "hadoop14"}} {
		if out := run(nil, command...); command[0] != "plan" && !strings.Contains(out, "\x1b[") {
			t.Errorf("%q has no colour on a terminal: %q", command, out)
		}
		for _, env := range []string{"NO_COLOR=1", "TERM=dumb"} {
			if out := run([]string{env}, command...); strings.Contains(out, "\x1b") {
				t.Errorf("%q with %s: %q", command, env, out)
			}
		}
		if out := h.must(append(command, "--config", incidentConfig(), "--run-dir", t.TempDir())...); strings.Contains(out, "\x1b") {
			t.Errorf("%q in a pipe: %q", command, out)
		}
	}
	dumb := h.onTerminal(100, 40, []string{"TERM=dumb"}, "status", "--watch", "--interval", "100ms", "--config", incidentConfig(), "--run-dir", t.TempDir())
	dumb.shows("cross-cabinet sending 0bit")
	dumb.press("\x03")
	dumb.ends(exitDone)
	dumb.mu.Lock()
	defer dumb.mu.Unlock()
	if strings.Contains(dumb.raw.String(), "\x1b") {
		t.Errorf("a dumb terminal got %q", dumb.raw.String())
	}
}
