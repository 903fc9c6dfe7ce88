package main

import (
	"encoding/json"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"bulkshaper/shaper"
)

// sentBy is what the classes of an interface have sent, packets by name, as status tells it.
func (h *host) sentBy(args ...string) map[string]uint64 {
	h.t.Helper()
	var s shaper.Status
	if err := json.Unmarshal([]byte(h.must(append([]string{"status", "--format", "json", "--run-dir", h.t.TempDir()}, args...)...)), &s); err != nil {
		h.t.Fatal(err)
	}
	sent := map[string]uint64{}
	for _, c := range s.Classes {
		sent[c.Name] = c.SentPackets
		if c.Dropped > 0 {
			h.t.Errorf("class %s dropped %d packets", c.Name, c.Dropped)
		}
	}
	return sent
}

// TestQueueLength0 shapes an interface whose own queue length is 0, before and after: its leaves hold packets all the same.
func TestQueueLength0(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.Run(t, "ip", "link", "set", "eth1", "txqueuelen", "0")
	h.must("apply", "--config", incidentConfig())
	h.Send(t, netip.MustParseAddr("10.241.28.14"), 20)
	eventually(t, "20 packets sent, none dropped", func() bool { return h.sentBy("--config", incidentConfig())["cross-cabinet"] == 20 })
	h.Run(t, "ip", "link", "set", "eth1", "txqueuelen", "500")
	h.Run(t, "ip", "link", "set", "eth1", "txqueuelen", "0")
	h.must("plan", "--exit-code", "--config", incidentConfig())
	h.Send(t, netip.MustParseAddr("10.241.28.14"), 20)
	eventually(t, "20 more", func() bool { return h.sentBy("--config", incidentConfig())["cross-cabinet"] == 40 })
}

// TestKindsOfInterface shapes what bulk traffic leaves by elsewhere: a macvlan, and an ifb, which tells no speed.
func TestKindsOfInterface(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"macvlan", "ifb", "bridge"} {
		t.Run(kind, func(t *testing.T) {
			h := newHost(t)
			args := map[string][]string{"macvlan": {"link", "eth1", "name", "bulk0", "type", "macvlan", "mode", "bridge"},
				"ifb": {"name", "bulk0", "type", "ifb"}, "bridge": {"name", "bulk0", "type", "bridge"}}[kind]
			h.Run(t, "ip", append([]string{"link", "add"}, args...)...)
			h.Run(t, "ip", "link", "set", "bulk0", "arp", "off", "up")
			h.Run(t, "ip", "addr", "add", "192.0.2.77/32", "dev", "bulk0")
			h.Run(t, "ip", "neigh", "replace", "192.0.2.254", "dev", "bulk0", "lladdr", "02:00:00:00:00:02", "nud", "permanent")
			h.Run(t, "ip", "route", "add", "10.241.28.14/32", "via", "192.0.2.254", "dev", "bulk0", "onlink")
			on := []string{"--config", incidentConfig(), "--interface", "bulk0"}
			h.must(append([]string{"apply"}, on...)...)
			h.must(append([]string{"plan", "--exit-code"}, on...)...)
			h.Send(t, netip.MustParseAddr("10.241.28.14"), 5)
			eventually(t, "5 packets in the class", func() bool { return h.sentBy(on...)["cross-cabinet"] == 5 })
			h.must(append([]string{"clear"}, on...)...)
		})
	}
}

