package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bulkshaper/cmd/bulkshaper/ask"
	"bulkshaper/cmd/bulkshaper/scratch"
	"bulkshaper/shaper"
	"bulkshaper/shaper/kernel/lab"
	"bulkshaper/shaper/kernel/lab/traffic"
	"bulkshaper/shaper/tc"
)

// stage is what a scenario stands on: a folder with inventory, configs and logs, a cluster, daemons, and what makes traffic.
type stage struct {
	dir      string
	folder   *scratch.Folder
	log      *os.File // of what makes traffic
	cluster  *lab.Cluster
	bulk     *traffic.Bulk
	requests *traffic.Requests
	nodes    map[string]*demoNode // by name, those with a daemon
}

// maxSocketPath is what fits into sun_path, less the final zero byte (unix(7)).
const maxSocketPath = 107

// raise makes folder and cluster; node is one that will have a daemon. What stands after an error is close's to take down.
func (s *stage) raise(t lab.Topology, node string) (err error) {
	s.nodes = map[string]*demoNode{}
	if s.folder, err = scratch.New(); err != nil {
		return err
	}
	s.dir = s.folder.Path
	if socket := filepath.Join(s.runDir(node), ask.SocketName); len(socket) > maxSocketPath {
		return fmt.Errorf("make folder %s: too long a path for a daemon's socket there; set TMPDIR to a folder with a shorter path", s.dir)
	}
	if s.log, err = os.Create(filepath.Join(s.dir, "traffic.log")); err != nil {
		return fmt.Errorf("make log: %w", err)
	}
	s.cluster, err = lab.Build(t)
	return err
}

// close ends what still runs and removes everything.
func (s *stage) close() error {
	var errs []error
	if s.requests != nil {
		errs = append(errs, s.requests.Close())
	}
	if s.bulk != nil {
		errs = append(errs, s.bulk.Close())
	}
	for _, n := range s.nodes {
		errs = append(errs, n.close())
	}
	if s.cluster != nil {
		errs = append(errs, s.cluster.Close())
	}
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	if s.folder != nil {
		errs = append(errs, s.folder.Remove())
	}
	return errors.Join(errs...)
}

func (s *stage) runDir(node string) string     { return filepath.Join(s.dir, "run", node) }
func (s *stage) config(node string) string     { return filepath.Join(s.dir, node+".yaml") }
func (s *stage) serverFolder() string          { return filepath.Join(s.dir, "nyc1", "jsons") }
func (s *stage) serverFile(name string) string { return filepath.Join(s.serverFolder(), name+".json") }

// nodeNames are those with a daemon, in order.
func (s *stage) nodeNames() []string { return slices.Sorted(maps.Keys(s.nodes)) }

// startNode runs the daemon of a node whose config stands.
func (s *stage) startNode(name string) error {
	if err := os.MkdirAll(s.runDir(name), 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	n, err := startNode(s.cluster.Host(name), s.config(name), s.runDir(name))
	if err != nil {
		return err
	}
	s.nodes[name] = n
	return nil
}

// inSync waits until all daemons have shaped their nodes.
func (s *stage) inSync(ctx context.Context) error {
	for _, name := range s.nodeNames() {
		n := s.nodes[name]
		if err := n.wait(ctx, readyLimit, func(s shaper.Status) bool { return s.InSync }); err != nil {
			return fmt.Errorf("wait for the daemon on %s: %w%s", name, err, n.logTail())
		}
	}
	return nil
}

// listedServer is a server as its file in the inventory has it.
type listedServer struct {
	Name     string   `json:"name"`
	Address  string   `json:"ip_address"`
	Cabinet  string   `json:"cabinet"`
	Prefixes []string `json:"prefixes,omitempty"`
	Role     string   `json:"-"`
}

// writeServer puts a server's file into its place, whole, as an editor does. One that says so already is left alone.
func (s *stage) writeServer(server listedServer) error {
	return writeJSONFile(s.serverFile(server.Name), server)
}

// writeInventory makes the files say that these are the servers and their roles.
func (s *stage) writeInventory(servers []listedServer) error {
	if err := os.MkdirAll(s.serverFolder(), 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	roles := struct {
		Servers []string            `json:"servers"`
		Roles   []string            `json:"roles"`
		Mapping map[string][]string `json:"mapping"`
	}{Mapping: map[string][]string{}}
	for _, server := range servers {
		roles.Servers = append(roles.Servers, server.Name)
		if roles.Mapping[server.Role] == nil {
			roles.Roles = append(roles.Roles, server.Role)
		}
		roles.Mapping[server.Role] = append(roles.Mapping[server.Role], server.Name)
		if err := s.writeServer(server); err != nil {
			return err
		}
	}
	return writeJSONFile(filepath.Join(s.dir, "roles.json"), roles)
}

func writeJSONFile(path string, v any) error {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		return err
	}
	return writeWhole(path, b.Bytes())
}

// writeWhole writes beside the place, under a name that nobody reads, and renames. A file that has the text already is left alone.
func writeWhole(path string, text []byte) error {
	if is, err := os.ReadFile(path); err == nil && bytes.Equal(is, text) {
		return nil
	}
	scratch := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.WriteFile(scratch, text, 0o644); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	if err := os.Rename(scratch, path); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	return nil
}

// nodeClass is a class in a node's config; rule, if any, is what puts destinations there.
type nodeClass struct {
	name, id, rate string
	rule           string
	more           string // further keys of the class
}

// writeConfig writes a node's config. The rules are in the order of the classes; the last class is the default.
func (s *stage) writeConfig(node string, link tc.BitRate, classes ...nodeClass) error {
	var out strings.Builder
	fmt.Fprintf(&out, "interface: %s\nnode: %s\nlink_rate: %s\ninventory: {roles: roles.json, servers: [nyc1/jsons]}\nclasses:\n", lab.Interface, node, link)
	for _, c := range classes {
		fmt.Fprintf(&out, "  %s: {id: %s, rate: %s%s}\n", c.name, c.id, c.rate, c.more)
	}
	fmt.Fprintf(&out, "default_class: %s\nrules:\n", classes[len(classes)-1].name)
	for _, c := range classes {
		if c.rule != "" {
			fmt.Fprintf(&out, "  - {name: %s, match: {%s}, class: %s}\n", c.name, c.rule, c.name)
		}
	}
	fmt.Fprintf(&out, "metrics: {listen: \"127.0.0.1:9825\"}\nrun_dir: %q\n", s.runDir(node))
	return writeWhole(s.config(node), []byte(out.String()))
}

// percentRate is a rate as a config has it.
func percentRate(percent int) string { return fmt.Sprintf("%d%%", percent) }
