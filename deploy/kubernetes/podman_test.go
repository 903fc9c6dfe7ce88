//go:build system

package kubernetes

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bulkshaper/systemd/debian"
)

// need has Debian's programs there; it takes root to run containers.
func need(t *testing.T, programs map[string]string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("these tests run containers: run them as root")
	}
	debian.Need(t, programs)
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := try(name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func try(name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	c.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return strings.TrimRight(stdout.String(), "\n"), nil
}

func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute: %v", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// store is where images and containers of a test lie.
type store []string

// newStore builds the image from the Containerfile, and a second time: the same program is the same image.
func newStore(t *testing.T) store {
	t.Helper()
	need(t, map[string]string{"buildah": "buildah", "podman": "podman", "conmon": "conmon", "crun": "crun", "unshare": "util-linux", "ip": "iproute2"})
	work, err := os.MkdirTemp("", "pod") // a short path: conmon's sockets lie there
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(work) })
	s := store{"--root", work + "/store", "--runroot", work + "/run", "--storage-driver", "vfs"}
	build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(work, "bin/bulkshaper"), "bulkshaper/cmd/bulkshaper")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	var ids []string
	for _, tag := range []string{"first", "second"} {
		run(t, "buildah", append(s[:len(s):len(s)], "build", "--isolation", "chroot", "--no-cache", "--file", "../container/Containerfile", "--build-arg", "VERSION=v1",
			"--timestamp", "1700000000", "--tag", "bulkshaper:"+tag, filepath.Join(work, "bin"))...)
		ids = append(ids, run(t, "buildah", append(s[:len(s):len(s)], "images", "--quiet", "--no-trunc", "bulkshaper:"+tag)...))
	}
	if ids[0] != ids[1] || ids[0] == "" {
		t.Errorf("built twice the images are %s and %s", ids[0], ids[1])
	}
	return s
}

// TestImage: the image is one static program and how to start it.
func TestImage(t *testing.T) {
	s := newStore(t)
	from := run(t, "buildah", append(s[:len(s):len(s)], "from", "bulkshaper:first")...)
	root := run(t, "buildah", append(s[:len(s):len(s)], "mount", from)...)
	var files []string
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, strings.TrimPrefix(path, root))
		}
		return err
	})
	if err != nil || len(files) != 1 || files[0] != "/usr/bin/bulkshaper" {
		t.Fatalf("the image has %v, %v", files, err)
	}
	program, err := elf.Open(filepath.Join(root, files[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the program is not static")
		}
	}
	var image struct {
		OCIv1 struct {
			Config struct {
				User            string
				Entrypoint, Cmd []string
				Labels          map[string]string
			} `json:"config"`
		}
	}
	out := run(t, "buildah", append(s[:len(s):len(s)], "inspect", "--type", "image", "bulkshaper:first")...)
	if err := json.Unmarshal([]byte(out), &image); err != nil {
		t.Fatal(err)
	}
	got := image.OCIv1.Config
	if got.User != "" || strings.Join(got.Entrypoint, " ") != "/usr/bin/bulkshaper" || strings.Join(got.Cmd, " ") != "run --config /etc/bulkshaper/config.yaml" ||
		got.Labels["org.opencontainers.image.version"] != "v1" {
		t.Errorf("the image says %+v", got)
	}
}

// machine is a network namespace, with mounts of its own, that stands for the node.
type machine struct {
	pid   string
	store store
}

// newMachine ends with the test, and all in it.
func newMachine(t *testing.T, s store) *machine {
	t.Helper()
	// Where version 1 and 2 of cgroups are mixed crun gives up; in this container nothing is limited, and it need not see them.
	c := exec.Command("unshare", "--net", "--mount", "sh", "-c", "umount -R /sys/fs/cgroup && mount -t tmpfs none /sys/fs/cgroup && ip link set lo up && echo ready && exec cat")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		_ = c.Wait()
	})
	if _, err := io.ReadFull(stdout, make([]byte, len("ready\n"))); err != nil {
		t.Fatalf("a network namespace: %v", err)
	}
	return &machine{pid: strconv.Itoa(c.Process.Pid), store: s}
}

func (m *machine) try(args ...string) (string, error) {
	return try("nsenter", append([]string{"--target", m.pid, "--net", "--mount", "--"}, args...)...)
}

func (m *machine) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := m.try(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (m *machine) podman(t *testing.T, args ...string) string {
	t.Helper()
	return m.run(t, append(append(append([]string{"podman"}, m.store...), "--cgroup-manager", "cgroupfs", "--runtime", "crun"), args...)...)
}

// start runs the container of the manifest as the kubelet would have it run, with volumes for its mounts, and gives its process id.
func (m *machine) start(t *testing.T, set daemonSet, name string, volumes map[string]string) (pid string) {
	t.Helper()
	c := set.Spec.Template.Spec.Containers[0]
	// The limits are those that the machine gives the test; podman's own may be higher.
	args := []string{"run", "--detach", "--name", name, "--cgroups", "disabled", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000",
		"--user", fmt.Sprintf("%d:%d", *c.SecurityContext.RunAsUser, *c.SecurityContext.RunAsGroup), "--log-driver", "k8s-file"}
	if set.Spec.Template.Spec.HostNetwork {
		args = append(args, "--network", "host")
	}
	for _, capability := range c.SecurityContext.Capabilities.Drop {
		args = append(args, "--cap-drop", capability)
	}
	for _, capability := range c.SecurityContext.Capabilities.Add {
		args = append(args, "--cap-add", capability)
	}
	if !*c.SecurityContext.AllowPrivilegeEscalation {
		args = append(args, "--security-opt", "no-new-privileges")
	}
	if *c.SecurityContext.ReadOnlyRootFilesystem {
		args = append(args, "--read-only", "--read-only-tmpfs=false")
	}
	for _, e := range c.Env {
		args = append(args, "--env", e.Name+"="+e.Value)
	}
	for _, v := range c.VolumeMounts {
		mount := volumes[v.Name] + ":" + v.MountPath
		if v.ReadOnly {
			mount += ":ro"
		}
		args = append(args, "--volume", mount)
	}
	m.podman(t, append(append(args, "bulkshaper:first"), c.Args...)...)
	t.Cleanup(func() { // before the namespace goes
		if t.Failed() {
			out, err := m.try(append(append([]string{"podman"}, m.store...), "logs", name)...)
			t.Logf("log of %s (%v):\n%s", name, err, out)
		}
		_, _ = m.try(append(append([]string{"podman"}, m.store...), "--cgroup-manager", "cgroupfs", "--runtime", "crun", "rm", "--force", "--time", "5", name)...)
	})
	return m.podman(t, "inspect", "--format", "{{.State.Pid}}", name)
}
