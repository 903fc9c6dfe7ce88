package main

import (
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bulkshaper/shaper"
)

// write makes files in a new folder.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// TestFoldersOfAnEditedConfigAreFollowed points the config to another folder, and edits a file there: no rescan is near.
func TestFoldersOfAnEditedConfigAreFollowed(t *testing.T) {
	t.Parallel()
	d := startIncident(t, "--rescan", "1h")
	moved := filepath.Join(d.dir, "lax1")
	if err := os.CopyFS(moved, os.DirFS(filepath.Join(d.dir, "nyc1"))); err != nil {
		t.Fatal(err)
	}
	here := func(file, class string) {
		t.Helper()
		edit(t, file, strings.Replace(read(t, file), `"b12"`, `"b13"`, 1))
		eventually(t, "the edit of "+file+" is followed", func() bool { return shownFilters(d.filters())["0af11c0e"] == class })
	}
	here(d.serverFile("hadoop14"), "1:10")
	edit(t, d.config(), strings.Replace(read(t, d.config()), "nyc1/jsons", "lax1/jsons", 1))
	eventually(t, "the config is followed", func() bool { return shownFilters(d.filters())["0af11c0e"] == "1:20" })
	here(filepath.Join(moved, "jsons/hadoop14.json"), "1:10")
}

// TestConfigBehindALink edits the file that the config's path is a link to.
func TestConfigBehindALink(t *testing.T) {
	t.Parallel()
	d := &daemonHost{host: newHost(t), dir: copyTree(t, incident)}
	real := filepath.Join(copyTree(t, incident), "config.yaml")
	edit(t, real, strings.Replace(strings.Replace(read(t, real), "roles: roles.json", "roles: "+d.dir+"/roles.json", 1), "nyc1/jsons", d.dir+"/nyc1/jsons", 1))
	remove(t, d.config())
	if err := os.Symlink(real, d.config()); err != nil {
		t.Fatal(err)
	}
	d.launch("--rescan", "1h")
	edit(t, real, strings.Replace(read(t, real), "rate: 819200kbit", "rate: 700mbit", 1))
	eventually(t, "the edit is followed", func() bool { return strings.Contains(d.TC("class", "show", "dev", "eth1"), "rate 700Mbit") })
}

