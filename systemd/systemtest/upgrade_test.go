//go:build system

package systemtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// dpkg runs it as unattended upgrades do: nobody answers, and the operator's config stays.
func (c *container) dpkg(t *testing.T, args ...string) string {
	t.Helper()
	// A node's package manager must not hang with its interface.
	return c.run(t, append([]string{"bash", "-c", `exec timeout 120 dpkg --force-confold "$@" 2>&1`, "-"}, args...)...)
}

func packageOf(version string) string { return "/packages/" + version + ".deb" }

// queue is what tc counts of a class that has a queue.
type queue struct{ sent, dropped, waiting int }

func (c *container) queue(t *testing.T, classid string) queue {
	t.Helper()
	text := c.run(t, "tc", "-statistics", "class", "show", "dev", "eth1", "classid", classid)
	m := regexp.MustCompile(`Sent \d+ bytes (\d+) pkts? \(dropped (\d+),[^)]*\)\s*\n backlog \d+\w*b (\d+)p`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no queue of class %s in\n%s", classid, text)
	}
	var q queue
	for i, field := range []*int{&q.sent, &q.dropped, &q.waiting} {
		n, err := strconv.Atoi(m[i+1])
		if err != nil {
			t.Fatal(err)
		}
		*field = n
	}
	return q
}

const (
	// hadoop28 is in this node's cabinet, so it is of class 1:10.
	hadoop28 = "10.241.29.28"
	same     = "1:10"
)

