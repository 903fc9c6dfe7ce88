package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bulkshaper/cmd/bulkshaper/ask"
	"bulkshaper/shaper/confirm"
)

// confirmHost is a node with a copy of the incident and a run folder.
type confirmHost struct {
	*host
	dir string
}

func newConfirmHost(t *testing.T) *confirmHost {
	return &confirmHost{newHost(t), copyTree(t, incident)}
}

func (h *confirmHost) args(args ...string) []string {
	return append(args, "--config", filepath.Join(h.dir, "config.yaml"), "--run-dir", h.runDir())
}

func (h *confirmHost) runDir() string       { return filepath.Join(h.dir, "run") }
func (h *confirmHost) place() confirm.Place { return confirm.Place{Dir: h.runDir(), Interface: "eth1"} }

// standing is what tc shows, without counters and without what says nothing of the shaping: handles of filters.
func (h *confirmHost) standing() string {
	h.t.Helper()
	return h.TC("qdisc", "show", "dev", "eth1") + h.TC("class", "show", "dev", "eth1") + fmt.Sprint(shownFilters(h.TC("filter", "show", "dev", "eth1")))
}

// change edits the files so that an apply changes a rate, moves a server, adds a class and takes one out.
func (h *confirmHost) change() {
	h.t.Helper()
	path := filepath.Join(h.dir, "config.yaml")
	text := read(h.t, path)
	text = strings.Replace(text, "{id: 20,  rate: 204800kbit, burst: 1585b, cburst: 1585b}", "{id: 21,  rate: 100mbit}\n  idle: {id: 40, rate: 1mbit}", 1)
	edit(h.t, path, "ack_class: idle\n"+strings.Replace(text, "819200kbit, burst: 1533b, cburst: 1533b", "700mbit", 1))
	server := filepath.Join(h.dir, "nyc1/jsons/hadoop14.json")
	edit(h.t, server, strings.Replace(read(h.t, server), `"b12"`, `"b13"`, 1))
}

