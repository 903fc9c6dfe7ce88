package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bulkshaper/cmd/bulkshaper/ask"
)

// soaked is the daemon, its files and their good content.
type soaked struct {
	*daemonHost
	random *rand.Rand
	client *http.Client
	layout string

	servers map[string]soakServer
	next    int // number of the next new server
	members map[string][]string
	rate    int
	extra   bool // a class and a rule more
	broken  string
	faults  int
	last    string
}

type soakServer struct {
	address, prefix int
	cabinet         string
	wide            bool // an IPv6 address, too
}

const soakServers = 30

func newSoaked(t *testing.T, layout string, random *rand.Rand) *soaked {
	t.Helper()
	s := &soaked{daemonHost: &daemonHost{host: newHost(t), dir: t.TempDir()}, random: random, layout: layout, rate: 100,
		servers: map[string]soakServer{}, members: map[string][]string{"hadoop_node": nil, "monitoring": nil}}
	if err := os.MkdirAll(filepath.Join(s.dir, "dc/jsons"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range soakServers {
		s.add()
	}
	s.writeRoles()
	s.writeConfig()
	s.launch("--debounce", "0s", "--rescan", "1h", "--resync", "1s")
	s.client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", filepath.Join(s.dir, ask.SocketName))
	}}}
	t.Cleanup(s.client.CloseIdleConnections)
	eventually(t, "an answer", func() bool { // it may be ready before it answers
		response, err := s.client.Get("http://daemon/-/healthy")
		if err == nil {
			response.Body.Close()
		}
		return err == nil
	})
	return s
}

func (s *soaked) path(name string) string { return filepath.Join(s.dir, "dc/jsons", name+".json") }

func (s *soaked) text(name string) string {
	v := s.servers[name]
	addresses := fmt.Sprintf(`"10.7.%d.%d"`, v.address>>8, v.address&255)
	if v.wide {
		addresses += fmt.Sprintf(`, "2001:db8::%x"`, v.address+1)
	}
	return fmt.Sprintf(`{"name": %q, "ip_addresses": [%s], "cabinet": %q, "datacenter": "d", "prefixes": ["10.%d.%d.0/24"]}`, name, addresses, v.cabinet, 100+v.prefix>>8, v.prefix&255)
}

// add is a new server. Its numbers are nobody else's; now and then they are those of one that went.
func (s *soaked) add() {
	name := fmt.Sprintf("s%d", s.next)
	number := s.next % 1000
	s.next++
	for _, other := range s.servers {
		if other.address == number || other.prefix == number {
			return
		}
	}
	s.servers[name] = soakServer{address: number, prefix: number, cabinet: s.cabinet(), wide: s.random.IntN(3) == 0}
	edit(s.host.t, s.path(name), s.text(name))
}

func (s *soaked) cabinet() string { return fmt.Sprintf("c%d", s.random.IntN(4)) }

// someone is a server, never the node itself where others is true.
func (s *soaked) someone(others bool) string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(s.servers)), func(n string) bool { return others && n == "s0" })
	return names[s.random.IntN(len(names))]
}

func (s *soaked) writeRoles() {
	var names []string
	for name := range s.servers {
		names = append(names, strconv.Quote(name))
	}
	slices.Sort(names)
	role := func(r string) string {
		var quoted []string
		for _, n := range s.members[r] {
			quoted = append(quoted, strconv.Quote(n))
		}
		return fmt.Sprintf("%q: [%s]", r, strings.Join(quoted, ", "))
	}
	edit(s.host.t, filepath.Join(s.dir, "roles.json"), fmt.Sprintf(`{"servers": [%s], "roles": ["hadoop_node", "monitoring"], "mapping": {%s, %s}}`,
		strings.Join(names, ", "), role("hadoop_node"), role("monitoring")))
}

func (s *soaked) writeConfig() {
	class, rule := "", ""
	if s.extra {
		class, rule = "  extra: {id: 40, rate: 10mbit}\n", "  - {name: extra, match: {server: 's1*'}, class: extra}\n"
	}
	edit(s.host.t, s.config(), fmt.Sprintf(`interface: eth1
node: s0
link_rate: 1gbit
layout: %s
inventory: {roles: roles.json, servers: [dc/jsons], max_shrink: 90%%}
classes:
  near: {id: 10, rate: %dmbit}
  far: {id: 20, rate: {of: 1gbit, use: 80%%, among: {role: hadoop_node}}}
  watch: {id: 30, rate: 50mbit}
  rest: {id: 100, rate: 100mbit}
%sdefault_class: rest
rules:
%s  - {name: near, match: {cabinet: same}, class: near}
  - {name: watch, match: {role: monitoring}, class: watch}
  - {name: far, match: {role: hadoop_node}, class: far}
`, s.layout, s.rate, class, rule))
}