// TestConfigMap has config, roles and servers in one folder, as Kubernetes mounts them, and swaps its ..data link.
func TestConfigMap(t *testing.T) {
	t.Parallel()
	d := &daemonHost{host: newHost(t), dir: t.TempDir()}
	point := func(cabinet string) {
		t.Helper()
		version, _ := os.MkdirTemp(d.dir, "..2026_")
		for name, text := range map[string]string{
			"config.yaml": "interface: eth1\nnode: a\nlink_rate: 1gbit\nlayout: list\ninventory: {roles: roles.json, servers: [.], rescan: 1h}\n" +
				"rules:\n  - {name: same, match: {cabinet: same}, class: same-cabinet}\n",
			"roles.json": `{"servers": ["a", "b"], "roles": ["hadoop_node"], "mapping": {"hadoop_node": ["a", "b"]}}`,
			"a.json":     `{"name": "a", "ip": "10.0.0.1", "cabinet": "x", "datacenter": "d"}`,
			"b.json":     `{"name": "b", "ip": "10.0.0.2", "cabinet": "` + cabinet + `", "datacenter": "d"}`,
		} {
			if err := os.WriteFile(filepath.Join(version, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(filepath.Join(d.dir, name)); err != nil {
				if err := os.Symlink("..data/"+name, filepath.Join(d.dir, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := os.Symlink(filepath.Base(version), filepath.Join(d.dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		move(t, filepath.Join(d.dir, "..data_tmp"), filepath.Join(d.dir, "..data"))
	}
	point("y")
	d.launch()
	leads := func(class string) func() bool {
		return func() bool { return shownFilters(d.filters())["0a000002"] == class }
	}
	eventually(t, "b is elsewhere", leads("1:100"))
	point("x")
	eventually(t, "b is here", leads("1:10"))
	if s := d.status(); s.Servers != 2 || len(s.Warnings) != 0 {
		t.Errorf("%d servers, warnings %q", s.Servers, s.Warnings)
	}
}

// TestShrunkInventoryIsRefused takes most of the servers away, as an rsync at work does, and brings them back.
func TestShrunkInventoryIsRefused(t *testing.T) {
	t.Parallel()
	d := startIncident(t)
	before := d.filters()
	folder, away := filepath.Join(d.dir, "nyc1/jsons"), t.TempDir()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var gone []string
	for _, e := range entries {
		if len(gone) < 15 && e.Name() != "hadoop27.json" {
			gone = append(gone, e.Name())
		}
	}
	for _, name := range gone {
		move(t, filepath.Join(folder, name), filepath.Join(away, name))
	}
	eventually(t, "the reload fails", func() bool {
		s := d.status()
		return s.LastReload.Result == shaper.ReloadFailure && strings.Contains(strings.Join(s.LastReload.Problems, " "), "max_shrink")
	})
	if d.filters() != before {
		t.Error("filters changed")
	}
	for _, name := range gone {
		move(t, filepath.Join(away, name), filepath.Join(folder, name))
	}
	eventually(t, "the reload succeeds", func() bool { s := d.status(); return s.LastReload.Result == shaper.ReloadSuccess && s.InSync })
	if d.filters() != before {
		t.Error("filters changed")
	}
}

// TestReloadsLoseNoPacket sends all the time to a server whose cabinet is edited, while classes come, go and change, the daemon is
// killed and started, and files are broken (LibreQoS#47, #515, #518; pumba#343). Every packet arrives, and none goes past the classes.
func TestReloadsLoseNoPacket(t *testing.T) {
	t.Parallel()
	d := startIncident(t)
	received := make(chan map[uint32]bool)
	stop := make(chan struct{})
	listener := d.listenTo(t, "10.241.28.14:7009")
	go receive(listener, stop, received)
	sent := make(chan uint32)
	finish := make(chan struct{})
	go d.sendNumbered(t, "10.241.28.14:7009", finish, sent)

	config, file := read(t, d.config()), d.serverFile("hadoop14")
	there, elsewhere := read(t, file), strings.Replace(read(t, file), `"b12"`, `"b13"`, 1)
	edited := func(path, text, what string, done func() bool) {
		t.Helper()
		edit(t, path, text)
		eventually(t, what, done)
	}
	classes := func(text string) func() bool {
		return func() bool { return strings.Contains(d.TC("class", "show", "dev", "eth1"), text) }
	}
	leads := func(class string) func() bool {
		return func() bool { return shownFilters(d.filters())["0af11c0e"] == class }
	}
	edited(file, elsewhere, "hadoop14 here", leads("1:10"))
	edited(d.config(), strings.Replace(config, "rate: 819200kbit", "rate: 500mbit", 1), "another rate", classes("rate 500Mbit"))
	edited(file, there, "hadoop14 there", leads("1:20"))
	edited(d.config(), strings.Replace(config, "id: 20,", "id: 2f,", 1), "another id", leads("1:2f"))
	edited(d.config(), config, "the id of before", leads("1:20"))
	edited(file, "{", "a broken file", func() bool { return d.status().LastReload.Result == shaper.ReloadFailure })
	edited(file, there, "a good file", func() bool { return d.status().LastReload.Result == shaper.ReloadSuccess })
	d.kill()
	edit(t, file, elsewhere)
	d.launch()
	eventually(t, "followed after the start", leads("1:10"))
	if s := d.status(); !s.InSync {
		t.Errorf("not in sync: %s", s.Reason)
	}
	close(finish)
	last := <-sent
	time.AfterFunc(300*time.Millisecond, func() { close(stop) }) // what is on its way arrives in less
	got := <-received
	if last < 200 || len(got) != int(last) {
		t.Errorf("%d packets of %d arrived", len(got), last)
	}
	if _, direct := d.counted(); direct != 0 {
		t.Errorf("%d packets went past all classes", direct)
	}
}

// listenTo opens a socket at an address of the peer.
func (d *daemonHost) listenTo(t *testing.T, address string) (conn net.PacketConn) {
	t.Helper()
	var err error
	d.Peer().Do(func() { conn, err = net.ListenPacket("udp", address) })
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// receive collects the numbers that arrive until stop.
func receive(conn net.PacketConn, stop <-chan struct{}, received chan<- map[uint32]bool) {
	got := map[uint32]bool{}
	defer func() { received <- got }()
	defer conn.Close()
	_ = conn.(*net.UDPConn).SetReadBuffer(8 << 20) // or what the system allows
	go func() { <-stop; _ = conn.SetReadDeadline(time.Now()) }()
	buffer := make([]byte, 64)
	for {
		n, _, err := conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		if n == 4 {
			got[binary.BigEndian.Uint32(buffer)] = true
		}
	}
}

// sendNumbered sends a number each millisecond until finish, and tells how many.
func (d *daemonHost) sendNumbered(t *testing.T, address string, finish <-chan struct{}, sent chan<- uint32) {
	n := uint32(0)
	defer func() { sent <- n }()
	var conn net.Conn
	var err error
	d.Do(func() { conn, err = net.Dial("udp", address) })
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-finish:
			return
		case <-tick.C:
			if _, err := conn.Write(binary.BigEndian.AppendUint32(nil, n)); err != nil {
				t.Errorf("send: %v", err)
				return
			}
			n++
		}
	}
}
