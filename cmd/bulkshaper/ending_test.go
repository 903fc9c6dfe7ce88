package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"bulkshaper/shaper/config"
)

// TestEndsInTime has the daemon end though a part of it does not, and say which.
//
// PROMISES.md: A part hangs when the daemon is told to stop
func TestEndsInTime(t *testing.T) {
	failed := errors.New("failed")
	for _, c := range []struct {
		name    string
		parts   map[string]time.Duration // how long after the order to stop each ends
		closing time.Duration
		failing error
		waiting []string // what is told to be waited for
	}{
		{name: "all at once", parts: map[string]time.Duration{"loop": 0, "HTTP": 0}},
		{name: "an answer under way", parts: map[string]time.Duration{"loop": 0, "HTTP": 5 * time.Second}},
		{name: "an error", parts: map[string]time.Duration{"loop": time.Second}, failing: failed},
		{name: "just in time", parts: map[string]time.Duration{"loop": endPatience - time.Millisecond}},
		{name: "a part too late", parts: map[string]time.Duration{"loop": 0, "history": endPatience + time.Second}, waiting: []string{"history"}},
		{name: "two for ever", parts: map[string]time.Duration{"loop": time.Hour, "history": time.Hour, "HTTP": time.Second}, waiting: []string{"history", "loop"}},
		{name: "what is closed after them", parts: map[string]time.Duration{"loop": 0}, closing: time.Hour, waiting: []string{"kernel"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, logged := observer.New(zapcore.DebugLevel)
				var end ending
				end.logTo(zap.New(core))
				ctx, stop := context.WithCancel(t.Context())
				began := time.Now()
				time.AfterFunc(time.Minute, stop)
				err := end.within(ctx, endPatience, func() error {
					defer end.closing("kernel", func() { time.Sleep(c.closing) })
					through := make(chan struct{})
					for name, takes := range c.parts {
						ended := end.part(name)
						go func() {
							<-ctx.Done()
							time.Sleep(takes)
							ended()
							through <- struct{}{}
						}()
					}
					for range c.parts {
						<-through
					}
					return c.failing
				})
				took := time.Since(began) - time.Minute
				if c.waiting == nil {
					if err != c.failing || logged.Len() != 0 {
						t.Errorf("error %v, log %v", err, logged.All())
					}
					return
				}
				var late *lateError
				if !errors.As(err, &late) || took != endPatience {
					t.Fatalf("error %v after %s", err, took)
				}
				slices.Sort(late.parts)
				if !slices.Equal(late.parts, c.waiting) {
					t.Errorf("waiting for %q, not for %q", late.parts, c.waiting)
				}
				lines := logged.All()
				if len(lines) != 2 || lines[0].Level != zapcore.ErrorLevel || !strings.Contains(fmt.Sprint(lines[0].ContextMap()["waiting_for"]), c.waiting[0]) {
					t.Fatalf("log %v", lines)
				}
				if stacks := fmt.Sprint(lines[1].ContextMap()["stacks"]); lines[1].Level != zapcore.DebugLevel || !strings.Contains(stacks, "TestEndsInTime") {
					t.Errorf("stacks are %.200s", stacks)
				}
				time.Sleep(2 * time.Hour) // the rest of this test ends
			})
		})
	}
}

// TestEndsBeforeThereIsALog has it hang where files are read: the error alone says so.
func TestEndsBeforeThereIsALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		var end ending
		err := end.within(ctx, endPatience, func() error { time.Sleep(time.Hour); return nil })
		if err == nil || !strings.Contains(err.Error(), "reading its files") || end.logged() {
			t.Errorf("error %v", err)
		}
		time.Sleep(time.Hour)
	})
}

// TestLogTakesNothing: whoever has to read the log does not. Repairs go on, questions are answered, and the daemon ends when it is told to; what
// was dropped is counted in the log when it is read again.
//
// PROMISES.md: Nobody reads the log
func TestLogTakesNothing(t *testing.T) {
	t.Parallel()
	d := &daemonHost{host: newHost(t), dir: copyTree(t, incident)}
	d.listen()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd := d.program("run", "--config", d.config(), "--run-dir", d.dir, "--listen", "127.0.0.1:0", "--log-format", "json")
	cmd.Stderr = write
	d.Do(func() { err = cmd.Start() })
	if err != nil {
		t.Fatal(err)
	}
	d.daemonProcess = &daemonProcess{t: t, cmd: cmd}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }() // how it ended is asked of its state
	defer func() { _ = cmd.Process.Kill(); <-done }()
	d.waitFor("READY=1")

	// Another opening of the pipe does not wait for room; the daemon's own does.
	filler, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", write.Fd()), os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer filler.Close()
	raw, err := filler.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		for {
			if _, err := unix.Write(int(fd), []byte{' '}); err == unix.EAGAIN {
				return
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		d.TC("qdisc", "del", "dev", "eth1", "root")
		eventually(t, "the tree again", func() bool { return strings.Contains(d.filters(), "flowid") })
		eventually(t, "the status", func() bool { return d.status().InSync })
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-done:
	case <-time.After(endPatience + time.Minute):
		t.Fatal("the daemon does not end")
	}
	if code := cmd.ProcessState.ExitCode(); code != exitDone {
		t.Errorf("it ended with %s", cmd.ProcessState)
	}
}

// TestLogQueue: nobody takes what is written, and writing does not wait; then somebody does, and learns how much was dropped.
func TestLogQueue(t *testing.T) {
	t.Parallel()
	read, write := io.Pipe()
	log, err := newLogger(config.Log{Level: "info", Format: "json"}, write)
	if err != nil {
		t.Fatal(err)
	}
	const written = queuedLines + 10
	for range written {
		log.Info("a line")
	}
	if err := log.Sync(); err == nil {
		t.Error("the log is said to be flushed")
	}
	text := make(chan string)
	go func() {
		all, _ := io.ReadAll(read)
		text <- string(all)
	}()
	log.Info("the last")
	for range 2 { // the first mark may find no room
		err = log.Sync()
	}
	if err != nil {
		t.Error(err)
	}
	write.Close()
	got := <-text
	came, dropped := strings.Count(got, `"a line"`), 0
	for _, m := range regexp.MustCompile(`"message":"lines of the log were dropped: nobody took them","lines":(\d+)}`).FindAllStringSubmatch(got, -1) {
		n, _ := strconv.Atoi(m[1])
		dropped += n
	}
	if last := strings.Count(got, `"the last"`); came+dropped+last != written+1 || came < queuedLines || dropped == 0 {
		t.Errorf("of %d lines %d came, and %d are told of as dropped:\n%.600s", written+1, came+last, dropped, got)
	}
}
