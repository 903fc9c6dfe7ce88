package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bulkshaper/shaper"
)

// daemonHost is a node with a running daemon and its own copy of the incident's files.
type daemonHost struct {
	*host
	dir    string
	notify *net.UnixConn
	*daemonProcess
}

// startIncident runs the daemon on a copy of the incident and waits until it says that it is ready.
func startIncident(t *testing.T, args ...string) *daemonHost {
	t.Helper()
	d := &daemonHost{host: newHost(t), dir: copyTree(t, incident)}
	d.launch(args...)
	return d
}

func (d *daemonHost) config() string { return filepath.Join(d.dir, "config.yaml") }

// launch starts the daemon with a notify socket as systemd would, and waits for READY=1.
func (d *daemonHost) launch(args ...string) {
	d.host.t.Helper()
	d.listen()
	d.begin(args...)
	d.waitFor("READY=1")
}

func (d *daemonHost) listen() {
	d.host.t.Helper()
	path := filepath.Join(d.dir, "notify.sock")
	_ = os.Remove(path)
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		d.host.t.Fatal(err)
	}
	d.host.t.Cleanup(func() { conn.Close() })
	d.notify = conn
	d.env = append(d.env, "NOTIFY_SOCKET="+path)
}

func (d *daemonHost) begin(args ...string) {
	d.daemonProcess = d.start(append([]string{"--config", d.config(), "--run-dir", d.dir, "--listen", "127.0.0.1:0", "--log-format", "json"}, args...)...)
}

// waitFor reads notifications until one has text.
func (d *daemonHost) waitFor(text string) string {
	d.host.t.Helper()
	_ = d.notify.SetReadDeadline(time.Now().Add(20 * time.Second))
	buffer := make([]byte, 4096)
	for {
		n, err := d.notify.Read(buffer)
		if err != nil {
			d.host.t.Fatalf("waiting for %q: %v\n%s", text, err, d.text())
		}
		if message := string(buffer[:n]); strings.Contains(message, text) {
			return message
		}
	}
}

// status asks the daemon at its socket, as the command does. The shaping stands before anybody can ask, so it waits for an answer.
func (d *daemonHost) status() (s shaper.Status) {
	d.host.t.Helper()
	eventually(d.host.t, "an answer at the daemon's socket", func() (answered bool) {
		var err error
		s, err = daemonAsker(d.dir)(d.host.t.Context())
		return err == nil
	})
	return s
}

func (d *daemonHost) filters() string { return d.TC("filter", "show", "dev", "eth1", "parent", "1:") }

func (d *daemonHost) serverFile(name string) string {
	return filepath.Join(d.dir, "nyc1/jsons", name+".json")
}

// TestOneServerMoves edits one server's cabinet: only its filter is touched, counters go on, and the log has one line.
func TestOneServerMoves(t *testing.T) {
	t.Parallel()
	for _, layout := range []string{"list", "hash"} {
		t.Run(layout, func(t *testing.T) { oneServerMoves(t, layout) })
	}
}

func oneServerMoves(t *testing.T, layout string) {
	d := startIncident(t, "--layout", layout)
	for _, a := range []string{"10.241.28.14", "10.241.29.21", "203.0.113.1"} {
		d.Send(t, netip.MustParseAddr(a), 5)
	}
	counters := func() (sent [3]uint64) {
		counted, _ := d.counted()
		return [3]uint64{counted["1:10"], counted["1:20"], counted["1:100"]}
	}
	eventually(t, "packets counted", func() bool { return counters() == [3]uint64{5, 5, 5} })
	before := strings.Split(d.filters(), "\n")
	d.address() // it has told that it listens, too
	logged := len(d.lines(""))

	edit(t, d.serverFile("hadoop14"), strings.Replace(read(t, d.serverFile("hadoop14")), `"b12"`, `"b13"`, 1))
	eventually(t, "the filter of hadoop14 leads to 1:10", func() bool { return shownFilters(d.filters())["0af11c0e"] == "1:10" })

	var differ []string
	for i, line := range strings.Split(d.filters(), "\n") {
		if i >= len(before) || line != before[i] {
			differ = append(differ, line)
		}
	}
	if len(differ) != 1 || !strings.Contains(differ[0], "flowid 1:10") {
		t.Errorf("lines of tc filter show that changed, handles and all:\n%s", strings.Join(differ, "\n"))
	}
	if now := counters(); now != [3]uint64{5, 5, 5} {
		t.Errorf("counters after the move are %v", now)
	}
	eventually(t, "a line in the log", func() bool { return len(d.lines("")) > logged })
	time.Sleep(300 * time.Millisecond) // longer than the debounce: nothing more may follow
	lines := d.lines("")[logged:]
	if len(lines) != 1 || !strings.Contains(lines[0], "10.241.28.14") || !strings.Contains(lines[0], "hadoop14") {
		t.Errorf("the log about it:\n%s", strings.Join(lines, "\n"))
	}
	if s := d.status(); !s.InSync || s.LastReload.Result != shaper.ReloadSuccess || s.LastReload.Operations != 1 ||
		!slices.Equal(s.LastReload.Changed, []string{"move hadoop14 10.241.28.14 from cross-cabinet 1:20 to same-cabinet 1:10: by rule same-cabinet"}) {
		t.Errorf("status %+v", s)
	}
}