// edit changes something and waits until the daemon has read since. What was broken by the last edit is mended first.
func (s *soaked) edit() {
	before := s.reloads()
	t := s.host.t
	if s.broken != "" {
		s.mendFile()
	}
	what := s.random.IntN(100)
	s.last = fmt.Sprint(what, s.broken)
	switch {
	case what < 40: // a server moves
		name := s.someone(false)
		v := s.servers[name]
		v.cabinet = s.cabinet()
		s.servers[name] = v
		edit(t, s.path(name), s.text(name)+strings.Repeat(" ", s.random.IntN(3)))
	case what < 50: // gets other addresses, written in place
		name := s.someone(true)
		v := s.servers[name]
		v.wide = !v.wide
		s.servers[name] = v
		if err := os.WriteFile(s.path(name), []byte(s.text(name)+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	case what < 58:
		if len(s.servers) < soakServers*3/2 { // growth is to be the daemon's, not the inventory's
			s.add()
		}
		s.touch()
	case what < 66:
		if name := s.someone(true); len(s.servers) > soakServers/2 {
			delete(s.servers, name)
			remove(t, s.path(name))
		}
		s.touch()
	case what < 76: // a role is given to others
		role := []string{"hadoop_node", "monitoring"}[s.random.IntN(2)]
		s.members[role] = nil
		for range s.random.IntN(12) {
			if name := s.someone(false); !slices.Contains(s.members[role], name) {
				s.members[role] = append(s.members[role], name)
			}
		}
		s.writeRoles()
	case what < 84:
		s.rate = 50 + s.random.IntN(100)
		s.writeConfig()
	case what < 87:
		s.extra = !s.extra
		s.writeConfig()
	case what < 92:
		s.signal(syscall.SIGHUP)
	default:
		s.broken = []string{s.path(s.someone(true)), filepath.Join(s.dir, "roles.json"), s.config()}[s.random.IntN(3)]
		whole := read(t, s.broken)
		edit(t, s.broken, []string{"", whole[:len(whole)/2], "{\"a\": ", strings.Repeat("[", 200), "\x00\x00"}[s.random.IntN(5)])
	}
	s.waitFor(before)
}

// touch has something to read where nothing changed.
func (s *soaked) touch() { s.writeRoles() }

// mendFile gives the file of the last broken edit its good content.
func (s *soaked) mendFile() {
	switch name := strings.TrimSuffix(filepath.Base(s.broken), ".json"); {
	case s.broken == s.config():
		s.writeConfig()
	case name == "roles":
		s.writeRoles()
	default:
		edit(s.host.t, s.broken, s.text(name))
	}
	s.broken = ""
}

// fault does now and then what another hand may do. What fails had nothing to work on.
func (s *soaked) fault() {
	if s.random.IntN(8) > 0 {
		return
	}
	s.faults++
	h := s.host
	filters := func() []string {
		return regexp.MustCompile(`pref (\d+) u32 chain 0 fh ([0-9a-f]+:[0-9a-f]*:[0-9a-f]+)`).FindAllString(h.TC("filter", "show", "dev", "eth1", "parent", "1:"), -1)
	}
	try := func(args ...string) { _, _ = h.TryTC(args...) }
	switch what := s.random.IntN(40); {
	case what < 12: // a filter goes
		if all := filters(); len(all) > 0 {
			f := strings.Fields(all[s.random.IntN(len(all))])
			protocol := "ip"
			if f[1] == "11000" {
				return
			}
			if n, _ := strconv.Atoi(f[1]); n == 11001 || n == 11101 || n >= 13000 {
				protocol = "ipv6"
			}
			try("filter", "delete", "dev", "eth1", "parent", "1:", "protocol", protocol, "pref", f[1], "handle", f[6], "u32")
		}
	case what < 16:
		try("filter", "delete", "dev", "eth1", "parent", "1:", "pref", []string{"11000", "11001", "11100", "11101", "12000", "13000"}[s.random.IntN(6)])
	case what < 20:
		try("class", "change", "dev", "eth1", "parent", "1:", "classid", "1:10", "htb", "rate", "3mbit")
	case what < 24:
		try("qdisc", "delete", "dev", "eth1", "parent", "1:20")
	case what < 26:
		try("qdisc", "replace", "dev", "eth1", "parent", "1:100", "handle", "77:", "pfifo", "limit", "3")
	case what < 28:
		try("class", "add", "dev", "eth1", "parent", "1:", "classid", "1:b5", "htb", "rate", "1mbit")
		try("class", "delete", "dev", "eth1", "classid", "1:b5")
	case what < 32:
		try("filter", "add", "dev", "eth1", "parent", "1:", "protocol", "ip", "pref", "12000", "u32", "match", "ip", "dst", "10.7.0.3/32", "flowid", "1:30")
	case what < 34:
		try("qdisc", "delete", "dev", "eth1", "root")
	case what < 39:
		h.Run(h.t, "ip", "link", "set", "eth1", "down")
		h.Run(h.t, "ip", "link", "set", "eth1", "up")
	default:
		h.Disconnect()
		h.Connect()
	}
}
