package kubernetes

import (
	"bytes"
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/goccy/go-yaml"

	"bulkshaper/inventory"
	"bulkshaper/shaper/config"
)

// daemonSet is as much of one as says how its container runs.
type daemonSet struct {
	Kind string
	Spec struct {
		Template struct {
			Spec struct {
				HostNetwork bool `yaml:"hostNetwork"`
				Containers  []container
				Volumes     []struct {
					Name      string
					ConfigMap *struct{ Name string } `yaml:"configMap"`
					HostPath  *struct{ Path string } `yaml:"hostPath"`
				}
			}
		}
	}
}

type container struct {
	Args            []string
	Env             []struct{ Name, Value string }
	SecurityContext struct {
		RunAsUser                *int  `yaml:"runAsUser"`
		RunAsGroup               *int  `yaml:"runAsGroup"`
		AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   *bool `yaml:"readOnlyRootFilesystem"`
		Capabilities             struct{ Drop, Add []string }
	} `yaml:"securityContext"`
	ReadinessProbe probe `yaml:"readinessProbe"`
	LivenessProbe  probe `yaml:"livenessProbe"`
	Ports          []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	VolumeMounts []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

func readDaemonSet(t *testing.T) daemonSet {
	t.Helper()
	text, err := os.ReadFile("bulkshaper.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range bytes.Split(text, []byte("\n---\n")) {
		var set daemonSet
		if err := yaml.Unmarshal(part, &set); err != nil {
			t.Fatal(err)
		}
		if set.Kind == "DaemonSet" && len(set.Spec.Template.Spec.Containers) == 1 {
			return set
		}
	}
	t.Fatal("no DaemonSet with one container")
	return daemonSet{}
}

// volume lays the config and the incident's inventory as the kubelet does with a ConfigMap: all files in one folder, as links by way of
// ..data, in a folder that everybody may write and that is mounted read-only.
func volume(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	version := filepath.Join(dir, "..v1")
	if err := os.Mkdir(version, 0o755); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../testdata/incident/nyc1/jsons/*.json")
	if err != nil || len(files) < 20 {
		t.Fatal(files, err)
	}
	for _, path := range append(files, "config.yaml", "../../testdata/incident/roles.json") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(path)
		if err := os.WriteFile(filepath.Join(version, name), text, 0o444); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("..v1", filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestConfigMap: the config reads the whole inventory from the one folder of a ConfigMap, and no file of it twice.
func TestConfigMap(t *testing.T) {
	dir := volume(t)
	cfg, err := config.Load(filepath.Join(dir, "config.yaml"), config.Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := inventory.NewLoader(cfg.Source).Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	whole, err := inventory.NewLoader(inventory.Source{Roles: "../../testdata/incident/roles.json", Servers: []string{"../../testdata/incident/nyc1/jsons"}}).Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	addresses := func(in *inventory.Inventory) (all []netip.Addr) {
		for _, s := range in.Servers {
			all = append(all, s.Addresses...)
		}
		slices.SortFunc(all, netip.Addr.Compare)
		return all
	}
	if len(got.Warnings) != 0 || len(addresses(got)) == 0 || !slices.Equal(addresses(got), addresses(whole)) {
		t.Errorf("%d servers with %v, warnings %v, want %d", len(got.Servers), addresses(got), got.Warnings, len(whole.Servers))
	}
}

// TestManifestMatchesTheProgram: what the manifest says of ports, paths and files is where config and program have them.
func TestManifestMatchesTheProgram(t *testing.T) {
	set := readDaemonSet(t)
	c := set.Spec.Template.Spec.Containers[0]
	cfg, err := config.Load("config.yaml", config.Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Ports) != 1 || cfg.Listen != ":"+strconv.Itoa(c.Ports[0].ContainerPort) {
		t.Errorf("the config listens on %s, the ports are %+v", cfg.Listen, c.Ports)
	}
	s := c.SecurityContext
	if s.RunAsUser == nil || s.RunAsGroup == nil || s.AllowPrivilegeEscalation == nil || s.ReadOnlyRootFilesystem == nil {
		t.Fatalf("left to the cluster's defaults: %+v", s)
	}
	if *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) || !slices.Equal(s.Capabilities.Add, []string{"NET_ADMIN"}) {
		t.Errorf("more than it takes: %+v", s)
	}
	if c.ReadinessProbe.HTTPGet.Path != "/-/ready" || c.LivenessProbe.HTTPGet.Path != "/-/healthy" {
		t.Errorf("probes %+v and %+v", c.ReadinessProbe, c.LivenessProbe)
	}
	mounts := map[string]bool{}
	for _, m := range c.VolumeMounts {
		mounts[m.MountPath] = m.ReadOnly
	}
	if readOnly, ok := mounts["/etc/bulkshaper"]; !ok || !readOnly || !slices.Contains(c.Args, "/etc/bulkshaper/config.yaml") {
		t.Errorf("mounts %v, arguments %v", mounts, c.Args)
	}
	if readOnly, ok := mounts[cfg.RunDir]; !ok || readOnly {
		t.Errorf("the run folder is %s, mounts are %v", cfg.RunDir, mounts)
	}
}
