package main

import (
	"net/netip"
	"time"

	"bulkshaper/shaper/kernel/lab"
	"bulkshaper/shaper/kernel/lab/traffic"
	"bulkshaper/shaper/tc"
)

// podLink is the rate of a node's link: pods cost the processors more than the same copies between servers. podUplink is what the two
// bulk nodes of a cabinet fill without shaping; their classes for other cabinets and the default take three fifths of it.
const (
	podLink   = tc.BitRate(50_000_000)
	podUplink = tc.BitRate(50_000_000)
)

// podPercent are the classes' rates in percent of the link.
func podPercent() map[string]int {
	return map[string]int{"same-cabinet": 30, "cross-cabinet": 20, "default": 20}
}

func podRate(class string) tc.BitRate { return podLink * tc.BitRate(podPercent()[class]) / 100 }

// podFlows is the number of connections of a copy across the cabinets: with fewer BBR, which some kernels have as their default, leaves the
// uplink's queue half empty.
const podFlows = 8

// podSender is the node that is looked at.
const podSender = "hadoop01"

type podServerSpec struct{ name, role, cabinet, address, pods string }

func podServers() []podServerSpec {
	return []podServerSpec{
		{"hadoop01", bulkRole, "b12", "10.1.12.11", "10.244.1.0/24"}, {"hadoop02", bulkRole, "b12", "10.1.12.12", "10.244.2.0/24"},
		{"hadoop03", bulkRole, "b13", "10.1.13.13", "10.244.3.0/24"}, {"hadoop04", bulkRole, "b13", "10.1.13.14", "10.244.4.0/24"},
		{"app01", "app", "b12", "10.1.12.101", "10.244.101.0/24"}, {"app02", "app", "b13", "10.1.13.101", "10.244.102.0/24"},
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

func podTopology(network lab.PodNetwork, congestion string) lab.Topology {
	t := lab.Topology{Pods: network, Congestion: congestion}
	for _, name := range []string{"b12", "b13"} {
		cabinet := lab.Cabinet{Name: name, Prefix: netip.MustParsePrefix(storyCabinets()[name]),
			Uplink: lab.Limit{Rate: podUplink, Burst: 10_000, Queue: 80 * time.Millisecond}}
		for _, s := range podServers() {
			if s.cabinet != name {
				continue
			}
			rate := podLink
			if s.role != bulkRole {
				rate = storyAppLink
			}
			cabinet.Servers = append(cabinet.Servers, lab.Server{Name: s.name, Address: netip.MustParseAddr(s.address),
				Wire: lab.Limit{Rate: rate}, Pods: netip.MustParsePrefix(s.pods)})
		}
		t.Cabinets = append(t.Cabinets, cabinet)
	}
	return t
}

// pod is where work runs: the server's pod, or the server itself on the host network.
func (b *podBed) pod(server string) string {
	if b.network.kind == lab.NoPods {
		return server
	}
	return lab.PodOf(server)
}

// target is where a copy to a server goes: to the pod of a bulk node, and to a node of the services itself.
func (b *podBed) target(server string) string {
	if podServerOf(server).role != bulkRole {
		return server
	}
	return b.pod(server)
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
		copies = append(copies,
			traffic.Copy{Pair: traffic.Pair{From: from, To: b.pod(to)}, Flows: podFlows}, traffic.Copy{Pair: traffic.Pair{From: other, To: b.pod(to)}, Flows: podFlows})
	}
	return copies
}

// listedPods are all servers, with the pods' prefixes or without.
func listedPods(prefixes bool) []listedServer {
	var list []listedServer
	for _, s := range podServers() {
		server := listedServer{Name: s.name, Address: s.address, Cabinet: s.cabinet, Role: s.role}
		if prefixes {
			server.Prefixes = []string{s.pods}
		}
		list = append(list, server)
	}
	return list
}

// writePodConfig writes a node's config. The default class has a plain queue, that of kernels without fq_codel: what bulk in it does to
// services in it is then the same on every kernel.
func (b *podBed) writePodConfig(node string) error {
	rate := func(class string) string { return percentRate(podPercent()[class]) }
	return b.writeConfig(node, podLink,
		nodeClass{name: "same-cabinet", id: "10", rate: rate("same-cabinet"), rule: "cabinet: same"},
		nodeClass{name: "cross-cabinet", id: "20", rate: rate("cross-cabinet"), rule: "role: " + bulkRole},
		nodeClass{name: "default", id: "100", rate: rate("default"), more: ", leaf: {kind: pfifo}"})
}