// TestBadInputKeepsTheLastGood breaks files in many ways while the daemon runs, and mends them.
func TestBadInputKeepsTheLastGood(t *testing.T) {
	t.Parallel()
	d := startIncident(t)
	roles, config := filepath.Join(d.dir, "roles.json"), d.config()
	before := d.filters() + d.TC("class", "show", "dev", "eth1")
	for name, c := range map[string]struct{ path, content string }{
		"roles truncated":      {roles, read(t, roles)[:100]},
		"roles emptied":        {roles, ""},
		"config of nonsense":   {config, "clases: {}\n"},
		"rate without a unit":  {config, strings.Replace(read(t, config), "819200kbit", "819200", 1)},
		"cabinet of true":      {d.serverFile("hadoop14"), strings.Replace(read(t, d.serverFile("hadoop14")), `"b12"`, `true`, 1)},
		"address twice":        {d.serverFile("hadoop14"), strings.Replace(read(t, d.serverFile("hadoop14")), "10.241.28.14", "10.241.28.15", 1)},
		"interface of another": {config, strings.Replace(read(t, config), "interface: eth1", "interface: eth7", 1)},
		"node unknown":         {d.serverFile("hadoop27"), strings.ReplaceAll(read(t, d.serverFile("hadoop27")), `"hadoop27`, `"hadoop99`)},
	} {
		t.Run(name, func(t *testing.T) {
			good := read(t, c.path)
			edit(t, c.path, c.content)
			eventually(t, "the reload fails", func() bool {
				s := d.status()
				return s.LastReload.Result == shaper.ReloadFailure && len(s.LastReload.Problems) > 0
			})
			if s := d.status(); !s.InSync {
				t.Errorf("not in sync with the last good input: %s", s.Reason)
			}
			if after := d.filters() + d.TC("class", "show", "dev", "eth1"); after != before {
				t.Errorf("the kernel changed:\n%s", after)
			}
			edit(t, c.path, good)
			eventually(t, "the reload succeeds", func() bool { return d.status().LastReload.Result == shaper.ReloadSuccess })
		})
	}
	if after := d.filters() + d.TC("class", "show", "dev", "eth1"); after != before {
		t.Errorf("the kernel changed:\n%s", after)
	}
}

// TestRepairs takes things away and changes them behind the daemon's back.
func TestRepairs(t *testing.T) {
	t.Parallel()
	d := startIncident(t)
	kernel := func() string {
		return stripCounters(d.TC("qdisc", "show", "dev", "eth1") + d.TC("class", "show", "dev", "eth1") + fmt.Sprint(shownFilters(d.filters())))
	}
	want := kernel()
	for _, batch := range []string{
		"filter delete dev eth1 parent 1: protocol ip pref 12000",
		"filter delete dev eth1 parent 1: protocol arp pref 11000",
		"class change dev eth1 parent 1: classid 1:20 htb rate 1mbit",
		"qdisc replace dev eth1 parent 1:20 handle 77: pfifo limit 3",
		"qdisc delete dev eth1 parent 1:20 handle b020:",
		"qdisc delete dev eth1 root",
	} {
		t.Run(strings.ReplaceAll(batch, " ", "-"), func(t *testing.T) {
			if err := d.TCBatch(batch); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the kernel as before", func() bool { return kernel() == want })
			eventually(t, "the status tells of it", func() bool {
				return strings.Contains(strings.Join(strings.Fields(d.must(d.args("status")...)), " "), "ago what somebody else changed")
			})
			// Repairs that follow each other closely are spaced out; a new daemon starts afresh.
			if code := d.stop(); code != exitDone {
				t.Fatalf("exit %d", code)
			}
			if kernel() != want {
				t.Fatalf("the shaping did not stay:\n%s", kernel())
			}
			d.launch()
		})
	}
}

