//go:build system

package kubernetes

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// probe asks what the kubelet asks, and gives the status line's code.
func (m *machine) probe(c container, path string) string {
	out, err := m.try("bash", "-c", fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/%d && printf 'GET %s HTTP/1.0\r\n\r\n' >&3 && head -n 1 <&3`, c.Ports[0].ContainerPort, path))
	if err != nil {
		return err.Error()
	}
	_, code, _ := strings.Cut(out, " ")
	return strings.TrimSpace(code[:min(3, len(code))])
}

// packets is what tc counted for a class.
func (m *machine) packets(t *testing.T, id string) int {
	t.Helper()
	out := m.run(t, "tc", "-statistics", "class", "show", "dev", "eth1")
	found := regexp.MustCompile(`class htb ` + id + ` .*\n Sent \d+ bytes (\d+) pkt`).FindStringSubmatch(out)
	if found == nil {
		t.Fatalf("no class %s in\n%s", id, out)
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestPod runs the container that the manifest describes, with podman: it waits for its interface and shapes it with NET_ADMIN alone, follows
// the files of a ConfigMap when they are exchanged, and leaves the shaping to the one that comes after it.
func TestPod(t *testing.T) {
	set := readDaemonSet(t)
	c := set.Spec.Template.Spec.Containers[0]
	m := newMachine(t, newStore(t))
	config := volume(t)
	if err := os.Chmod(config, 0o777); err != nil { // as the kubelet does
		t.Fatal(err)
	}
	runDir := t.TempDir()
	volumes := map[string]string{"config": config, "run": runDir}
	pid := m.start(t, set, "one", volumes)
	state := func(ready, healthy string) func() error {
		return func() error {
			if r, h := m.probe(c, c.ReadinessProbe.HTTPGet.Path), m.probe(c, c.LivenessProbe.HTTPGet.Path); r != ready || h != healthy {
				return fmt.Errorf("readiness %s, liveness %s", r, h)
			}
			return nil
		}
	}
	eventually(t, "without an interface it is healthy and not ready", state("503", "200"))

	m.run(t, "sh", "-c", `ip link add eth1 mtu 1500 type veth peer name port && ip address add 10.241.28.13/16 dev eth1 && ip link set port up && ip link set eth1 up &&
		for a in 28.14 29.28 66.1; do ip neighbour replace 10.241.$a lladdr 02:00:00:00:00:01 dev eth1 nud permanent; done`)
	eventually(t, "it is ready", state("200", "200"))

	t.Run("its privileges", func(t *testing.T) {
		status, err := os.ReadFile("/proc/" + pid + "/status")
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"CapPrm:\t0000000000001000", "CapEff:\t0000000000001000", "CapBnd:\t0000000000001000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
			if !strings.Contains(string(status), line+"\n") {
				t.Errorf("no %q in\n%s", line, status)
			}
		}
		mounts, err := os.ReadFile("/proc/" + pid + "/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		for path, mode := range map[string]string{"/": "ro", "/etc/bulkshaper": "ro", "/run/bulkshaper": "rw"} {
			if !regexp.MustCompile(` ` + path + ` ` + mode + `,`).Match(mounts) {
				t.Errorf("%s is not mounted %s:\n%s", path, mode, mounts)
			}
		}
	})

	send := func(address string, n int) {
		t.Helper()
		m.run(t, "bash", "-c", fmt.Sprintf("for i in $(seq %d); do echo x > /dev/udp/%s/9; done", n, address))
	}
	send("10.241.28.14", 7) // same cabinet
	send("10.241.29.28", 5) // another
	send("10.241.66.1", 3)  // nobody
	for id, n := range map[string]int{"1:10": 7, "1:20": 5, "1:100": 3} {
		// The kernel itself has something to say to multicast groups of IPv6, which are nobody's.
		if got := m.packets(t, id); got < n || got > n && id != "1:100" {
			t.Errorf("class %s sent %d packets, want %d", id, got, n)
		}
	}

	t.Run("asked in the pod and on the node", func(t *testing.T) {
		if out := m.podman(t, "exec", "one", "/usr/bin/bulkshaper", "status"); !strings.Contains(out, "in sync: the kernel holds what config and inventory say") {
			t.Errorf("in the pod:\n%s", out)
		}
		if _, err := os.Stat(filepath.Join(runDir, "bulkshaper.sock")); err != nil {
			t.Errorf("on the node: %v", err)
		}
	})

	t.Run("an edit of the ConfigMap", func(t *testing.T) {
		second := filepath.Join(config, "..v2")
		if err := os.CopyFS(second, os.DirFS(filepath.Join(config, "..v1"))); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(second, "hadoop14.json")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		moved := strings.Replace(string(text), `"b12"`, `"b13"`, 1)
		if moved == string(text) {
			t.Fatalf("hadoop14 is not in b12:\n%s", text)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(moved), 0o444); err != nil {
			t.Fatal(err)
		}
		exchange(t, config, "..v2")
		eventually(t, "hadoop14 is of another cabinet", func() error {
			before := m.packets(t, "1:20")
			send("10.241.28.14", 1)
			if m.packets(t, "1:20") == before {
				return fmt.Errorf("its packets are in another class than 1:20")
			}
			return nil
		})
	})

	t.Run("another pod takes over", func(t *testing.T) {
		m.podman(t, "exec", "one", "/usr/bin/bulkshaper", "override", "cross-cabinet", "rate=7mbit", "--for", "1h", "--why", "copy")
		before := m.packets(t, "1:10")
		m.podman(t, "stop", "--time", "20", "one")
		if got := m.packets(t, "1:10"); got != before {
			t.Errorf("stopped, class 1:10 counts %d packets, before %d", got, before)
		}
		m.start(t, set, "two", volumes)
		eventually(t, "it is ready", state("200", "200"))
		if got := m.packets(t, "1:10"); got != before {
			t.Errorf("taken over, class 1:10 counts %d packets, before %d", got, before)
		}
		if out := m.podman(t, "exec", "two", "/usr/bin/bulkshaper", "status"); !strings.Contains(out, "OVERRIDE cross-cabinet is held to 7mbit") {
			t.Errorf("the override is gone:\n%s", out)
		}
	})
}

// exchange turns ..data to another folder, as the kubelet does: by a rename.
func exchange(t *testing.T, volume, version string) {
	t.Helper()
	if err := os.Symlink(version, filepath.Join(volume, "..data_tmp")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(volume, "..data_tmp"), filepath.Join(volume, "..data")); err != nil {
		t.Fatal(err)
	}
}
