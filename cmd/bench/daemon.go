package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"bulkshaper/cmd/bench/shapes"
	"bulkshaper/inventory"
	"bulkshaper/shaper/tc"
)

// daemon is a running bulkshaper on a bed of its own, with the inventory that it follows.
type daemon struct {
	bed     *bed
	site    site
	servers []*inventory.Server
	cmd     *exec.Cmd
	client  *http.Client
	ended   chan struct{}
}

// startLimit is how long a daemon may take until the interface is shaped.
const startLimit = time.Minute

// startDaemon runs the program on count servers of shape (a) and waits until the interface is shaped. Its intervals are those that
// make r.idle seconds hold the work of a minute.
func (r *runner) startDaemon(ctx context.Context, count int) (_ *daemon, err error) {
	d := &daemon{servers: shapes.All()[0].Servers(count), ended: make(chan struct{})}
	if d.bed, err = newBed(ctx, false); err != nil {
		return nil, err
	}
	r.started++
	idle := time.Duration(r.idle) * time.Second
	if d.site, err = r.site(fmt.Sprintf("daemon%d-%d", count, r.started), d.servers, times{resync: idle / 2, rescan: idle}); err != nil {
		d.bed.close()
		return nil, err
	}
	socket := filepath.Join(d.site.runDir, "bulkshaper.sock")
	d.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	log, err := os.Create(d.site.folder + ".log") // in the watched folder each line would be an event
	if err != nil {
		d.bed.close()
		return nil, fmt.Errorf("make log: %w", err)
	}
	defer log.Close()
	d.cmd = exec.CommandContext(ctx, r.program, "run", "--config", d.site.config)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	d.cmd.Cancel = func() error { return d.cmd.Process.Signal(syscall.SIGTERM) }
	d.cmd.WaitDelay = 5 * time.Second
	if err := enter(d.bed.near, d.cmd.Start); err != nil {
		d.bed.close()
		return nil, fmt.Errorf("start %s: %w", r.program, err)
	}
	go func() {
		_ = d.cmd.Wait() // stop ends it by a signal
		close(d.ended)
	}()
	if err := d.await(ctx, startLimit, func(s status) bool { return s.InSync }); err != nil {
		d.stop()
		text, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("%w: its log: %s", err, strings.TrimSpace(string(text)))
	}
	return d, nil
}

func (d *daemon) stop() {
	_ = d.cmd.Process.Signal(syscall.SIGTERM) // one that has ended needs no telling
	<-d.ended
	d.bed.close()
}

// status is what is used of the daemon's answer.
type status struct {
	InSync     bool `json:"in_sync"`
	LastReload struct {
		Time   time.Time `json:"time"`
		Result string    `json:"result"`
	} `json:"last_reload"`
}

// get asks the daemon.
func (d *daemon) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://daemon"+path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := d.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("get %s: %s", path, answer.Status)
	}
	return body, err
}

const pollEvery = 20 * time.Millisecond

// await waits until the daemon's status is as wanted.
func (d *daemon) await(ctx context.Context, limit time.Duration, wanted func(status) bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		var s status
		body, err := d.get(ctx, "/api/v1/status")
		if err == nil {
			err = json.Unmarshal(body, &s)
		}
		if err == nil && wanted(s) {
			return nil
		}
		select {
		case <-d.ended:
			return errors.New("the daemon ended")
		case <-ctx.Done():
			return fmt.Errorf("the daemon did not get there within %s (%+v, %w)", limit, s, err)
		case <-time.After(pollEvery):
		}
	}
}

// processorTime is what the daemon has used, in seconds: utime and stime of proc(5), in ticks of 10 ms.
func (d *daemon) processorTime() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	sum := 0.0
	for _, i := range []int{11, 12} {
		ticks, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return 0, fmt.Errorf("read processor time: %w", err)
		}
		sum += ticks / 100
	}
	return sum, nil
}

// memory is a line of /proc/PID/status (VmRSS, VmHWM) in MiB.
func (d *daemon) memory(key string) (float64, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), key+":"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("read memory: no %s", key)
}

// settle waits until the daemon has nothing to do: it used no processor time for a while.
func (d *daemon) settle(ctx context.Context) error {
	const still = 5 // looks
	last, same := -1.0, 0
	for same < still {
		now, err := d.processorTime()
		if err != nil {
			return err
		}
		if same++; now != last {
			last, same = now, 0
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollEvery):
		}
	}
	return nil
}

// edit moves a server into another cabinet and back, by a rename, and times it from there to the kernel's notification of a changed filter.
func (d *daemon) edit(ctx context.Context, turn int) (float64, error) {
	i := 1 + (turn*7919+len(d.servers)/2)%(len(d.servers)-1)
	moved := *d.servers[i]
	moved.Cabinet = d.servers[0].Cabinet
	if moved.Cabinet == d.servers[i].Cabinet {
		moved.Cabinet = "elsewhere"
	}
	d.servers[i] = &moved
	path := shapes.File(d.site.folder, moved.Name)
	// As editors and rsync do it, beside the file.
	beside := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := write(beside, shapes.Text(&moved)); err != nil {
		return 0, err
	}
	if err := d.settle(ctx); err != nil {
		return 0, err
	}
	listener, err := listen(d.bed)
	if err != nil {
		return 0, err
	}
	defer unix.Close(listener)
	start := time.Now()
	if err := os.Rename(beside, path); err != nil {
		return 0, fmt.Errorf("edit: %w", err)
	}
	err = awaitFilter(listener, d.bed.index)
	return milliseconds(time.Since(start)), err
}

// listen opens a socket that hears of changes to the traffic control in b.
func listen(b *bed) (fd int, err error) {
	err = enter(b.near, func() error {
		fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: unix.RTMGRP_TC})
	})
	if err != nil {
		return fd, fmt.Errorf("listen to the kernel: %w", err)
	}
	limit := unix.NsecToTimeval(int64(10 * time.Second))
	return fd, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit)
}

// awaitFilter waits for a filter that was made or changed.
func awaitFilter(fd, index int) error {
	return awaitChange(fd, index, func(what uint16, _ tc.Handle) bool { return what == unix.RTM_NEWTFILTER })
}

// awaitChange waits for a notification about an object of the interface: its type, and the object's handle.
func awaitChange(fd, index int, wanted func(what uint16, handle tc.Handle) bool) error {
	buffer := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buffer, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for the kernel to tell of a change: %w", err)
		}
		messages, err := syscall.ParseNetlinkMessage(buffer[:n])
		if err != nil {
			return fmt.Errorf("read notification: %w", err)
		}
		for _, m := range messages {
			// struct tcmsg: family and padding, then the interface's index and the handle.
			if len(m.Data) >= 12 && int(binary.NativeEndian.Uint32(m.Data[4:])) == index &&
				wanted(m.Header.Type, tc.Handle(binary.NativeEndian.Uint32(m.Data[8:]))) {
				return nil
			}
		}
	}
}
