package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bulkshaper/shaper"
	"bulkshaper/shaper/kernel/kerneltest"
	"bulkshaper/shaper/u32"
)

// soakSeed repeats a soak: its value is the seed that the failed one logged.
const soakSeed = "SOAK_SEED"

// TestSoak reloads one daemon again and again, with random edits, broken files and another hand's faults, while it is scraped. It may
// not grow, in itself or in the kernel, and what stands in the end is what a fresh apply makes.
func TestSoak(t *testing.T) {
	t.Parallel()
	for _, layout := range []string{"hash", "list"} {
		t.Run(layout, func(t *testing.T) { soak(t, layout, soakEdits) })
	}
}

func soak(t *testing.T, layout string, edits int) {
	seed := rand.Uint64()
	if text := os.Getenv(soakSeed); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s=%d", soakSeed, seed)
	s := newSoaked(t, layout, rand.New(rand.NewPCG(seed, 1)))
	stop := s.scrapeMeanwhile()
	var samples []sample
	window := edits / soakWindows
	for i := range edits {
		s.fault()
		s.edit()
		if (i+1)%window == 0 {
			samples = append(samples, s.sample())
			t.Logf("%5d edits: %s", i+1, samples[len(samples)-1])
		}
	}
	stop()
	s.mend()
	if reloads := s.reloads(); reloads < float64(edits) {
		t.Errorf("%.0f reloads after %d edits", reloads, edits)
	}
	checkGrowth(t, samples)
	s.isFresh()
}

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
	s.client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{Dial: func(string, string) (net.Conn, error) {
		return net.Dial("unix", filepath.Join(s.dir, socketName))
	}}}
	t.Cleanup(s.client.CloseIdleConnections)
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
	names := slices.DeleteFunc(slices.Sorted(mapsKeys(s.servers)), func(n string) bool { return others && n == "s0" })
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
		s.add()
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

// mapsKeys is maps.Keys.
func mapsKeys(m map[string]soakServer) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// metrics are the values of a scrape, those without labels, and the sum over labels of the others.
func (s *soaked) metrics() map[string]float64 {
	response, err := s.client.Get("http://daemon/metrics")
	if err != nil {
		s.host.t.Fatalf("scrape: %v", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		s.host.t.Fatalf("scrape: %s, %v", response.Status, err)
	}
	values := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil && !strings.HasPrefix(line, "#") {
			name, _, _ = strings.Cut(name, "{")
			values[name] += v
		}
	}
	return values
}

func (s *soaked) reloads() float64 { return s.metrics()["bulkshaper_inventory_reloads_total"] }

// waitFor waits until there were more than so many reloads.
func (s *soaked) waitFor(before float64) {
	s.host.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for s.reloads() <= before {
		if time.Now().After(deadline) {
			s.signal(syscall.SIGQUIT)
			time.Sleep(time.Second)
			s.host.t.Fatalf("no reload after edit %s; %.0f before; broken %s, status %+v", s.last, before, s.broken, s.status())
		}
		time.Sleep(time.Millisecond)
	}
}

// scrapeMeanwhile asks for metrics and status all the time, until the function that it returns is called. Every answer is whole.
func (s *soaked) scrapeMeanwhile() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{}, 2)
	client := &http.Client{Timeout: 10 * time.Second, Transport: s.client.Transport}
	for _, path := range []string{"/metrics", "/api/v1/status"} {
		go func() {
			defer func() { done <- struct{}{} }()
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-quit:
					return
				case <-tick.C:
				}
				response, err := client.Get("http://daemon" + path)
				if err != nil {
					s.host.t.Errorf("get %s: %v", path, err)
					return
				}
				_, err = io.Copy(io.Discard, response.Body)
				response.Body.Close()
				if err != nil || response.StatusCode != http.StatusOK {
					s.host.t.Errorf("get %s: %s, %v", path, response.Status, err)
					return
				}
			}
		}()
	}
	return func() { close(quit); <-done; <-done }
}

// sample is how large everything is.
type sample struct {
	heap, resident, goroutines, descriptors float64
	objects                                 // in the kernel
}

type objects struct{ tables, nodes, classes, qdiscs int }

func (s sample) String() string {
	return fmt.Sprintf("heap %.2f MiB, resident %.1f MiB, %.0f goroutines, %.0f descriptors, kernel %+v", s.heap/(1<<20), s.resident/(1<<20), s.goroutines, s.descriptors, s.objects)
}

// sample takes the least of some scrapes: of the heap that is what was there after a collection, about.
func (s *soaked) sample() sample {
	least := sample{math.Inf(1), math.Inf(1), math.Inf(1), math.Inf(1), objects{}}
	collections := s.metrics()["go_gc_duration_seconds_count"]
	for n := 0; n < 20 || s.metrics()["go_gc_duration_seconds_count"] < collections+3; n++ {
		m := s.metrics()
		least.heap = min(least.heap, m["go_memstats_heap_alloc_bytes"])
		least.resident = min(least.resident, m["process_resident_memory_bytes"])
		least.goroutines = min(least.goroutines, m["go_goroutines"])
		least.descriptors = min(least.descriptors, m["process_open_fds"])
	}
	least.objects = s.host.objects()
	return least
}

// objects are counted as tc shows them.
func (h *host) objects() objects {
	filters := h.TC("filter", "show", "dev", "eth1", "parent", "1:")
	return objects{strings.Count(filters, "ht divisor"), strings.Count(filters, "flowid") + strings.Count(filters, "link "),
		strings.Count(h.TC("class", "show", "dev", "eth1"), "class htb"), strings.Count(h.TC("qdisc", "show", "dev", "eth1"), "qdisc ")}
}

