package scenario

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// fileCommands make files that nobody expects, and places for them.
func fileCommands() map[string]func(*node, *testscript.TestScript, []string) error {
	return map[string]func(*node, *testscript.TestScript, []string) error{
		"odd": (*node).cmdOdd, "size": (*node).cmdSize, "fill": (*node).cmdFill, "litter": (*node).cmdLitter, "grow": (*node).cmdGrow, "mounts": (*node).cmdMounts,
		"exhaust": (*node).cmdExhaust,
	}
}

// cmdOdd makes what is no regular file.
func (n *node) cmdOdd(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return errUsage
	}
	path := ts.MkAbs(args[1])
	n.acted = time.Now()
	switch args[0] {
	case "fifo":
		return syscall.Mkfifo(path, 0o644)
	case "socket":
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			return err
		}
		ts.Defer(func() { l.Close() })
		return nil
	}
	return errUsage
}

// cmdSize cuts a file, or makes it so large without taking room.
func (n *node) cmdSize(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return errUsage
	}
	size, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	path := ts.MkAbs(args[0])
	n.acted = time.Now()
	if _, err := os.Stat(path); err == nil {
		return os.Truncate(path, size)
	}
	// A new one is there at once, with its size.
	f, err := os.CreateTemp(filepath.Dir(n.dir), "size")
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Chmod(0o644), f.Close(), os.Rename(f.Name(), path))
}

// cmdFill writes the files of so many servers, with the addresses from 10.128.0.0 on.
func (n *node) cmdFill(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return errUsage
	}
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	folder := ts.MkAbs(args[0])
	for i := range count {
		text := fmt.Sprintf(`{"name": "filler%d", "ip_address": "10.%d.%d.%d", "cabinet": "f%d"}`, i, 128+i>>16, i>>8&255, i&255, i/40)
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("filler%d.json", i)), []byte(text), 0o644); err != nil {
			return err
		}
	}
	n.acted = time.Now()
	return nil
}

// cmdLitter makes and removes files that nobody reads, each an event or three.
func (n *node) cmdLitter(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return errUsage
	}
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	for i := range count {
		path := filepath.Join(ts.MkAbs(args[0]), fmt.Sprintf("litter%d~", i%7))
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// cmdGrow has a file grow from now on, every few milliseconds, until the script ends.
func (n *node) cmdGrow(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errUsage
	}
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer f.Close()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			if _, err := f.WriteString("a line\n"); err != nil {
				n.t.Error(err)
				return
			}
			select {
			case <-quit:
				return
			case <-tick.C:
			}
		}
	}()
	ts.Defer(func() { close(quit); <-done })
	return nil
}

// cmdMounts makes a mount namespace, whose path is $MOUNTS from then on.
func (n *node) cmdMounts(ts *testscript.TestScript, args []string) error {
	keeper := n.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", "echo made && exec cat")
	hold, err := keeper.StdinPipe()
	if err != nil {
		return err
	}
	made, err := keeper.StdoutPipe()
	if err != nil {
		return err
	}
	n.Do(func() { err = keeper.Start() })
	if err != nil {
		return err
	}
	ts.Defer(func() {
		_ = hold.Close() // ends it
		_ = keeper.Wait()
	})
	if _, err := made.Read(make([]byte, 16)); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	ts.Setenv("MOUNTS", fmt.Sprintf("/proc/%d/ns/mnt", keeper.Process.Pid))
	return noArguments(args)
}

// cmdExhaust takes all inotify instances that a user may have, until the script ends.
func (n *node) cmdExhaust(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errUsage
	}
	uid, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	type result struct {
		taken []int
		err   error
	}
	out := make(chan result)
	go func() { // the instances are counted for the user of this thread, which ends with the goroutine
		runtime.LockOSThread()
		var r result
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
			r.err = fmt.Errorf("become user %d: %w", uid, errno)
		}
		for r.err == nil {
			fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
			if err != nil {
				if !errors.Is(err, unix.EMFILE) {
					r.err = err
				}
				break
			}
			r.taken = append(r.taken, fd)
		}
		out <- r
	}()
	r := <-out
	ts.Defer(func() {
		for _, fd := range r.taken {
			unix.Close(fd)
		}
	})
	if r.err == nil && len(r.taken) == 0 {
		return errors.New("no instance could be made: the process has no descriptors left")
	}
	return r.err
}

