//go:build system

package systemtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// tight is the exposure that `systemd-analyze security` may find at most.
const tight = 1.5

// exposure reads the last line of `systemd-analyze security`.
func exposure(t *testing.T, out string) {
	t.Helper()
	score := regexp.MustCompile(`Overall exposure level for bulkshaper.service: ([0-9.]+)`).FindStringSubmatch(out)
	if score == nil {
		t.Fatalf("no score in\n%s", out)
	}
	t.Log(score[0])
	if v, err := strconv.ParseFloat(score[1], 64); err != nil || v > tight {
		t.Errorf("exposure %s, want at most %v:\n%s", score[1], tight, out)
	}
}

// dropIn puts settings of [Service] behind the unit's, takes away those of the last call, and starts the unit anew on an interface that
// is not shaped. It gives the number of lines in the journal before.
func (c *container) dropIn(t *testing.T, settings ...string) int {
	t.Helper()
	const folder = "/run/systemd/system/bulkshaper.service.d"
	script := "rm -rf " + folder
	if len(settings) > 0 {
		script = fmt.Sprintf("mkdir -p %s && printf '%%s\\n' '[Service]' '%s' > %s/test.conf", folder, strings.Join(settings, "' '"), folder)
	}
	c.run(t, "bash", "-c", script+" && systemctl daemon-reload && systemctl stop bulkshaper.service && "+
		"if tc qdisc show dev eth1 | grep -q htb; then tc qdisc delete dev eth1 root; fi")
	_, _ = c.try("systemctl", "reset-failed", "bulkshaper.service") // it may not have failed
	lines := len(c.journal(t))
	c.run(t, "systemctl", "start", "--no-block", "bulkshaper.service")
	return lines
}

// get asks the daemon over HTTP, from the container itself, and gives the whole answer.
func (c *container) get(t *testing.T, path string) string {
	t.Helper()
	return c.run(t, "bash", "-c", `exec 3<>/dev/tcp/127.0.0.1/9825 && printf 'GET `+path+` HTTP/1.0\r\n\r\n' >&3 && cat <&3`)
}