// guards are the processes of this program that wait for a confirmation on this node.
func (h *confirmHost) guards() (pids []int) {
	h.t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, e := range entries {
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && bytes.Contains(line, []byte(guardArgument)) && bytes.Contains(line, []byte(h.runDir())) {
			pid, err := strconv.Atoi(e.Name())
			if err != nil {
				h.t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

func (h *confirmHost) noGuard() {
	h.t.Helper()
	eventually(h.t, "the guard ends", func() bool { return len(h.guards()) == 0 })
}

// TestConfirmComesBack: from each kind of before, in both layouts, nobody confirms and what was comes back, exactly and by itself.
func TestConfirmComesBack(t *testing.T) {
	t.Parallel()
	for _, layout := range []string{"list", "hash"} {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()
			h := newConfirmHost(t)
			bare := h.standing()
			said := h.must(h.args("apply", "--layout", layout, "--confirm", "1s")...)
			if !strings.Contains(said, "run `bulkshaper confirm` within 1s") {
				t.Errorf("it said %q", said)
			}
			eventually(t, "no shaping again", func() bool { return h.standing() == bare })
			h.noGuard()

			h.must(h.args("apply", "--layout", layout)...)
			before, filters := h.standing(), h.TC("filter", "show", "dev", "eth1")
			h.change()
			h.must(h.args("apply", "--layout", layout, "--confirm", "4s")...)
			if h.classRate("1:10") != "700Mbit" || h.standing() == before {
				t.Fatal("the new shaping does not stand")
			}
			eventually(t, "the shaping before", func() bool { return h.standing() == before })
			h.noGuard()
			// What tc shows besides is a pref that holds nothing.
			if was, is := strings.Count(filters, "flowid"), strings.Count(h.TC("filter", "show", "dev", "eth1"), "flowid"); is != was {
				t.Errorf("%d filters, and before %d", is, was)
			}
			if r := h.run(h.args("confirm")...); r.code != exitFailed || !strings.Contains(r.stderr, "put back since nobody confirmed") {
				t.Errorf("confirm when it is too late: %+v", r)
			}
			if out := strings.Join(strings.Fields(h.must(h.args("status")...)), " "); !strings.Contains(out, "NOT CONFIRMED: the last apply --confirm: the shaping before was put back since nobody confirmed (") {
				t.Errorf("status after it was put back: %s", out)
			}
			// A layout that changes, and with it every filter, goes back as well.
			other := map[string]string{"list": "hash", "hash": "list"}[layout]
			h.must(h.args("apply", "--layout", other, "--confirm", "60s")...)
			if text := h.must(h.args("confirm", "--back")...); !strings.Contains(text, "put back as was asked for") {
				t.Errorf("confirm --back: %q", text)
			}
			if now := h.standing(); now != before {
				t.Errorf("back in layout %s:\n%s\nbefore:\n%s", layout, now, before)
			}
			h.noGuard()
		})
	}
}

// TestConfirmMakesTheRootAnew: what was comes back also where it takes a new root: another default class, a root that is removed
// meanwhile by us or by another hand.
func TestConfirmMakesTheRootAnew(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(h *confirmHost){
		"default class": func(*confirmHost) {},
		"removed": func(h *confirmHost) {
			h.TC("qdisc", "del", "dev", "eth1", "root")
			if r := h.run(h.args("confirm")...); r.code != exitFailed || !strings.Contains(r.stderr, "nothing of ours stands on eth1 any more") {
				h.t.Errorf("confirm of what is gone: %+v", r)
			}
		},
	} {
		for _, layout := range []string{"list", "hash"} {
			t.Run(name+" "+layout, func(t *testing.T) {
				t.Parallel()
				h := newConfirmHost(t)
				h.must(h.args("apply", "--layout", layout)...)
				before := h.standing()
				h.must(h.args("apply", "--layout", layout, "--default-class", "cross-cabinet", "--confirm", "60s")...)
				if h.standing() == before {
					t.Fatal("the new shaping does not stand")
				}
				meanwhile(h)
				if text := h.must(h.args("confirm", "--back")...); !strings.Contains(text, "put back as was asked for") {
					t.Errorf("confirm --back: %q", text)
				}
				if now := h.standing(); now != before {
					t.Errorf("back:\n%s\nbefore:\n%s", now, before)
				}
				h.noGuard()
			})
		}
	}
}

// TestConfirmKeeps: confirmed in time it stays; until then nothing else may shape.
func TestConfirmKeeps(t *testing.T) {
	t.Parallel()
	h := newConfirmHost(t)
	if r := h.run(h.args("confirm")...); r.code != exitFailed || !strings.Contains(r.stderr, "nothing on eth1 waits for confirmation") {
		t.Errorf("confirm of nothing: %+v", r)
	}
	h.must(h.args("apply")...)
	if said := h.must(h.args("apply", "--confirm", "60s")...); !strings.Contains(said, "nothing has to be confirmed") {
		t.Errorf("apply of no change: %q", said)
	}
	h.noGuard()
	h.change()
	h.must(h.args("apply", "--confirm", "60s")...)
	after := h.standing()
	for _, args := range [][]string{{"apply", "--confirm", "60s"}, {"apply"}, {"clear"}, {"clear", "--beside-daemon"}} {
		if r := h.run(h.args(args...)...); r.code != exitFailed || !strings.Contains(r.stderr, "an apply on eth1 waits for confirmation until ") {
			t.Errorf("%v while one waits: %+v", args, r)
		}
	}
	if n := len(h.guards()); n != 1 {
		t.Errorf("%d guards", n)
	}
	if text := h.must(h.args("confirm")...); !strings.Contains(text, "the new shaping stays") {
		t.Errorf("confirm: %q", text)
	}
	h.noGuard()
	if h.standing() != after {
		t.Error("what was confirmed does not stand")
	}
	if r := h.run(h.args("confirm")...); r.code != exitFailed || !strings.Contains(r.stderr, "was confirmed") {
		t.Errorf("confirm again: %+v", r)
	}
	left, err := filepath.Glob(filepath.Join(h.runDir(), "*.sock"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
	for text, says := range map[string]string{"60": "write it like 60s", "0s": "not between", "2h": "not between", "": "write it like 60s"} {
		if r := h.run(h.args("apply", "--confirm="+text)...); r.code != exitWrong || !strings.Contains(r.stderr, says) {
			t.Errorf("--confirm %q: %+v", text, r)
		}
	}
}

// TestConfirmRefuses what could not be put back, before anything is changed.
func TestConfirmRefuses(t *testing.T) {
	t.Parallel()
	h := newConfirmHost(t)
	h.TC("qdisc", "add", "dev", "eth1", "root", "handle", "42:", "htb")
	before := h.standing()
	if r := h.run(h.args("apply", "--takeover", "--confirm", "60s")...); r.code != exitFailed || !strings.Contains(r.stderr, "YARN") || !strings.Contains(r.stderr, "without --confirm") {
		t.Errorf("a foreign root: %+v", r)
	}
	if h.standing() != before {
		t.Error("something was changed")
	}
	if r := h.run(h.args("confirm")...); !strings.Contains(r.stderr, "the apply was refused, and nothing was changed, at ") {
		t.Errorf("confirm of what was refused: %+v", r)
	}
	h.noGuard()
	h.TC("qdisc", "del", "dev", "eth1", "root")
	h.must(h.args("apply")...)
	h.TC("class", "del", "dev", "eth1", "classid", "1:100")
	if r := h.run(h.args("apply", "--confirm", "60s")...); r.code != exitFailed || !strings.Contains(r.stderr, "its default class is not there") {
		t.Errorf("half a shaping: %+v", r)
	}
	h.noGuard()
}

// TestConfirmRunFolderFull: an apply whose end could not be kept changes nothing, and says so.
func TestConfirmRunFolderFull(t *testing.T) {
	t.Parallel()
	h := newConfirmHost(t)
	before := h.standing()
	r := h.runWith(func(cmd *exec.Cmd) { // the mount is the command's own, and goes with it
		cmd.Args = append([]string{"unshare", "--mount", "sh", "-c", `mkdir -p "$1" && mount -t tmpfs -o size=4k none "$1" && head -c 4096 /dev/zero >"$1/full"; shift; exec "$@"`, "sh", h.runDir(), cmd.Path}, cmd.Args[1:]...)
		cmd.Path, cmd.Err = exec.LookPath("unshare")
	}, h.args("apply", "--confirm", "60s")...)
	if r.code != exitFailed || !strings.Contains(r.stderr, "nothing was changed, since the run folder cannot be written: ") || strings.Count(r.stderr, "no space left") != 1 || h.standing() != before {
		t.Errorf("%+v", r)
	}
	h.noGuard()
}

// TestConfirmSurvivesKills: whoever dies, when ever, the shaping before comes back.
func TestConfirmSurvivesKills(t *testing.T) {
	t.Parallel()
	t.Run("the apply, at any moment", func(t *testing.T) {
		t.Parallel()
		h := newConfirmHost(t)
		h.must(h.args("apply", "--layout", "hash")...)
		before := h.standing()
		h.change()
		for _, wait := range []time.Duration{0, time.Millisecond, 3 * time.Millisecond, 6 * time.Millisecond, 12 * time.Millisecond, 25 * time.Millisecond} {
			cmd := h.program(h.args("apply", "--layout", "hash", "--confirm", "1s")...)
			var err error
			h.Do(func() { err = cmd.Start() })
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() { _ = cmd.Wait(); close(ended) }()
			eventually(t, "a guard", func() bool {
				select {
				case <-ended:
					return true
				default:
					return len(h.guards()) > 0
				}
			})
			time.Sleep(wait) // so that it is met at another place each time; any place will do
			_ = cmd.Process.Kill()
			<-ended
			eventually(t, "the shaping before", func() bool { return h.standing() == before })
			h.noGuard()
		}
	})
	t.Run("the guard's parent and its session", func(t *testing.T) {
		t.Parallel()
		h := newConfirmHost(t)
		bare := h.standing()
		// A shell that starts the apply and is killed with its whole process group, as a terminal's end does with SIGHUP.
		shell := h.Command("sh", append([]string{"-c", `"$0" "$@" && exec sleep 1000`, h.program().Path}, h.args("apply", "--confirm", "3s")...)...)
		shell.Env = append(append(os.Environ(), asProgram+"=1"), h.env...)
		shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		var err error
		h.Do(func() { err = shell.Start() })
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "it waits", func() bool { _, pending := h.place().Pending(); return pending })
		for _, signal := range []syscall.Signal{syscall.SIGHUP, syscall.SIGKILL} {
			if err := syscall.Kill(-shell.Process.Pid, signal); err != nil && signal == syscall.SIGHUP {
				t.Fatal(err)
			}
		}
		_ = shell.Wait()
		if len(h.guards()) != 1 {
			t.Fatal("the guard went with its session")
		}
		if err := syscall.Kill(h.guards()[0], syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		eventually(t, "no shaping again", func() bool { return h.standing() == bare })
		h.noGuard()
		if last, _ := h.place().Last(); !strings.Contains(last.Outcome, "since nobody confirmed") {
			t.Errorf("%+v", last)
		}
	})
	t.Run("the guard is told to end", func(t *testing.T) {
		t.Parallel()
		h := newConfirmHost(t)
		bare := h.standing()
		h.must(h.args("apply", "--confirm", "60s")...)
		if err := syscall.Kill(h.guards()[0], syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		eventually(t, "no shaping again", func() bool { return h.standing() == bare })
		h.noGuard()
	})
	t.Run("the guard itself", func(t *testing.T) {
		t.Parallel()
		h := newConfirmHost(t)
		h.must(h.args("apply", "--confirm", "60s")...)
		if err := syscall.Kill(h.guards()[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		h.noGuard()
		if r := h.run(h.args("confirm")...); r.code != exitFailed || !strings.Contains(r.stderr, "was killed, so the new one stays") {
			t.Errorf("confirm without a guard: %+v", r)
		}
		if out := strings.Join(strings.Fields(h.must(h.args("status")...)), " "); !strings.Contains(out, "NOT CONFIRMED: the process that would have put back the shaping before") {
			t.Errorf("status without a guard: %s", out)
		}
		h.must(h.args("apply")...) // nobody waits for ever
		if out := h.must(h.args("status")...); strings.Contains(out, "NOT CONFIRMED") {
			t.Errorf("status after a later apply: %s", out)
		}
	})
}

// TestConfirmTerminalGone: the apply is typed at a terminal, and the terminal goes.
func TestConfirmTerminalGone(t *testing.T) {
	t.Parallel()
	h := newConfirmHost(t)
	bare := h.standing()
	master, terminal := openTerminal(t)
	cmd := h.Command("sh", append([]string{"-c", `"$0" "$@"; exec sleep 1000`, h.program().Path}, h.args("apply", "--confirm", "2s")...)...)
	cmd.Env = append(append(os.Environ(), asProgram+"=1"), h.env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	// Begun with nohup, the tests and all that they start would ignore the signal; what is handled here is not ignored there.
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	var err error
	h.Do(func() { err = cmd.Start() })
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it waits", func() bool { _, pending := h.place().Pending(); return pending })
	terminal.Close()
	master.Close() // the kernel sends SIGHUP to the session
	_ = cmd.Wait()
	if len(h.guards()) != 1 || h.standing() == bare {
		t.Error("the guard went with its terminal")
	}
	eventually(t, "no shaping again", func() bool { return h.standing() == bare })
	h.noGuard()
	if last, ok := h.place().Last(); !ok || !strings.Contains(last.Outcome, "since nobody confirmed") {
		t.Errorf("%+v", last)
	}
}

// openTerminal is a pseudo-terminal: the side of the emulator and that of the program.
func openTerminal(t *testing.T) (master, terminal *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close(); terminal.Close() })
	return master, terminal
}

// TestConfirmAndDaemon: beside a daemon there is nothing to confirm; one that starts in between waits for the outcome.
//
// PROMISES.md: A daemon is started while an `apply --confirm` waits
func TestConfirmAndDaemon(t *testing.T) {
	t.Parallel()
	d := startIncident(t)
	if r := d.run(d.args("apply", "--confirm", "60s")...); r.code != exitFailed || !strings.Contains(r.stderr, "stop it first") {
		t.Errorf("beside a daemon: %+v", r)
	}
	for _, command := range []string{"apply", "clear"} {
		if r := d.run(d.args(command)...); r.code != exitFailed || !strings.Contains(r.stderr, "stop it first") || len(d.lines("repaired")) > 0 {
			t.Errorf("%s beside a daemon: %+v", command, r)
		}
	}
	if r := d.run(d.args("clear", "--beside-daemon")...); r.code != exitDone || !strings.Contains(r.stderr, "undoes at once") {
		t.Errorf("it is wanted beside a daemon: %+v", r)
	}
	eventually(t, "the daemon shapes again", func() bool { return len(d.lines("repaired")) > 0 })
	if code := d.stop(); code != exitDone {
		t.Fatalf("exit %d", code)
	}
	edit(t, d.config(), strings.Replace(read(t, d.config()), "819200kbit, burst: 1533b, cburst: 1533b", "700mbit", 1))
	d.must(d.args("apply", "--confirm", "60s")...)
	edit(t, d.config(), strings.Replace(read(t, d.config()), "700mbit", "600mbit", 1))
	d.listen()
	d.begin()
	eventually(t, "it says that it waits", func() bool { return len(d.lines("waits for confirmation")) == 1 })
	if s := d.status(); s.InSync || !strings.Contains(s.Reason, "waits for confirmation") || d.classRate("1:10") != "700Mbit" {
		t.Errorf("in sync %v, %s, class at %s", s.InSync, s.Reason, d.classRate("1:10"))
	} else if !s.InterfaceUp || s.Node != "hadoop27" || len(s.Classes) == 0 || s.Unconfirmed == "" {
		t.Errorf("it looks while it waits: %+v", s)
	}
	socket, away := filepath.Join(d.dir, ask.SocketName), filepath.Join(d.dir, "away")
	for _, what := range []string{"as told by the daemon", "as told by this command"} {
		out := strings.Join(strings.Fields(d.must(d.args("status")...)), " ")
		// Without the daemon's answer, what waits is to be seen all the same.
		if err := os.Rename(socket, away); err != nil {
			t.Fatal(err)
		}
		socket, away = away, socket
		if !strings.Contains(out, "an apply on eth1 waits for confirmation until ") || !strings.Contains(out, "run `bulkshaper confirm` to keep it") || strings.Contains(out, "DOWN") || strings.Contains(out, "unknown") || !strings.Contains(out, what) {
			t.Errorf("%s:\n%s", what, out)
		}
	}
	d.must(d.args("confirm")...)
	d.waitFor("READY=1")
	if last, _ := (confirm.Place{Dir: d.dir, Interface: "eth1"}).Last(); !strings.Contains(last.Outcome, "confirmed") {
		t.Errorf("after the daemon shaped, it was not confirmed: %+v", last)
	}
	if r := d.classRate("1:10"); r != "600Mbit" {
		t.Errorf("class at %s", r)
	}
}
