package main

import (
	"net/netip"
	"time"

	"bulkshaper/shaper/kernel/lab"
	"bulkshaper/shaper/tc"
)

// demoServer is a server of the demo, as it stands and as the inventory has it.
type demoServer struct {
	name, role string
	cabinet    string // where it stands
	listed     string // where the inventory says it stands; "" for a server that it does not know
	address    string
}

const bulkRole = "hadoop_node"

// demoServers are two cabinets and somebody beyond the core. hadoop03 has been moved to b12 and its file still says b13.
func demoServers() []demoServer {
	return []demoServer{
		{"hadoop01", bulkRole, "b12", "b12", "10.1.12.11"},
		{"hadoop02", bulkRole, "b12", "b12", "10.1.12.12"},
		{"hadoop03", bulkRole, "b12", "b13", "10.1.12.13"},
		{"app01", "app", "b12", "b12", "10.1.12.101"},
		{"hadoop04", bulkRole, "b13", "b13", "10.1.13.14"},
		{"hadoop05", bulkRole, "b13", "b13", "10.1.13.15"},
		{"hadoop06", bulkRole, "b13", "b13", "10.1.13.16"},
		{"namenode01", "hadoop_namenode", "b13", "b13", "10.1.13.102"},
		{"client01", "", "world", "", "10.9.9.9"},
	}
}

// demoPercent are the classes' rates, in percent of the link. Together they leave room on it, so that no class waits for
// another on the wire.
func demoPercent() map[string]int {
	return map[string]int{"same-cabinet": 50, "cross-cabinet": 20, "priority-role": 15, "default": 10}
}

// wanted is the rate of a class.
func (d *demo) wanted(class string) tc.BitRate {
	return (d.link * tc.BitRate(demoPercent()[class]) / 100).WholeBytes()
}

// build makes the lab and the files.
func (d *demo) build() error {
	start := time.Now()
	if err := d.raise(d.topology(), measured); err != nil {
		return err
	}
	servers := demoServers()
	var listed []listedServer
	for _, s := range servers {
		if s.listed != "" {
			listed = append(listed, s.inInventory(s.listed))
		}
	}
	if err := d.writeInventory(listed); err != nil {
		return err
	}
	d.progress("%d servers in two cabinets, and a core: %d network namespaces in %s", len(servers), d.cluster.Namespaces(),
		time.Since(start).Round(time.Millisecond))
	return nil
}

// topology has links of nodes, services of ten times that, and uplinks of ten times that, as 1 and 10 Gbit/s.
func (d *demo) topology() lab.Topology {
	var t lab.Topology
	prefixes := map[string]string{"b12": "10.1.12.0/24", "b13": "10.1.13.0/24", "world": "10.9.9.0/24"}
	for _, s := range demoServers() {
		last := len(t.Cabinets) - 1
		if last < 0 || t.Cabinets[last].Name != s.cabinet {
			t.Cabinets = append(t.Cabinets, lab.Cabinet{Name: s.cabinet, Prefix: netip.MustParsePrefix(prefixes[s.cabinet]), Uplink: lab.Limit{Rate: 10 * d.link}})
			last++
		}
		t.Cabinets[last].Servers = append(t.Cabinets[last].Servers,
			lab.Server{Name: s.name, Address: netip.MustParseAddr(s.address), Wire: lab.Limit{Rate: d.link}})
	}
	return t
}

// inInventory is the server's file, with the cabinet that it is to say.
func (s demoServer) inInventory(cabinet string) listedServer {
	return listedServer{Name: s.name, Address: s.address, Cabinet: cabinet, Role: s.role}
}

// writeDemoConfig makes the config file of a node.
func (d *demo) writeDemoConfig(node string) error {
	rate := func(class string) string { return percentRate(demoPercent()[class]) }
	return d.writeConfig(node, d.link,
		nodeClass{name: "same-cabinet", id: "10", rate: rate("same-cabinet"), rule: "cabinet: same"},
		nodeClass{name: "priority-role", id: "30", rate: rate("priority-role"), rule: "role: hadoop_namenode"},
		nodeClass{name: "cross-cabinet", id: "20", rate: rate("cross-cabinet"), rule: "role: " + bulkRole},
		nodeClass{name: "default", id: "100", rate: rate("default")})
}