// stripCounters takes out what changes by itself: the reference and packet counts.
func stripCounters(s string) string {
	return regexp.MustCompile(`refcnt \d+|direct_packets_stat \d+`).ReplaceAllString(s, "")
}

// TestContention replaces the root again and again: repairs are spaced out and the daemon says so, then it is calm again.
func TestContention(t *testing.T) {
	t.Parallel()
	d := startIncident(t)
	for range 6 {
		_, _ = d.TryTC("qdisc", "replace", "dev", "eth1", "root", "handle", "42:", "htb")
		time.Sleep(150 * time.Millisecond)
	}
	eventually(t, "contended", func() bool { return d.status().Contended })
	if c := d.status().Contention; c == nil || len(c.By) == 0 || !strings.HasPrefix(c.By[0], "process ") || len(c.Objects) == 0 ||
		c.Objects[0].Object != "the root qdisc" || !strings.HasPrefix(c.Objects[0].Why, "replaced by htb 42: (probably YARN's") {
		t.Errorf("it does not say who and what: %+v", c)
	}
	out := strings.Join(strings.Fields(d.must("status", "--config", d.config(), "--run-dir", d.dir)), " ")
	if !strings.Contains(out, "remedy: set yarn.nodemanager.resource.network.enabled to false") {
		t.Errorf("the remedy is not YARN's:\n%s", out)
	}
	eventually(t, "shaped again all the same", func() bool { return d.status().InSync && len(shownFilters(d.filters())) == 21 })
}

// TestLinkComesAndGoes removes and re-creates the interface, and takes it down and up.
func TestLinkComesAndGoes(t *testing.T) {
	t.Parallel()
	d := startIncident(t)
	d.Disconnect()
	eventually(t, "interface gone", func() bool { s := d.status(); return !s.InterfaceUp && s.InterfaceMissing && !s.InSync })
	d.Connect()
	eventually(t, "shaped again", func() bool { s := d.status(); return s.InterfaceUp && s.InSync && len(shownFilters(d.filters())) == 21 })
	d.Run(t, "ip", "link", "set", "eth1", "down")
	eventually(t, "interface down", func() bool { s := d.status(); return !s.InterfaceUp && !s.InterfaceMissing })
	d.Run(t, "ip", "link", "set", "eth1", "up")
	eventually(t, "interface up", func() bool { s := d.status(); return s.InterfaceUp && s.InSync })
	if repairs := d.lines("repaired"); len(repairs) != 0 {
		t.Errorf("a new link is not drift: %v", repairs)
	}
}

// TestInterfaceMayComeLate starts before there is an interface.
func TestInterfaceMayComeLate(t *testing.T) {
	t.Parallel()
	d := &daemonHost{host: newHost(t), dir: copyTree(t, incident)}
	d.Disconnect()
	d.listen()
	d.begin()
	d.waitFor("STATUS=")
	eventually(t, "told once", func() bool { return len(d.lines("no such interface")) == 1 })
	d.Connect()
	d.waitFor("READY=1")
	if len(shownFilters(d.filters())) != 21 {
		t.Error("not shaped")
	}
}

// TestHangupReloads announces and ends a reload as systemd expects.
func TestHangupReloads(t *testing.T) {
	t.Parallel()
	d := startIncident(t, "--debounce", "1h")
	edit(t, d.config(), strings.Replace(read(t, d.config()), "rate: 819200kbit", "rate: 700mbit", 1))
	d.signal(syscall.SIGHUP)
	if m := d.waitFor("RELOADING=1"); !strings.Contains(m, "MONOTONIC_USEC=") {
		t.Errorf("reload announced without a time: %q", m)
	}
	d.waitFor("READY=1")
	if classes := d.TC("class", "show", "dev", "eth1"); !strings.Contains(classes, "rate 700Mbit ceil 700Mbit") {
		t.Errorf("after the reload:\n%s", classes)
	}
}

// TestRestartAdopts kills the daemon and starts it again: nothing is sent, counters go on.
func TestRestartAdopts(t *testing.T) {
	t.Parallel()
	d := startIncident(t)
	d.Send(t, netip.MustParseAddr("10.241.28.14"), 7)
	eventually(t, "counted", func() bool { c, _ := d.counted(); return c["1:20"] == 7 })
	d.kill()
	d.launch()
	if c, _ := d.counted(); c["1:20"] != 7 {
		t.Errorf("counter is %d", c["1:20"])
	}
	if changed := d.lines("shaping changed"); len(changed) != 0 {
		t.Errorf("the restart changed something: %v", changed)
	}
}