// late is a server that lies on a file system of its own: as it is before anything is mounted there, and after.
func late(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for name, cabinet := range map[string]string{"more": "b77", "mounted": "b13"} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o755); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf(`{"name": "late01", "ip_address": "10.241.99.1", "datacenter": "nyc1", "cabinet": %q}`, cabinet)
		if err := os.WriteFile(filepath.Join(folder, name, "late01.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// TestUnitIsAsTightAsItMayBe: what the unit forbids the daemon is forbidden, and each directive that must not be in it is put in, and
// shows why it must not.
func TestUnitIsAsTightAsItMayBe(t *testing.T) {
	etc := incident(t, "resync: 1s\n")
	config := filepath.Join(etc, "config.yaml")
	edit(t, config, func(s string) string {
		return strings.Replace(s, "[nyc1/jsons]", "[nyc1/jsons, /srv/more]\n  rescan: 1s", 1)
	})
	c := boot(t, newest, build(t), etc, "--bind="+late(t)+":/srv")
	c.plug(t)
	c.active(t)

	t.Run("it writes nowhere but in its run folder", func(t *testing.T) {
		inside := func(script string) (string, error) { // as root, in the daemon's view of the files
			return c.try("nsenter", "--target", c.property(t, "MainPID"), "--mount", "--wd=/", "bash", "-c", script)
		}
		for _, path := range []string{"/etc/bulkshaper/x", "/etc/x", "/usr/x", "/var/x", "/srv/x", "/x", "/opt/x"} {
			if out, err := inside("touch " + path); err == nil || !strings.Contains(err.Error(), "Read-only file system") {
				t.Errorf("%s can be written: %s, %v", path, out, err)
			}
		}
		if out, err := inside("echo x > /run/bulkshaper/x && rm /run/bulkshaper/x"); err != nil {
			t.Errorf("the run folder: %s, %v", out, err)
		}
		for _, path := range []string{"/dev/kmsg", "/dev/mem", "/home", "/root"} {
			if out, err := inside("head -c 1 " + path + " || ls -A " + path + "/*"); err == nil {
				t.Errorf("%s can be read: %s", path, out)
			}
		}
	})

	sameCabinet := func() float64 {
		return c.metrics(t)[`bulkshaper_class_destinations{class="same-cabinet",classid="1:10",interface="eth1",kind="leaf"}`]
	}
	mounted := func(t *testing.T, seen bool) {
		t.Helper()
		before, reloads := sameCabinet(), c.metrics(t)[`bulkshaper_inventory_reloads_total{result="unchanged"}`]
		if before == 0 {
			t.Fatal("nobody is in this cabinet")
		}
		c.run(t, "mount", "--bind", "/srv/mounted", "/srv/more")
		defer c.run(t, "umount", "/srv/more")
		if seen {
			eventually(t, "the mounted inventory", func() error {
				if now := sameCabinet(); now != before+1 {
					return fmt.Errorf("%v servers in this cabinet, before it were %v", now, before)
				}
				return nil
			})
			return
		}
		eventually(t, "three more looks at the files", func() error {
			if now := c.metrics(t)[`bulkshaper_inventory_reloads_total{result="unchanged"}`]; now < reloads+3 {
				return fmt.Errorf("%v, before it were %v", now, reloads)
			}
			return nil
		})
		if now := sameCabinet(); now != before {
			t.Errorf("%v servers in this cabinet, before it were %v", now, before)
		}
	}
	t.Run("what is mounted later is seen", func(t *testing.T) { mounted(t, true) })
	t.Run("with MountFlags it is not", func(t *testing.T) {
		c.dropIn(t, "MountFlags=private")
		c.active(t)
		mounted(t, false)
	})

	for _, test := range []struct {
		name     string
		settings []string
		// says is in the journal, and code is what the daemon ends with; "0" where it waits.
		says, code string
	}{
		{"PrivateNetwork", []string{"PrivateNetwork=yes"}, "no such interface: eth1", "0"},
		{"PrivateUsers", []string{"PrivateUsers=yes"}, "operation not permitted", "77"},
		{"RestrictAddressFamilies without AF_NETLINK", []string{"RestrictAddressFamilies=", "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6"}, "open netlink: address family not supported by protocol", "1"},
		{"a bounding set alone", []string{"AmbientCapabilities="}, "changing traffic control needs CAP_NET_ADMIN", "77"},
		{"no capability", []string{"AmbientCapabilities=", "CapabilityBoundingSet="}, "changing traffic control needs CAP_NET_ADMIN", "77"},
		{"TemporaryFileSystem", []string{"TemporaryFileSystem=/etc:ro"}, "open: no such file or directory", "2"},
		{"files of somebody else", []string{"ExecStartPre=+chown 4711 /etc/bulkshaper/roles.json"}, "roles.json: not trusted: it belongs to user 4711", "2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := c.dropIn(t, append(test.settings, "RestartSec=200ms")...)
			said := func() string { return strings.Join(c.journal(t)[before:], "\n") }
			eventually(t, "a word about it", func() error {
				if !strings.Contains(said(), test.says) {
					return fmt.Errorf("no %q in\n%s", test.says, said())
				}
				return nil
			})
			switch test.code {
			case "0":
				if state := c.property(t, "ActiveState"); state != "activating" {
					t.Errorf("it is %s, want it to wait; its log:\n%s", state, said())
				}
			case "77": // once, and that is all
				eventually(t, "the end", func() error {
					if state := c.property(t, "ActiveState"); state != "failed" {
						return fmt.Errorf("it is %s", state)
					}
					return nil
				})
				if code, restarts := c.property(t, "ExecMainStatus"), c.property(t, "NRestarts"); code != "77" || restarts != "0" {
					t.Errorf("ended with %s, %s restarts", code, restarts)
				}
				if n := strings.Count(said(), test.says); n != 1 {
					t.Errorf("told %d times:\n%s", n, said())
				}
			default: // a person may mend it, so it is tried again
				eventually(t, "it is tried again", func() error {
					if n := c.property(t, "NRestarts"); n == "0" {
						return fmt.Errorf("no restart")
					}
					return nil
				})
				if out := c.run(t, "journalctl", "--quiet", "--output=cat", "--no-pager", "--unit=bulkshaper.service", "--lines=40"); !strings.Contains(out, "status="+test.code+"/") {
					t.Errorf("it did not end with %s:\n%s", test.code, out)
				}
			}
			if out := c.run(t, "tc", "qdisc", "show", "dev", "eth1"); strings.Contains(out, "htb") {
				t.Errorf("it shapes all the same:\n%s", out)
			}
		})
	}

	t.Run("secrets come as credentials", func(t *testing.T) {
		c.run(t, "systemctl", "stop", "bulkshaper.service") // which would give them away again
		c.run(t, "chown", "root", "/etc/bulkshaper/roles.json")
		secret := filepath.Join(etc, "web.yml")
		if err := os.WriteFile(secret, []byte("basic_auth_users: {prometheus: $2a$04$F5CfTBTj2x83p7PMbop.Z.Wue8hXeWInytBBBa.NHTKUHruk2fkWm}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		edit(t, config, func(s string) string {
			return strings.Replace(s, `"127.0.0.1:9825"`, `"127.0.0.1:9825", web_config: /run/credentials/bulkshaper.service/web.yml`, 1)
		})
		c.dropIn(t, "LoadCredential=web.yml:/etc/bulkshaper/web.yml")
		c.active(t)
		if answer := c.get(t, "/metrics"); !strings.HasPrefix(answer, "HTTP/1.0 401") {
			t.Errorf("without a password: %s", tail(answer))
		}
	})
}
