package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"bulkshaper/cmd/bulkshaper/screen"
	"bulkshaper/shaper"
	"bulkshaper/shaper/kernel"
	"bulkshaper/shaper/kernel/lab"
)

// demoNode is a bulk node with its daemon.
type demoNode struct {
	host    *lab.Host
	daemon  *lab.Process
	kernel  *kernel.Kernel // our own look at what stands there
	status  asker
	logFile string
}

// demoDaemon is what a daemon did for the edit.
type demoDaemon struct {
	Node       string `json:"node"`
	Operations int    `json:"operations"`
}

const (
	readyLimit = 20 * time.Second
	stopLimit  = 5 * time.Second
	pollEvery  = 5 * time.Millisecond
)

// startDaemons runs one a bulk node and waits until all have shaped their node.
func (d *demo) startDaemons(ctx context.Context) error {
	start := time.Now()
	for _, s := range demoServers() {
		if s.role != bulkRole {
			continue
		}
		if err := d.writeDemoConfig(s.name); err != nil {
			return err
		}
		if err := d.startNode(s.name); err != nil {
			return err
		}
	}
	if err := d.inSync(ctx); err != nil {
		return err
	}
	d.progress("%d daemons have shaped their nodes, %s after the first was started", len(d.nodes), time.Since(start).Round(time.Millisecond))
	return nil
}

// startNode runs a daemon on a server, with its log in its run folder, which is not watched for edits.
func startNode(host *lab.Host, cfg, runDir string) (_ *demoNode, err error) {
	n := &demoNode{host: host, status: daemonAsker(runDir), logFile: filepath.Join(runDir, "log")}
	log, err := os.Create(n.logFile)
	if err != nil {
		return nil, fmt.Errorf("make log: %w", err)
	}
	defer log.Close()
	if n.kernel, err = kernel.Open(kernel.Options{Namespace: n.host.FD(), Interface: lab.Interface, Log: zap.NewNop()}); err != nil {
		return nil, err
	}
	if n.daemon, err = n.host.Start("/proc/self/exe", []string{"run", "--config", cfg}, []string{}, log); err != nil {
		return nil, errors.Join(err, n.kernel.Close())
	}
	return n, nil
}

// wait asks the daemon until its status is as it should be.
func (n *demoNode) wait(ctx context.Context, limit time.Duration, good func(shaper.Status) bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		s, err := n.status(ctx)
		if err == nil && good(s) {
			return nil
		}
		select {
		case <-n.daemon.Done():
			return fmt.Errorf("it has ended: %s", n.daemon.Ended())
		case <-ctx.Done():
			if err == nil {
				err = errors.New(screen.OrDash(s.Reason))
			}
			return fmt.Errorf("not within %s: %w", limit, err)
		case <-tick.C:
		}
	}
}

// stopDaemons ends the daemons and sees that the shaping stays.
func (d *demo) stopDaemons(ctx context.Context) error {
	var wrongs shapingError
	for _, name := range d.nodeNames() {
		n := d.nodes[name]
		before, err := n.kernel.Observe(ctx)
		if err != nil {
			return err
		}
		if err := n.daemon.Stop(stopLimit); err != nil {
			wrongs = append(wrongs, fmt.Sprintf("daemon on %s: %s%s", n.host.Name, err, n.logTail()))
		}
		after, err := n.kernel.Observe(ctx)
		if err != nil {
			return err
		}
		if len(after.Classes) != len(before.Classes) || len(after.Filters) != len(before.Filters) {
			wrongs = append(wrongs, fmt.Sprintf("the daemon on %s took shaping with it: %d classes and %d filters, before %d and %d",
				n.host.Name, len(after.Classes), len(after.Filters), len(before.Classes), len(before.Filters)))
		}
	}
	if len(wrongs) > 0 {
		return wrongs
	}
	d.progress("all daemons stopped; their shaping stayed")
	return nil
}

func (n *demoNode) close() error {
	n.daemon.Kill()
	return n.kernel.Close()
}

// logTail is the end of what the daemon wrote, for an error.
func (n *demoNode) logTail() string { return fileTail(n.logFile) }

// fileTail is the end of a log, to go behind an error.
func fileTail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil || len(text) == 0 {
		return ""
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	lines = lines[max(0, len(lines)-5):]
	return "; it wrote last\n  " + strings.TrimSpace(string(bytes.Join(lines, []byte("\n  "))))
}
