package main

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"bulkshaper/shaper/kernel/lab"
	"bulkshaper/shaper/kernel/lab/traffic"
	"bulkshaper/shaper/tc"
)

// podLink is the rate of a node's link: pods cost the processors more than the same copies between servers.
const podLink = tc.BitRate(50_000_000)

// podPercent are the classes' rates in percent of the link.
func podPercent() map[string]int {
	return map[string]int{"same-cabinet": 30, "cross-cabinet": 20, "default": 20}
}

func podRate(class string) tc.BitRate { return podLink * tc.BitRate(podPercent()[class]) / 100 }

// podSender is the node that is looked at.
const podSender = "hadoop01"

type podServerSpec struct{ name, role, cabinet, address, pods string }

func podServers() []podServerSpec {
	return []podServerSpec{
		{"hadoop01", bulkRole, "b12", "10.1.12.11", "10.244.1.0/24"}, {"hadoop02", bulkRole, "b12", "10.1.12.12", "10.244.2.0/24"},
		{"hadoop03", bulkRole, "b13", "10.1.13.13", "10.244.3.0/24"}, {"hadoop04", bulkRole, "b13", "10.1.13.14", "10.244.4.0/24"},
		{"app02", "app", "b13", "10.1.13.101", ""},
	}
}

func podServerOf(name string) podServerSpec {
	for _, s := range podServers() {
		if s.name == name {
			return s
		}
	}
	return podServerSpec{}
}

func podTopology(network lab.PodNetwork) lab.Topology {
	t := lab.Topology{Pods: network}
	for _, name := range []string{"b12", "b13"} {
		cabinet := lab.Cabinet{Name: name, Prefix: netip.MustParsePrefix(storyCabinets()[name]), Uplink: lab.Limit{Rate: 2 * podLink}}
		for _, s := range podServers() {
			if s.cabinet != name {
				continue
			}
			server := lab.Server{Name: s.name, Address: netip.MustParseAddr(s.address), Wire: lab.Limit{Rate: podLink}}
			if s.pods != "" {
				server.Pods = netip.MustParsePrefix(s.pods)
			}
			cabinet.Servers = append(cabinet.Servers, server)
		}
		t.Cabinets = append(t.Cabinets, cabinet)
	}
	return t
}

// pod is where a bulk node's work runs: its pod, or the node itself.
func (b *podBed) pod(server string) string {
	if b.network.kind == lab.NoPods || podServerOf(server).pods == "" {
		return server
	}
	return lab.PodOf(server)
}

// podTargets are what podSender sends to, a server each.
func podTargets() []string { return []string{"hadoop02", "hadoop03", "hadoop04", "app02"} }

// copies go from the first cabinet to the second, within the first, and from the first node itself to a service.
func (b *podBed) copies() []traffic.Copy {
	from, other := b.pod(podSender), b.pod("hadoop02")
	copies := []traffic.Copy{
		{Pair: traffic.Pair{From: from, To: other}, Flows: 2},
		{Pair: traffic.Pair{From: podSender, To: "app02"}, Flows: 1},
	}
	for _, to := range []string{"hadoop03", "hadoop04"} {
		copies = append(copies, traffic.Copy{Pair: traffic.Pair{From: from, To: b.pod(to)}, Flows: 2}, traffic.Copy{Pair: traffic.Pair{From: other, To: b.pod(to)}, Flows: 1})
	}
	return copies
}

func (b *podBed) runDir(node string) string { return filepath.Join(b.dir, "run", node) }
func (b *podBed) config(node string) string { return filepath.Join(b.dir, node+".yaml") }

// writeInventory makes or changes the files, with the pods' prefixes or without.
func (b *podBed) writeInventory(prefixes bool) error {
	folder := filepath.Join(b.dir, "nyc1", "jsons")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	var names []string
	mapping := map[string][]string{}
	for _, s := range podServers() {
		names = append(names, s.name)
		mapping[s.role] = append(mapping[s.role], s.name)
		server := map[string]any{"name": s.name, "ip_address": s.address, "cabinet": s.cabinet}
		if prefixes && s.pods != "" {
			server["prefixes"] = []string{s.pods}
		}
		if err := writeJSONFile(filepath.Join(folder, s.name+".json"), server); err != nil {
			return err
		}
	}
	return writeJSONFile(filepath.Join(b.dir, "roles.json"), map[string]any{"servers": names, "roles": []string{"app", bulkRole}, "mapping": mapping})
}

func (b *podBed) writeConfig(node string) error {
	p := podPercent()
	text := fmt.Sprintf(`interface: %s
node: %s
link_rate: %s
inventory: {roles: roles.json, servers: [nyc1/jsons]}
classes:
  same-cabinet:  {id: 10,  rate: %d%%}
  cross-cabinet: {id: 20,  rate: %d%%}
  default:       {id: 100, rate: %d%%}
default_class: default
rules:
  - {name: same-cabinet,  match: {cabinet: same}, class: same-cabinet}
  - {name: cross-cabinet, match: {role: %s}, class: cross-cabinet}
metrics: {listen: "127.0.0.1:9825"}
run_dir: %q
`, lab.Interface, node, podLink, p["same-cabinet"], p["cross-cabinet"], p["default"], bulkRole, b.runDir(node))
	if err := os.WriteFile(b.config(node), []byte(text), 0o644); err != nil {
		return fmt.Errorf("write config: %w", err)
	}
	return nil
}