// TestUnknownSpeed needs link_rate where rates are in percent, and says so; a guess would be a wrong limit.
func TestUnknownSpeed(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.Run(t, "ip", "link", "add", "name", "bulk0", "type", "ifb")
	on := []string{"--node", "hadoop27", "--interface", "bulk0", "--roles", incident + "/roles.json", "--servers", incident + "/nyc1/jsons"}
	r := h.run(append([]string{"apply"}, on...)...)
	if r.code != exitWrong || !strings.Contains(r.stderr, "speed") || !strings.Contains(r.stderr, "--link-rate") {
		t.Errorf("exit %d, %s", r.code, r.stderr)
	}
	out := h.must(append([]string{"plan", "--format", "json", "--link-rate", "10gbit"}, on...)...)
	if !strings.Contains(out, `"rate_bits_per_second": 8000000000`) {
		t.Errorf("80%% of 10gbit:\n%s", out[:min(len(out), 600)])
	}
	// veth tells 10 Gbit/s of itself, so nothing has to be given there.
	out = h.must("plan", "--format", "json", "--node", "hadoop27", "--interface", "eth1", "--roles", incident+"/roles.json", "--servers", incident+"/nyc1/jsons")
	if !strings.Contains(out, `"rate_bits_per_second": 8000000000`) {
		t.Errorf("80%% of the link's own speed:\n%s", out[:min(len(out), 600)])
	}
}

// TestTunnelsAreSeenByTheirOuterHeader sends through VXLAN: the class is that of the server at the far end, whatever the inner
// address says (firehol#234).
func TestTunnelsAreSeenByTheirOuterHeader(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.Run(t, "ip", "link", "add", "pods", "type", "vxlan", "id", "7", "dstport", "4789", "remote", "10.241.28.14", "dev", "eth1")
	h.Run(t, "ip", "link", "set", "pods", "arp", "off", "up")
	h.Run(t, "ip", "neigh", "replace", "10.99.0.2", "dev", "pods", "lladdr", "02:00:00:00:00:09", "nud", "permanent")
	for _, inner := range []string{"10.99.0.9/32", "10.241.29.21/32"} { // a pod's address, and that of a server in this cabinet
		h.Run(t, "ip", "route", "add", inner, "via", "10.99.0.2", "dev", "pods", "onlink")
	}
	h.must("apply", "--config", incidentConfig())
	for i, inner := range []string{"10.99.0.9", "10.241.29.21"} {
		h.Send(t, netip.MustParseAddr(inner), 4)
		want := uint64(4 * (i + 1))
		eventually(t, strconv.FormatUint(want, 10)+" packets in cross-cabinet", func() bool {
			return h.sentBy("--config", incidentConfig())["cross-cabinet"] == want
		})
	}
	if sent := h.sentBy("--config", incidentConfig()); sent["same-cabinet"] != 0 {
		t.Errorf("inner addresses were looked at: %v", sent)
	}
}

// TestIPv6Only shapes a node that has no IPv4 at all and finds itself by its IPv6 address.
func TestIPv6Only(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	dir := write(t, map[string]string{
		"roles.json":    `{"servers": ["a", "b", "c"], "roles": ["hadoop_node"], "mapping": {"hadoop_node": ["a", "b", "c"]}}`,
		"jsons/a.json":  `{"name": "a", "ip_address": "2001:DB8:0::1", "cabinet": 1}`,
		"jsons/b.json":  `{"name": "b", "ip_address": "2001:db8:1::b", "prefixes": ["2001:db8:b::/48"], "cabinet": 1}`,
		"jsons/c.json":  `{"name": "c", "ip_address": "2001:db8:1::c", "cabinet": "2"}`,
		"bulk.yaml":     "interface: eth1\ninventory: {roles: roles.json, servers: [jsons]}\nlink_rate: 1gbit\nrules:\n  - {name: same, match: {cabinet: same}, class: same-cabinet}\n  - {name: bulk, match: {role: hadoop_node}, class: cross-cabinet}\n",
		"jsons/.hidden": "nothing",
	})
	config := dir + "/bulk.yaml"
	h.Run(t, "ip", "-4", "addr", "flush", "dev", "eth1")
	h.must("apply", "--config", config)
	for _, e := range h.explain(config, "b", "2001:db8:b:9::1", "c", "2001:db8:9::9") {
		before := h.sentBy("--config", config)
		h.Send(t, netip.MustParseAddr(e.Address), 3)
		eventually(t, e.Address+" in "+e.Class, func() bool {
			return h.sentBy("--config", config)[e.Class] == before[e.Class]+3
		})
	}
}
