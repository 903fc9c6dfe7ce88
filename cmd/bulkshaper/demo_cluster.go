package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"bulkshaper/cmd/bulkshaper/ask"
	"bulkshaper/cmd/bulkshaper/scratch"
	"bulkshaper/shaper/kernel/lab"
	"bulkshaper/shaper/tc"
)

// demoServer is a server of the demo, as it stands and as the inventory has it.
type demoServer struct {
	name, role string
	cabinet    string // where it stands
	listed     string // where the inventory says it stands; "" for a server that it does not know
	address    string
}

const bulkRole = "hadoop_node"

// demoServers are two cabinets and somebody beyond the core. hadoop03 has been moved to b12 and its file still says b13.
func demoServers() []demoServer {
	return []demoServer{
		{"hadoop01", bulkRole, "b12", "b12", "10.1.12.11"},
		{"hadoop02", bulkRole, "b12", "b12", "10.1.12.12"},
		{"hadoop03", bulkRole, "b12", "b13", "10.1.12.13"},
		{"app01", "app", "b12", "b12", "10.1.12.101"},
		{"hadoop04", bulkRole, "b13", "b13", "10.1.13.14"},
		{"hadoop05", bulkRole, "b13", "b13", "10.1.13.15"},
		{"hadoop06", bulkRole, "b13", "b13", "10.1.13.16"},
		{"namenode01", "hadoop_namenode", "b13", "b13", "10.1.13.102"},
		{"client01", "", "world", "", "10.9.9.9"},
	}
}

// demoPercent are the classes' rates, in percent of the link. Together they leave room on it, so that no class waits for
// another on the wire.
func demoPercent() map[string]int {
	return map[string]int{"same-cabinet": 50, "cross-cabinet": 20, "priority-role": 15, "default": 10}
}

// wanted is the rate of a class.
func (d *demo) wanted(class string) tc.BitRate {
	return (d.link * tc.BitRate(demoPercent()[class]) / 100).WholeBytes()
}

// build makes the lab and the files.
func (d *demo) build() (err error) {
	start := time.Now()
	if d.cluster, err = lab.Build(d.topology()); err != nil {
		return err
	}
	if d.folder, err = scratch.New(); err != nil {
		return err
	}
	d.dir = d.folder.Path
	if socket := filepath.Join(d.runDir("hadoop01"), ask.SocketName); len(socket) > maxSocketPath {
		return fmt.Errorf("make folder %s: too long a path for a daemon's socket there; set TMPDIR to a folder with a shorter path", d.dir)
	}
	if err := os.MkdirAll(d.serverFolder(), 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	servers := demoServers()
	roles := struct {
		Servers []string            `json:"servers"`
		Roles   []string            `json:"roles"`
		Mapping map[string][]string `json:"mapping"`
	}{Mapping: map[string][]string{}}
	for _, s := range servers {
		if s.listed == "" {
			continue
		}
		roles.Servers = append(roles.Servers, s.name)
		if roles.Mapping[s.role] == nil {
			roles.Roles = append(roles.Roles, s.role)
		}
		roles.Mapping[s.role] = append(roles.Mapping[s.role], s.name)
		if err := d.writeServer(s, s.listed); err != nil {
			return err
		}
	}
	if err := writeJSONFile(filepath.Join(d.dir, "roles.json"), roles); err != nil {
		return err
	}
	d.progress("%d servers in two cabinets, and a core: %d network namespaces in %s", len(servers), d.cluster.Namespaces(),
		time.Since(start).Round(time.Millisecond))
	return nil
}

// topology has links of nodes, services of ten times that, and uplinks of ten times that, as 1 and 10 Gbit/s.
func (d *demo) topology() lab.Topology {
	var t lab.Topology
	prefixes := map[string]string{"b12": "10.1.12.0/24", "b13": "10.1.13.0/24", "world": "10.9.9.0/24"}
	for _, s := range demoServers() {
		last := len(t.Cabinets) - 1
		if last < 0 || t.Cabinets[last].Name != s.cabinet {
			t.Cabinets = append(t.Cabinets, lab.Cabinet{Name: s.cabinet, Prefix: netip.MustParsePrefix(prefixes[s.cabinet]), Uplink: lab.Limit{Rate: 10 * d.link}})
			last++
		}
		t.Cabinets[last].Servers = append(t.Cabinets[last].Servers,
			lab.Server{Name: s.name, Address: netip.MustParseAddr(s.address), Wire: lab.Limit{Rate: d.link}})
	}
	return t
}

// maxSocketPath is what fits into sun_path, less the final zero byte (unix(7)).
const maxSocketPath = 107

func (d *demo) runDir(node string) string { return filepath.Join(d.dir, "run", node) }

func (d *demo) serverFolder() string { return filepath.Join(d.dir, "nyc1", "jsons") }

func (d *demo) serverFile(name string) string { return filepath.Join(d.serverFolder(), name+".json") }

// writeServer puts a server's file into its place, whole, as an editor does.
func (d *demo) writeServer(s demoServer, cabinet string) error {
	return writeJSONFile(d.serverFile(s.name), map[string]any{"name": s.name, "ip_address": s.address, "cabinet": cabinet})
}

// writeJSONFile writes beside the place, under a name that nobody reads, and renames.
func writeJSONFile(path string, v any) error {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		return err
	}
	scratch := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.WriteFile(scratch, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write inventory: %w", err)
	}
	if err := os.Rename(scratch, path); err != nil {
		return fmt.Errorf("write inventory: %w", err)
	}
	return nil
}

// writeConfig makes the config file of a node.
func (d *demo) writeConfig(node, runDir string) (string, error) {
	path := filepath.Join(d.dir, node+".yaml")
	p := demoPercent()
	text := fmt.Sprintf(`interface: %s
node: %s
link_rate: %s
inventory: {roles: roles.json, servers: [nyc1/jsons]}
classes:
  same-cabinet:  {id: 10,  rate: %d%%}
  cross-cabinet: {id: 20,  rate: %d%%}
  priority-role: {id: 30,  rate: %d%%}
  default:       {id: 100, rate: %d%%}
default_class: default
rules:
  - {name: same-cabinet,  match: {cabinet: same},         class: same-cabinet}
  - {name: priority-role, match: {role: hadoop_namenode}, class: priority-role}
  - {name: cross-cabinet, match: {role: %s},     class: cross-cabinet}
metrics: {listen: "127.0.0.1:9825"}
run_dir: %q
`, lab.Interface, node, d.link, p["same-cabinet"], p["cross-cabinet"], p["priority-role"], p["default"], bulkRole, runDir)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return "", fmt.Errorf("write config: %w", err)
	}
	return path, nil
}