// upgrades is what becomes of a shaped node at upgrades, from an active unit of the first version to one of the second.
func upgrades(t *testing.T, c *container) {
	step := steps(t)
	config := filepath.Join(c.etc, "config.yaml")

	step("a queue stands", func(t *testing.T) {
		edit(t, config, func(s string) string {
			return strings.Replace(s, "rate: 200mbit, burst: 1585b, cburst: 1585b", "rate: 2kbit, burst: 1585b, cburst: 1585b, leaf: {kind: pfifo, limit: 1000}", 1)
		})
		eventually(t, "the slow class", func() error {
			if rate := c.classes(t)[cross].rate; rate != "2Kbit" {
				return fmt.Errorf("class %s has a rate of %s", cross, rate)
			}
			return nil
		})
		c.send(t, hadoop13, 900)
		if q := c.queue(t, cross); q.waiting < 500 {
			t.Fatalf("900 packets for class %s: %+v", cross, q)
		}
	})

	step("an upgrade under traffic loses no shaping, no queue and no counter", func(t *testing.T) {
		c.run(t, "ip", "link", "add", "wit0", "type", "veth", "peer", "name", "wit1")
		witness(t, c)
		standing, slow, fast := c.shaping(t), c.queue(t, cross), c.classes(t)[same].packets
		direct := c.metrics(t)[`bulkshaper_direct_packets_total{interface="eth1"}`]
		pid, said, edited := c.property(t, "MainPID"), len(c.journal(t)), readFile(config)
		const packets = 500
		traffic := make(chan error, 1)
		go func() {
			_, err := c.try("bash", "-c", fmt.Sprintf("for i in $(seq %d); do echo x > /dev/udp/%s/9 && sleep 0.01 || exit 1; done", packets, hadoop28))
			traffic <- err
		}()
		c.dpkg(t, "--install", packageOf(second))
		c.runs(t, second)
		if err := <-traffic; err != nil {
			t.Fatal(err)
		}

		if now := c.property(t, "MainPID"); now == pid {
			t.Errorf("the old process %s goes on", pid)
		}
		c.nothingDone(t)
		if now := c.shaping(t); now != standing {
			t.Errorf("what stood was\n%s\nand is\n%s", standing, now)
		}
		if seen := c.run(t, "cat", "/run/witness"); strings.Contains(seen, "dev eth1") {
			t.Errorf("the upgrade changed the kernel:\n%s", seen)
		}
		now := c.queue(t, cross)
		if now.sent+now.waiting != slow.sent+slow.waiting || now.dropped != slow.dropped || now.sent < slow.sent || now.waiting == 0 {
			t.Errorf("the queue of class %s was %+v and is %+v", cross, slow, now)
		}
		if got := c.classes(t)[same].packets - fast; got != packets {
			t.Errorf("%d packets were sent to %s during the upgrade, and class %s counted %d", packets, hadoop28, same, got)
		}
		if now := c.metrics(t)[`bulkshaper_direct_packets_total{interface="eth1"}`]; now != direct {
			t.Errorf("direct packets were %v and are %v: some went unshaped", direct, now)
		}
		if text := readFile(config); text != edited {
			t.Errorf("the operator's config is now\n%s", text)
		}
		if text := readFile(config + ".dpkg-dist"); !strings.HasSuffix(text, "# A line of the second version.\n") {
			t.Errorf("the second version's config does not lie beside it, but\n%s", text)
		}
		c.says(t, said, "told to stop", "listening", "shaping that stood is adopted")

		// That the witness would have seen a change:
		c.run(t, "tc", "class", "change", "dev", "eth1", "parent", "1:", "classid", same, "htb", "rate", "1mbit")
		eventually(t, "the witness sees a change", func() error {
			if seen := c.run(t, "cat", "/run/witness"); !strings.Contains(seen, "dev eth1") {
				return fmt.Errorf("it has seen\n%s", seen)
			}
			return nil
		})
		eventually(t, "the repair", func() error {
			if rate := c.classes(t)[same].rate; rate != "819200Kbit" {
				return fmt.Errorf("class %s has a rate of %s", same, rate)
			}
			return nil
		})
	})

	step("an upgrade does not wait for an interface that was renamed", func(t *testing.T) {
		said := len(c.journal(t))
		c.run(t, "ip", "link", "set", "eth1", "down")
		c.run(t, "ip", "link", "set", "eth1", "name", "eth9")
		c.says(t, said, "no such interface: eth1")
		c.dpkg(t, "--install", packageOf(first)) // older ones may be installed as well
		eventually(t, "the other version waits", func() error {
			if state, pid := c.property(t, "ActiveState"), c.property(t, "MainPID"); state != "activating" || pid == "0" {
				return fmt.Errorf("it is %s, process %s", state, pid)
			}
			return nil
		})
		c.says(t, said, "no such interface: eth1", "told to stop", "no such interface: eth1", "listening") // each version says so
		c.run(t, "ip", "link", "set", "eth9", "name", "eth1")
		c.run(t, "ip", "link", "set", "eth1", "up")
		c.runs(t, first)
		c.nothingDone(t)
		c.says(t, said, "no such interface: eth1", "told to stop", "no such interface: eth1", "listening", "shaping that stood is adopted")
	})

	step("an upgrade restarts nothing where the administrator forbids it", func(t *testing.T) {
		c.run(t, "bash", "-c", `printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d && chmod +x /usr/sbin/policy-rc.d`)
		pid := c.property(t, "MainPID")
		if out := c.dpkg(t, "--install", packageOf(second)); !strings.Contains(out, "systemctl restart bulkshaper") {
			t.Errorf("it does not say what to do:\n%s", out)
		}
		if now, state := c.property(t, "MainPID"), c.property(t, "ActiveState"); now != pid || state != "active" {
			t.Errorf("process %s is %s, %s", pid, now, state)
		}
		c.run(t, "rm", "/usr/sbin/policy-rc.d")
		c.run(t, "systemctl", "restart", "bulkshaper.service")
		c.runs(t, second)
		c.nothingDone(t)
	})
}

// witness writes down what the kernel tells of traffic control, in /run/witness. It must have seen something of wit0 before it counts.
func witness(t *testing.T, c *container) {
	t.Helper()
	c.run(t, "systemd-run", "--unit=witness", "--property=StandardOutput=file:/run/witness", "tc", "monitor")
	eventually(t, "the witness sees", func() error {
		c.run(t, "tc", "qdisc", "replace", "dev", "wit0", "root", "tbf", "rate", "1mbit", "burst", "5kb", "latency", "50ms")
		seen, err := c.try("cat", "/run/witness") // it may not be there yet
		if err == nil && !strings.Contains(seen, "dev wit0") {
			err = fmt.Errorf("nothing yet: %s", seen)
		}
		return err
	})
}

