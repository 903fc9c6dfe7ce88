package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bulkshaper/cmd/bulkshaper/ask"
	"bulkshaper/cmd/bulkshaper/scratch"
	"bulkshaper/cmd/bulkshaper/screen"
	"bulkshaper/shaper"
	"bulkshaper/shaper/kernel/lab"
	"bulkshaper/shaper/kernel/lab/traffic"
)

// podStory copies between pods over each kind of pod network, with the daemon on every bulk node, and compares three things: what
// leaves the first node as a packet socket sees it, the class that explain names for that address, and the class that counted it.
type podStory struct {
	settle, window time.Duration
	json           bool
	stdout, stderr io.Writer
	report         podReport
}

// podReport is the result as JSON.
type podReport struct {
	Machine storyMachine `json:"machine"`
	Verdict string       `json:"verdict"`
	Runs    []podRun     `json:"networks"`
}

// podNetwork is a kind of pod network, as people know it.
type podNetwork struct {
	name string
	kind lab.PodNetwork
	// prefixes says that the inventory lists the pods' prefixes.
	prefixes bool
	// wrong says that it should, for this network, and does not; the story then corrects it.
	wrong bool
	// byHand is packets made by hand instead of a network.
	byHand bool
}

func podNetworks() []podNetwork {
	return []podNetwork{
		{name: "host network", kind: lab.NoPods},
		{name: "VXLAN (Flannel)", kind: lab.VXLAN},
		{name: "routed (host-gw, BGP, VPC)", kind: lab.Routed, prefixes: true},
		{name: "cross-subnet (routed within, VXLAN beyond)", kind: lab.CrossSubnet, prefixes: true},
		{name: "IPIP (packets made by hand)", kind: lab.NoPods, byHand: true},
		{name: "routed, and the inventory without prefixes", kind: lab.Routed, wrong: true},
	}
}

// run tells the story and judges it.
func (s *podStory) run(ctx context.Context) (err error) {
	s.report.Machine = describeMachine()
	for _, network := range podNetworks() {
		s.progress("%s", network.name)
		b := &podBed{story: s, network: network, nodes: map[string]*demoNode{}}
		err := b.run(ctx)
		if down := b.close(); down != nil {
			err = errors.Join(err, fmt.Errorf("take the lab down: %w", down))
		}
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", network.name, err)
		}
	}
	told := s.report.judge()
	if s.json {
		return errors.Join(printJSON(s.stdout, s.report), told)
	}
	_, err = fmt.Fprint(s.stdout, s.report.text())
	return errors.Join(err, told)
}

func (s *podStory) progress(format string, args ...any) {
	fmt.Fprintf(s.stderr, "demo: "+format+"\n", args...) // a closed stderr is no reason to stop
}

// podBed is a cluster with one kind of pod network.
type podBed struct {
	story   *podStory
	network podNetwork
	dir     string
	folder  *scratch.Folder
	log     *os.File
	cluster *lab.Cluster
	bulk    *traffic.Bulk
	nodes   map[string]*demoNode
}

func (b *podBed) run(ctx context.Context) (err error) {
	if b.folder, err = scratch.New(); err != nil {
		return err
	}
	b.dir = b.folder.Path
	if socket := filepath.Join(b.runDir(podSender), ask.SocketName); len(socket) > maxSocketPath {
		return fmt.Errorf("make folder %s: too long a path for a daemon's socket there; set TMPDIR to a folder with a shorter path", b.dir)
	}
	if b.log, err = os.Create(filepath.Join(b.dir, "traffic.log")); err != nil {
		return fmt.Errorf("make log: %w", err)
	}
	if b.cluster, err = lab.Build(podTopology(b.network.kind)); err != nil {
		return err
	}
	if err := b.writeInventory(b.network.prefixes); err != nil {
		return err
	}
	if err := b.startDaemons(ctx); err != nil {
		return err
	}
	if b.network.byHand {
		return b.sendByHand(ctx)
	}
	if b.bulk, err = traffic.StartBulk(b.cluster, trafficArgs(traffic.KindBulk), b.log); err != nil {
		return err
	}
	if err := b.bulk.Set(b.copies()); err != nil {
		return err
	}
	if err := b.measure(ctx, b.network.name); err != nil || !b.network.wrong {
		return err
	}
	return b.correct(ctx)
}

