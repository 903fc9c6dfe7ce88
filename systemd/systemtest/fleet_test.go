//go:build system

package systemtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// fleetPackages are those that a node of a fleet has besides: Ansible's modules run in Python, and it comes by ssh.
const fleetPackages = "python3,python3-apt,openssh-server"

// debianWith is the folder of debian with more packages, a list with commas.
func debianWith(t *testing.T, suite, more string) string {
	t.Helper()
	base := suiteFolder(t, suite)
	root := base + "_" + strings.ReplaceAll(more, ",", "_")
	if _, err := os.Stat(root); err == nil {
		return root
	}
	half, err := os.MkdirTemp(filepath.Dir(base), "half-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(half)
	run(t, "cp", "--archive", base+"/.", half)
	run(t, "systemd-nspawn", "--directory", half, "--register=no", "--keep-unit", "--quiet", "--pipe", "--resolv-conf=copy-host", "--setenv=DEBIAN_FRONTEND=noninteractive",
		"sh", "-c", "apt-get update && apt-get install -y --no-install-recommends "+strings.ReplaceAll(more, ",", " "))
	if err := os.Rename(half, root); err != nil {
		t.Fatal(err)
	}
	return root
}

// fleet is some nodes, and the control host's way to them.
type fleet struct {
	names []string
	nodes map[string]*container
	// files is the folder that is rolled out, work has what Ansible keeps. shared is a folder of the control host that the nodes have at
	// /srv; a node cannot be reached while a file of its name lies there.
	files, work, shared string
	vars                []string
	// ssh is options of ssh's.
	ssh string
}

// stays is that a connection serves many tasks, as Ansible has it.
const stays = "-o ControlMaster=auto -o ControlPersist=20s"

// addresses are those that the inventory has for the nodes.
var addresses = map[string]string{"hadoop13": "10.241.28.13", "hadoop14": "10.241.28.14", "hadoop27": "10.241.29.27"}

// newFleet boots the nodes with nothing of ours on them. They are reached by ssh, each by a server that is started in it for that connection.
func newFleet(t *testing.T, vars ...string) *fleet {
	t.Helper()
	need(t, map[string]string{"ansible-playbook": "ansible-core", "ansible-lint": "ansible-lint", "ssh": "openssh-client", "ssh-keygen": "openssh-client"})
	// ssh's control sockets need a short path.
	work, err := os.MkdirTemp("", "fleet")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(work) })
	f := &fleet{names: []string{"hadoop13", "hadoop14", "hadoop27"}, nodes: map[string]*container{}, files: incident(t, ""), work: work, shared: t.TempDir(), vars: vars, ssh: stays}
	edit(t, filepath.Join(f.files, "config.yaml"), func(s string) string { return strings.Replace(s, "node: hadoop27", "resync: 1s", 1) })
	key := filepath.Join(work, "key")
	run(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
	root := debianWith(t, oldest, fleetPackages)
	hosts := "bulkshaper:\n  vars: {ansible_user: root, ansible_ssh_private_key_file: " + key + ", ansible_python_interpreter: /usr/bin/python3}\n  hosts:\n"
	for _, name := range f.names {
		c := bootRoot(t, root, name, nil, "--bind="+f.shared+":/srv", "--bind-ro="+key+".pub:/root/.ssh/authorized_keys")
		c.plug(t)
		c.run(t, "ip", "address", "add", addresses[name]+"/32", "dev", "eth1")
		c.run(t, "mkdir", "-p", "/run/sshd")
		f.nodes[name] = c
		come := filepath.Join(work, "to-"+name)
		script := fmt.Sprintf("#!/bin/sh\ntest ! -e %s/%s && exec nsenter --target %s --mount --uts --ipc --net --pid --root --wd -- /usr/sbin/sshd -i -o UsePAM=no -o StrictModes=no\n", f.shared, name, c.leader)
		if err := os.WriteFile(come, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		hosts += fmt.Sprintf("    %s: {ansible_ssh_common_args: '-F none -o ProxyCommand=%s -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null'}\n", name, come)
	}
	if err := os.WriteFile(filepath.Join(work, "hosts.yml"), []byte(hosts), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // before the nodes power off, which would wait for whom somebody is still connected to
		sockets, err := filepath.Glob(filepath.Join(work, "cp", "*"))
		if err != nil {
			t.Error(err)
		}
		for _, socket := range sockets {
			_, _ = try("ssh", "-o", "ControlPath="+socket, "-O", "exit", "node") // it may have ended
		}
	})
	return f
}