// removals is the way from an active unit to a system on which nothing of the package is left.
func removals(t *testing.T, c *container) {
	step := steps(t)

	step("removed, it leaves the shaping", func(t *testing.T) {
		standing, packets := c.shaping(t), c.classes(t)[same].packets
		if out := c.dpkg(t, "--remove", "bulkshaper"); !strings.Contains(out, "stays shaped") {
			t.Errorf("it does not say so:\n%s", out)
		}
		if now := c.shaping(t); now != standing {
			t.Errorf("what stood was\n%s\nand is\n%s", standing, now)
		}
		if now := c.classes(t)[same].packets; now < packets {
			t.Errorf("class %s had sent %d packets and now %d", same, packets, now)
		}
		if out, err := c.try("bash", "-c", "ls /usr/bin/bulkshaper /usr/lib/systemd/system/bulkshaper.service || pgrep bulkshaper"); err == nil || out != "" {
			t.Errorf("there still is\n%s", out)
		}
		c.run(t, "test", "-e", "/etc/bulkshaper/config.yaml")
	})

	step("installed again, it goes on with what stands", func(t *testing.T) {
		standing := c.shaping(t)
		c.dpkg(t, "--install", packageOf(second))
		if out := c.run(t, "systemctl", "is-enabled", "bulkshaper.service"); out != "enabled" {
			t.Errorf("it is %s", out)
		}
		c.run(t, "systemctl", "start", "bulkshaper.service")
		c.runs(t, second)
		c.nothingDone(t)
		if now := c.shaping(t); now != standing {
			t.Errorf("what stood was\n%s\nand is\n%s", standing, now)
		}
	})

	step("purged, it takes all that is its own, and nothing else", func(t *testing.T) {
		c.run(t, "systemctl", "stop", "bulkshaper.service")
		c.run(t, "ip", "link", "set", "eth1", "down")
		c.run(t, "ip", "link", "set", "eth1", "name", "eth9") // and the config does not know
		others := c.run(t, "tc", "qdisc", "show", "dev", "wit0")
		if !strings.Contains(others, "tbf") {
			t.Fatalf("wit0 has %s", others)
		}
		out := c.dpkg(t, "--purge", "bulkshaper")
		t.Logf("a purge says\n%s", out)
		if !strings.Contains(out, "eth9 is no longer shaped") {
			t.Errorf("it does not say what it took away:\n%s", out)
		}
		if qdiscs := c.run(t, "tc", "qdisc", "show"); strings.Contains(qdiscs, "htb") {
			t.Errorf("it is shaped still:\n%s", qdiscs)
		}
		if now := c.run(t, "tc", "qdisc", "show", "dev", "wit0"); now != others {
			t.Errorf("somebody else's qdisc was %s and is %s", others, now)
		}
		for _, database := range []string{"passwd", "group"} {
			if out, err := c.try("getent", database, "bulkshaper"); err == nil {
				t.Errorf("in %s still: %s", database, out)
			}
		}
		// What is left is the operator's: the inventory and the drop-in.
		left := c.run(t, "find", "/etc", "/usr", "/var", "/run", "-xdev", "(", "-name", "*bulkshaper*", "-o", "-path", "/etc/bulkshaper/*", ")",
			"-not", "-path", "/var/log/*", "-not", "-path", "/etc/bulkshaper/nyc1/*")
		want := []string{"/etc/bulkshaper", "/etc/systemd/system/bulkshaper.service.d"}
		files, err := os.ReadDir("../../testdata/incident")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if file.Name() != "config.yaml" {
				want = append(want, "/etc/bulkshaper/"+file.Name())
			}
		}
		slices.Sort(want)
		if got := slices.Sorted(slices.Values(strings.Fields(left))); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("left are %q, want %q", got, want)
		}
		if out, err := c.try("systemctl", "is-enabled", "bulkshaper.service"); err == nil {
			t.Errorf("it is %s", out)
		}
	})
}