// correct gives the inventory the prefixes that it lacks, and measures again.
func (b *podBed) correct(ctx context.Context) error {
	edited := time.Now()
	if err := b.writeInventory(true); err != nil {
		return err
	}
	for name, n := range b.nodes {
		err := n.wait(ctx, readyLimit, func(s shaper.Status) bool {
			r := s.LastReload
			return s.InSync && r != nil && r.Result == shaper.ReloadSuccess && r.Time.After(edited) && r.Operations > 0
		})
		if err != nil {
			return fmt.Errorf("wait for the daemon on %s to follow the edit: %w%s", name, err, n.logTail())
		}
	}
	b.network.wrong = false
	return b.measure(ctx, "routed, after the prefixes were added")
}

func (b *podBed) startDaemons(ctx context.Context) error {
	for _, s := range podServers() {
		if s.role != bulkRole {
			continue
		}
		if err := os.MkdirAll(b.runDir(s.name), 0o755); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
		if err := b.writeConfig(s.name); err != nil {
			return err
		}
		n, err := startNode(b.cluster.Host(s.name), b.config(s.name), b.runDir(s.name))
		if err != nil {
			return err
		}
		b.nodes[s.name] = n
	}
	for name, n := range b.nodes {
		if err := n.wait(ctx, readyLimit, func(s shaper.Status) bool { return s.InSync }); err != nil {
			return fmt.Errorf("wait for the daemon on %s: %w%s", name, err, n.logTail())
		}
	}
	return nil
}

// close ends what still runs and removes everything.
func (b *podBed) close() error {
	var errs []error
	if b.bulk != nil {
		errs = append(errs, b.bulk.Close())
	}
	for _, n := range b.nodes {
		errs = append(errs, n.close())
	}
	if b.cluster != nil {
		errs = append(errs, b.cluster.Close())
	}
	if b.log != nil {
		errs = append(errs, b.log.Close())
	}
	if b.folder != nil {
		errs = append(errs, b.folder.Remove())
	}
	return errors.Join(errs...)
}

// judge puts together what was wrong.
func (r *podReport) judge() error {
	r.Verdict = verdictPassed
	var wrongs, slow shapingError
	busy := demoLoad{Busy: 1}
	for _, run := range r.Runs {
		for _, w := range run.Wrong {
			wrongs = append(wrongs, run.Network+": "+w)
		}
		for _, w := range run.Slow {
			slow = append(slow, run.Network+": "+w)
			if busy.Busy > run.Load.Busy {
				busy = run.Load // the one that has the least of an excuse
			}
		}
	}
	switch {
	case len(wrongs) == 0 && len(slow) == 0:
		return nil
	case len(wrongs) == 0 && busy.tooMuch():
		r.Verdict = verdictNotMeasurable
		return &busyError{busy, slow}
	}
	r.Verdict = verdictFailed
	return append(wrongs, slow...)
}

// text is the report for people.
func (r *podReport) text() string {
	var out strings.Builder
	for _, run := range r.Runs {
		t := newTable("TO", "ON THE WIRE", "OF ALL SENT", "EXPLAIN, WIRE", "EXPLAIN, POD", "RECEIVED", "OF ITS RATE")
		for _, d := range run.Destinations {
			received, share := "-", "-"
			if d.Limit > 0 {
				received, share = humanRate(d.Received), percentOf(d.Received/d.Limit)
			}
			t.row(d.To, d.Wire, percentOf(d.Share), d.Explained, screen.OrDash(d.ExplainedPod), received, share)
		}
		fmt.Fprintf(&out, "%s\n%s", run.Network, indent(t.String()))
		var counted []string
		for _, c := range run.Classes {
			counted = append(counted, fmt.Sprintf("%s %s (expected %s)", c.Name, percentOf(c.Counted), percentOf(c.Expected)))
		}
		fmt.Fprintf(&out, "  counted by class: %s\n", strings.Join(counted, ", "))
		for _, h := range run.Hints {
			fmt.Fprintf(&out, "  status says: %s\n", h)
		}
		for _, w := range slices.Concat(run.Wrong, run.Slow) {
			fmt.Fprintf(&out, "  NOT AS IT SHOULD BE: %s\n", w)
		}
		out.WriteString("\n")
	}
	out.WriteString(`ON THE WIRE is the destination in the outer IP header, as a packet socket on the node sees it. EXPLAIN is the class that explain names for
that address, and for the pod's own. What a class is expected to count are the bytes on the wire to the addresses that explain puts there.
OF ITS RATE is payload, of what the class's rate leaves for payload in packets of this network.
`)
	return out.String()
}
