//go:build system

package monitortest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bulkshaper/shaper/kernel/lab"
	"bulkshaper/shaper/tc"
)

const (
	bulkRole = "hadoop_node"
	// linkRate is what percentages in the config are of: small, so that filling a class takes few packets.
	linkRate = "20mbit"
	oldBuild = "v1.0.0"
	newBuild = "v1.1.0"
	patience = 90 * time.Second
)

// server is one of the cluster, as it stands and as the inventory has it.
type server struct{ name, role, cabinet, address string }

// servers are two cabinets and somebody whom the inventory does not know.
func servers() []server {
	return []server{
		{"hadoop01", bulkRole, "b12", "10.1.12.11"},
		{"hadoop02", bulkRole, "b12", "10.1.12.12"},
		{"hadoop03", bulkRole, "b12", "10.1.12.13"},
		{"app01", "app", "b12", "10.1.12.101"},
		{"hadoop04", bulkRole, "b13", "10.1.13.14"},
		{"hadoop05", bulkRole, "b13", "10.1.13.15"},
		{"monitoring01", "monitoring", "b13", "10.1.13.102"},
		{"client01", "", "world", "10.9.9.9"},
	}
}

// watched is a cluster whose bulk nodes run the daemon. Each has files of its own, as on machines.
type watched struct {
	*lab.Cluster
	t        *testing.T
	dir      string
	programs map[string]string // by version
	daemons  map[string]*lab.Process
}

func startCluster(t *testing.T) *watched {
	t.Helper()
	w := &watched{t: t, dir: t.TempDir(), programs: map[string]string{}, daemons: map[string]*lab.Process{}}
	for _, version := range []string{oldBuild, newBuild} {
		w.programs[version] = filepath.Join(w.dir, "bulkshaper-"+version)
		out, err := exec.Command("go", "build", "-ldflags", "-X main.release="+version, "-o", w.programs[version], "../../cmd/bulkshaper").CombinedOutput()
		if err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
	}
	var topology lab.Topology
	prefixes := map[string]string{"b12": "10.1.12.0/24", "b13": "10.1.13.0/24", "world": "10.9.9.0/24"}
	for _, s := range servers() {
		last := len(topology.Cabinets) - 1
		if last < 0 || topology.Cabinets[last].Name != s.cabinet {
			topology.Cabinets = append(topology.Cabinets, lab.Cabinet{Name: s.cabinet, Prefix: netip.MustParsePrefix(prefixes[s.cabinet]), Uplink: lab.Limit{Rate: 200_000_000}})
			last++
		}
		topology.Cabinets[last].Servers = append(topology.Cabinets[last].Servers,
			lab.Server{Name: s.name, Address: netip.MustParseAddr(s.address), Wire: lab.Limit{Rate: tc.BitRate(100_000_000)}})
	}
	var err error
	if w.Cluster, err = lab.Build(topology); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, s := range servers() {
		if s.role == bulkRole {
			w.writeFiles(s)
			w.start(s.name, oldBuild)
		}
	}
	return w
}

// path is a file or folder of a node.
func (w *watched) path(node string, parts ...string) string {
	return filepath.Join(append([]string{w.dir, node}, parts...)...)
}

func (w *watched) write(text string, path string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	scratch := filepath.Join(filepath.Dir(path), ".new~")
	if err := errors.Join(os.WriteFile(scratch, []byte(text), 0o644), os.Rename(scratch, path)); err != nil {
		w.t.Fatal(err)
	}
}

// writeFiles makes config and inventory of a node.
func (w *watched) writeFiles(node server) {
	w.t.Helper()
	mapping, names := map[string][]string{}, []string{}
	for _, s := range servers() {
		if s.role == "" {
			continue
		}
		names = append(names, s.name)
		mapping[s.role] = append(mapping[s.role], s.name)
		w.writeServer(node.name, s, s.cabinet)
	}
	roles, err := json.Marshal(map[string]any{"servers": names, "roles": []string{bulkRole, "app", "monitoring"}, "mapping": mapping})
	if err != nil {
		w.t.Fatal(err)
	}
	w.write(string(roles), w.path(node.name, "roles.json"))
	w.write(fmt.Sprintf(`interface: %s
node: %s
link_rate: %s
inventory: {roles: roles.json, servers: [nyc1/jsons]}
classes:
  acks:          {id: 40,  rate: 5%%}
  same-cabinet:  {id: 10,  rate: 50%%}
  cross-cabinet: {id: 20,  rate: 20%%}
  priority-role: {id: 30,  rate: 15%%}
  rest:          {id: 100, rate: 10%%}
default_class: rest
ack_class: acks
rules:
  - {name: same-cabinet,  match: {cabinet: same},    class: same-cabinet}
  - {name: priority-role, match: {role: monitoring}, class: priority-role}
  - {name: cross-cabinet, match: {role: %s}, class: cross-cabinet}
metrics: {listen: "%s:9825"}
resync: 2s
run_dir: %q
`, lab.Interface, node.name, linkRate, bulkRole, node.address, w.path(node.name, "run")), w.path(node.name, "config.yaml"))
}

func (w *watched) writeServer(node string, s server, cabinet string) {
	w.t.Helper()
	w.write(fmt.Sprintf(`{"name": %q, "ip_address": %q, "cabinet": %q}`, s.name, s.address, cabinet), w.path(node, "nyc1", "jsons", s.name+".json"))
}

// start runs the daemon of a node.
func (w *watched) start(node, version string) {
	w.t.Helper()
	if err := os.MkdirAll(w.path(node, "run"), 0o755); err != nil {
		w.t.Fatal(err)
	}
	log, err := os.OpenFile(w.path(node, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		w.t.Fatal(err)
	}
	defer log.Close()
	if w.daemons[node], err = w.Host(node).Start(w.programs[version], []string{"run", "--config", w.path(node, "config.yaml")}, os.Environ(), log); err != nil {
		w.t.Fatal(err)
	}
}

// run runs a program on a server.
func (w *watched) run(host, program string, args ...string) error {
	c := exec.Command(program, args...)
	return w.Host(host).Do(func() error {
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("%s on %s: %w\n%s", strings.Join(c.Args, " "), host, err, out)
		}
		return nil
	})
}

func (w *watched) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// send sends UDP packets of 1000 bytes, so many a second, until the test ends.
func (w *watched) send(from, to string, perSecond int) {
	w.t.Helper()
	var conn net.Conn
	w.must(w.Host(from).Do(func() (err error) {
		conn, err = net.Dial("udp4", to)
		return err
	}))
	w.background(func(ctx context.Context) {
		defer conn.Close()
		payload := make([]byte, 1000)
		const step = 10 * time.Millisecond
		tick := time.NewTicker(step)
		defer tick.Stop()
		for began, sent := time.Now(), 0; ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			// What a busy machine kept back is not made up for: it would come as a burst.
			due := int(time.Since(began).Seconds() * float64(perSecond))
			for range min(due-sent, 3*perSecond/100+1) {
				_, _ = conn.Write(payload) // nobody need listen there
			}
			sent = due
		}
	})
}

// background runs f until the test ends, or until end is called, and waits for its end.
func (w *watched) background(f func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { f(ctx) })
	end = sync.OnceFunc(func() { cancel(); done.Wait() })
	w.t.Cleanup(end)
	return end
}

// eventually looks at a condition until it holds; an error says how it is instead.
func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("waited %s in vain for %s: %v", patience, what, err)
		}
	}
}