// checkGrowth compares the end with the beginning, where everything was in use once.
func checkGrowth(t *testing.T, samples []sample) {
	t.Helper()
	part := len(samples) / 3
	worst := func(samples []sample, of func(sample) float64) float64 {
		most := 0.0
		for _, s := range samples {
			most = max(most, of(s))
		}
		return most
	}
	for _, c := range []struct {
		what  string
		of    func(sample) float64
		share float64 // of what was there, that may come on top
		more  float64
	}{
		{"heap", func(s sample) float64 { return s.heap }, 0.15, 1 << 20},
		{"resident memory", func(s sample) float64 { return s.resident }, 0.2, 8 << 20},
		{"goroutines", func(s sample) float64 { return s.goroutines }, 0, 3},
		{"descriptors", func(s sample) float64 { return s.descriptors }, 0, 3},
		{"tables", func(s sample) float64 { return float64(s.tables) }, 0.5, 8},
		{"filters", func(s sample) float64 { return float64(s.nodes) }, 0.5, 40},
		{"classes", func(s sample) float64 { return float64(s.classes) }, 0, 2},
		{"qdiscs", func(s sample) float64 { return float64(s.qdiscs) }, 0, 2},
	} {
		first, last := worst(samples[:part], c.of), worst(samples[len(samples)-part:], c.of)
		if last > first*(1+c.share)+c.more {
			t.Errorf("%s grew from %.0f to %.0f", c.what, first, last)
		}
	}
}

// mend ends with good files and a kernel in sync.
func (s *soaked) mend() {
	if s.broken != "" {
		s.mendFile()
	}
	s.host.t.Helper()
	eventually(s.host.t, "in sync with good files", func() bool {
		before := s.reloads()
		s.rate++ // an edit is taken at once, also where repairs are spaced out
		s.writeConfig()
		s.waitFor(before)
		v := s.status()
		return v.InSync && v.LastReload.Result == shaper.ReloadSuccess
	})
}

// isFresh compares what stands with what a fresh apply of the same files makes elsewhere.
func (s *soaked) isFresh() {
	t := s.host.t
	fresh := newHost(t)
	fresh.must("apply", "--config", s.config())
	sorted := func(text string) string {
		lines := strings.Split(strings.TrimSpace(stripCounters(text)), "\n")
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	for _, args := range [][]string{{"qdisc", "show", "dev", "eth1"}, {"class", "show", "dev", "eth1"}} {
		if is, want := sorted(s.TC(args...)), sorted(fresh.TC(args...)); is != want {
			t.Errorf("tc %s shows\n%s\nafter a fresh apply\n%s", args[0], is, want)
		}
	}
	if is, want := nodesOf(s.filters()), nodesOf(fresh.TC("filter", "show", "dev", "eth1", "parent", "1:")); !slices.Equal(is, want) {
		t.Errorf("filters match and lead to\n%s\nafter a fresh apply\n%s", strings.Join(is, "\n"), strings.Join(want, "\n"))
	}
	if is, want := s.host.objects(), fresh.objects(); is.tables > 2*want.tables+8 {
		t.Errorf("%d tables, after a fresh apply %d", is.tables, want.tables)
	}
	s.sameClasses(fresh)
}

// nodesOf are the filters of tc's listing without their handles: what they match and where they lead, sorted. Links are left out.
func nodesOf(text string) []string {
	var nodes []string
	flow := regexp.MustCompile(`protocol (\S+) .*flowid (\S+)`)
	current := ""
	end := func() {
		if current != "" {
			nodes = append(nodes, current)
		}
		current = ""
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "filter") {
			end()
			if m := flow.FindStringSubmatch(line); m != nil {
				current = m[1] + " " + m[2]
			}
		} else if m := strings.TrimSpace(line); strings.HasPrefix(m, "match") && current != "" {
			current += " " + m
		}
	}
	end()
	slices.Sort(nodes)
	return nodes
}

// sameClasses sends to every server, to what is beside it and to strangers, from both hosts, and compares what the classes count.
func (s *soaked) sameClasses(fresh *host) {
	t := s.host.t
	var destinations []netip.Addr
	for _, v := range s.servers {
		a := netip.AddrFrom4([4]byte{10, 7, byte(v.address >> 8), byte(v.address)})
		p := netip.AddrFrom4([4]byte{10, byte(100 + v.prefix>>8), byte(v.prefix), 77})
		destinations = append(destinations, a, a.Next(), p, netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", v.address+1)))
	}
	destinations = append(destinations, netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("2001:db9::1"))
	gained := func(h *host, a netip.Addr) string {
		before, _ := h.counted()
		packet, protocol := u32.Packet(a)
		h.SendFrame(t, kerneltest.EthernetFrame(uint16(protocol), packet), 1) // an interface that was down has lost its routes
		class := ""
		eventually(t, "a packet counted", func() bool {
			after, _ := h.counted()
			for id, n := range after {
				if n > before[id] {
					class = id
				}
			}
			return class != ""
		})
		return class
	}
	seen := map[string]int{}
	for _, a := range destinations {
		if strings.HasPrefix(a.String(), "10.7.0.0") || a == netip.MustParseAddr("2001:db8::1") {
			continue // the node's own
		}
		is, want := gained(s.host, a), gained(fresh, a)
		seen[is]++
		if is != want {
			t.Errorf("a packet to %s is in %s, after a fresh apply in %s", a, is, want)
		}
	}
	if len(seen) < 2 {
		t.Errorf("all packets are in %v", seen)
	}
}