// play runs the playbook and gives what it said.
func (f *fleet) play(t *testing.T, options ...string) (string, error) {
	t.Helper()
	args := []string{"--inventory", filepath.Join(f.work, "hosts.yml"), "../../deploy/ansible/site.yml", "--extra-vars", "bulkshaper_files=" + f.files}
	for _, v := range f.vars {
		args = append(args, "--extra-vars", v)
	}
	c := exec.Command("ansible-playbook", append(args, options...)...)
	c.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "ANSIBLE_HOME="+f.work, "ANSIBLE_LOCAL_TEMP="+f.work+"/tmp", "ANSIBLE_SSH_CONTROL_PATH_DIR="+f.work+"/cp",
		"ANSIBLE_PIPELINING=1", "ANSIBLE_NOCOLOR=1", "ANSIBLE_SSH_ARGS="+f.ssh, "ANSIBLE_TIMEOUT=30", "ANSIBLE_NO_TARGET_SYSLOG=1")
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.String(), err
}

// rolls plays what has to succeed.
func (f *fleet) rolls(t *testing.T, options ...string) string {
	t.Helper()
	out, err := f.play(t, options...)
	if err != nil {
		t.Fatalf("the roll-out: %v\n%s", err, tail(out))
	}
	return out
}

// stops plays what has to fail, and to say why.
func (f *fleet) stops(t *testing.T, why string, options ...string) string {
	t.Helper()
	out, err := f.play(t, options...)
	if err == nil {
		t.Fatalf("it was rolled out:\n%s", tail(out))
	}
	if !strings.Contains(strings.Join(strings.Fields(out), " "), why) {
		t.Fatalf("it stopped, and does not say %q:\n%s", why, tail(out))
	}
	return out
}

// changed is how many tasks changed something on a node, by the recap.
func changed(t *testing.T, out, name string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + name + `\s.* changed=(\d+)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("no recap of %s in\n%s", name, tail(out))
	}
	return m[1]
}

// state is all that a roll-out may change on a node: its files, its shaping without the counters, its daemon.
func (f *fleet) state(t *testing.T, name string) string {
	t.Helper()
	return f.nodes[name].run(t, "bash", "-c", `cd /etc && find bulkshaper -type f 2>/dev/null | sort | xargs -r sha256sum
tc qdisc show dev eth1; tc class show dev eth1; tc filter show dev eth1
systemctl is-enabled bulkshaper.service; systemctl is-active bulkshaper.service; ls -l /usr/bin/bulkshaper 2>&1; true`)
}

func (f *fleet) states(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range f.names {
		all[name] = f.state(t, name)
	}
	return all
}

// same asserts that nodes are as they were.
func (f *fleet) same(t *testing.T, before map[string]string, names ...string) {
	t.Helper()
	for _, name := range names {
		eventually(t, name+" is as before", func() error {
			if now := f.state(t, name); now != before[name] {
				return fmt.Errorf("it was\n%s\nand is\n%s", before[name], now)
			}
			return nil
		})
	}
}

// shaping is qdiscs, classes and filters, and what the classes have counted, but for those by which the kernel itself sends now and then.
func (f *fleet) shaping(t *testing.T, name string) string {
	t.Helper()
	c := f.nodes[name]
	classes := c.classes(t)
	delete(classes, "1:100")
	delete(classes, "1:ffff")
	return fmt.Sprint(classes) + "\n" + c.run(t, "bash", "-c", "tc qdisc show dev eth1; tc class show dev eth1; tc filter show dev eth1")
}

// debOf builds the package of a version into a folder.
func debOf(t *testing.T, dir, version string) string {
	t.Helper()
	c := exec.Command("../../deploy/package/build", dir)
	c.Env = append(os.Environ(), "VERSION="+version, "ARCHS="+runtime.GOARCH, "FORMATS=deb")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build the package: %v\n%s", err, out)
	}
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(debs) != 1 {
		t.Fatal(debs, err)
	}
	return debs[0]
}