// serverCommands bother those who answer.
func serverCommands() map[string]func(*node, *testscript.TestScript, []string) error {
	return map[string]func(*node, *testscript.TestScript, []string) error{"port": (*node).cmdPort, "stuck": (*node).cmdStuck, "scrapes": (*node).cmdScrapes,
		"reaches": (*node).cmdReaches}
}

// cmdReaches sends a packet after the other to an address until one is counted in the class.
func (n *node) cmdReaches(_ *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return errUsage
	}
	to, err := netip.ParseAddr(args[0])
	if err != nil {
		return err
	}
	return n.await("a packet to "+args[0]+" in class "+args[1], func() (bool, string) {
		before := n.counted(args[1])
		n.Send(n.t, to, 1)
		end := time.Now().Add(20 * time.Millisecond) // it is counted at once, or elsewhere
		for n.counted(args[1]) == before {
			if time.Now().After(end) {
				return false, "they go elsewhere"
			}
		}
		return true, ""
	})
}

const metricsPort = "127.0.0.1:9825"

// cmdPort takes the port of the metrics, or gives it back.
func (n *node) cmdPort(ts *testscript.TestScript, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "take":
		var err error
		n.Do(func() { n.port, err = net.Listen("tcp", metricsPort) })
		if err == nil {
			ts.Defer(func() { n.port.Close() })
		}
		return err
	case len(args) == 1 && args[0] == "free" && n.port != nil:
		return n.port.Close()
	}
	return errUsage
}

// dialTCP connects to the port of the metrics.
func (n *node) dialTCP() (conn net.Conn, err error) {
	n.Do(func() { conn, err = net.DialTimeout("tcp", metricsPort, patience) })
	return conn, err
}

// cmdStuck opens connections that ask for metrics again and again and read nothing, and some that never end their question.
func (n *node) cmdStuck(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errUsage
	}
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	for i := range count {
		var conn net.Conn
		err := n.await("the port", func() (bool, string) { conn, err = n.dialTCP(); return err == nil, fmt.Sprint(err) })
		if err != nil {
			return err
		}
		ts.Defer(func() { conn.Close() })
		text := strings.Repeat("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 100)
		if i%4 == 3 {
			text = "GET /metrics HTTP/1.1\r\nHost: x\r\n"
		}
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := conn.Write([]byte(text)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
	return nil
}

// cmdScrapes asks for the metrics so many times at once. Each gets a whole answer, or, where the server says that it has enough to do,
// a refusal. How many are answered is a matter of the machine; as many as have a turn at once are, at least.
func (n *node) cmdScrapes(ts *testscript.TestScript, args []string) error {
	if len(args) != 3 || args[1] != "within" {
		return errUsage
	}
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	limit, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	began := time.Now()
	type answer struct {
		code int
		err  error
	}
	answers := make(chan answer, count)
	for range count {
		go func() {
			code, body, err := n.askBy(context.Background(), n.dialTCP, "/metrics")
			for again := 0; again < 20 && err != nil; again++ { // on a busy machine a connection that was silent for seconds made room
				code, body, err = n.askBy(context.Background(), n.dialTCP, "/metrics")
			}
			if err == nil && code == 200 && !strings.Contains(body, "bulkshaper_in_sync") {
				err = errors.New("the answer is not whole")
			}
			answers <- answer{code, err}
		}()
	}
	codes := map[int]int{}
	var failed error
	for range count {
		a := <-answers
		codes[a.code]++
		if a.err != nil {
			failed = a.err
		}
	}
	took := time.Since(began)
	ts.Logf("%d answers in %s: %v", count, took.Round(time.Millisecond), codes)
	switch {
	case failed != nil:
		return fmt.Errorf("of %d scrapes %v: %w", count, codes, failed)
	case codes[200]+codes[503] != count || codes[200] < min(count, 4):
		return fmt.Errorf("of %d scrapes %v", count, codes)
	case took > limit:
		return fmt.Errorf("%d scrapes took %s", count, took)
	}
	return nil
}
