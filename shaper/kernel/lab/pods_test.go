package lab

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"bulkshaper/shaper/tc"
)

// podTopology is two cabinets of two servers with pods.
func podTopology(network PodNetwork) Topology {
	limit := Limit{Rate: 100 * tc.BitRate(1_000_000)}
	server := func(name, at, pods string) Server {
		return Server{Name: name, Address: netip.MustParseAddr(at), Wire: limit, Pods: netip.MustParsePrefix(pods)}
	}
	return Topology{Pods: network, Cabinets: []Cabinet{
		{Name: "b12", Prefix: netip.MustParsePrefix("10.1.12.0/24"), Servers: []Server{server("a", "10.1.12.11", "10.244.1.0/24"), server("b", "10.1.12.12", "10.244.2.0/24")}},
		{Name: "b13", Prefix: netip.MustParsePrefix("10.1.13.0/24"), Servers: []Server{server("c", "10.1.13.11", "10.244.3.0/24"), server("d", "10.1.13.12", "10.244.4.0/24")}},
	}}
}

// TestPodsReachEachOther, and the wire sees the addresses that the network is chosen for.
func TestPodsReachEachOther(t *testing.T) {
	for network, onWire := range map[PodNetwork][]string{
		VXLAN:       {"10.1.12.12", "10.1.13.11"},
		Routed:      {"10.244.2.2", "10.244.3.2"},
		CrossSubnet: {"10.244.2.2", "10.1.13.11"},
	} {
		t.Run(network.String(), func(t *testing.T) {
			c := build(t, podTopology(network))
			sniffer, err := c.Host("a").Sniff()
			if err != nil {
				t.Fatal(err)
			}
			pods := []string{PodOf("a"), PodOf("b"), PodOf("c"), PodOf("d")}
			for _, from := range pods {
				for _, to := range pods {
					if from != to {
						ping(t, c.Host(from), c.Host(to))
					}
				}
			}
			ping(t, c.Host("a"), c.Host("c"))
			got, err := sniffer.Stop()
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range onWire {
				if got.Bytes[netip.MustParseAddr(want)] == 0 {
					t.Errorf("nothing to %s on the wire, but %v", want, got.Bytes)
				}
			}
			if network != Routed && got.Bytes[netip.MustParseAddr("10.244.3.2")] != 0 {
				t.Error("a pod's address on the wire across the cabinets")
			}
		})
	}
}

func TestPodsThatCannotBe(t *testing.T) {
	for want, pods := range map[string]string{
		"without host bits": "10.244.2.1/24", "overlap 10.1.13.0/24": "10.1.13.128/25", "servers a and b: pods": "10.244.1.128/25",
	} {
		topology := podTopology(Routed)
		topology.Cabinets[0].Servers[1].Pods = netip.MustParsePrefix(pods)
		if _, err := Build(topology); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", pods, err, want)
		}
	}
	if c := build(t, podTopology(NoPods)); slices.ContainsFunc(c.Hosts(), func(h *Host) bool { return strings.HasSuffix(h.Name, "-pod") }) {
		t.Error("pods on a network without")
	}
}
