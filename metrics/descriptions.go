package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bulkshaper/shaper"
	"bulkshaper/shaper/tc"
)

// counted is a metric of a class that the kernel counts.
type counted struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(tc.ClassStats) uint64
}

// planned is a gauge of a class that the plan gives.
type planned struct {
	desc  *prometheus.Desc
	value func(shaper.Snapshot, shaper.ClassInfo) float64
}

// ofNode is a gauge without labels.
type ofNode struct {
	desc  *prometheus.Desc
	value func(shaper.Snapshot) float64
}

func classDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "class", name), help, []string{"interface", "class", "classid", "kind"}, nil)
}

func countedMetrics() []counted {
	counter := func(name, help string, value func(tc.ClassStats) uint64) counted {
		return counted{classDesc(name, help), prometheus.CounterValue, value}
	}
	gauge := func(name, help string, value func(tc.ClassStats) uint64) counted {
		return counted{classDesc(name, help), prometheus.GaugeValue, value}
	}
	return []counted{
		counter("sent_bytes_total", "Bytes sent, Ethernet header included.",
			func(s tc.ClassStats) uint64 { return s.SentBytes }),
		counter("sent_packets_total", "Packets sent; a GSO packet counts as its segments.",
			func(s tc.ClassStats) uint64 { return s.SentPackets }),
		counter("dropped_packets_total", "Packets dropped, most of them since the queue of the class was full.",
			func(s tc.ClassStats) uint64 { return s.Dropped }),
		counter("overlimits_total", "Times that a packet had to wait since the class was at its ceil.",
			func(s tc.ClassStats) uint64 { return s.Overlimits }),
		counter("requeues_total", "Packets put back since the device could not take them.",
			func(s tc.ClassStats) uint64 { return s.Requeues }),
		counter("borrowed_packets_total", "Packets sent above the class's own rate, on a parent's.",
			func(s tc.ClassStats) uint64 { return s.Borrows }),
		counter("lent_packets_total", "Packets that the class's own rate paid for: its own, or in an inner class those of its children.",
			func(s tc.ClassStats) uint64 { return s.Lends }),
		gauge("backlog_bytes", "Bytes waiting in the queue of the class.",
			func(s tc.ClassStats) uint64 { return s.BacklogBytes }),
		gauge("backlog_packets", "Packets waiting in the queue of the class.",
			func(s tc.ClassStats) uint64 { return s.BacklogPackets }),
	}
}

func plannedMetrics() []planned {
	return []planned{
		{classDesc("rate_bits_per_second", "Rate that the class is promised, as planned."),
			func(_ shaper.Snapshot, c shaper.ClassInfo) float64 { return float64(c.Class.Rate) }},
		{classDesc("ceil_bits_per_second", "Rate that the class may reach by borrowing, as planned."),
			func(_ shaper.Snapshot, c shaper.ClassInfo) float64 { return float64(c.Class.Ceil) }},
		{classDesc("destinations", "Addresses and prefixes that filters send to the class, as planned."),
			func(_ shaper.Snapshot, c shaper.ClassInfo) float64 { return float64(c.Destinations) }},
		{classDesc("default", "1 for the class of all that no rule matches, 0 for the others; it goes by any name."),
			func(s shaper.Snapshot, c shaper.ClassInfo) float64 { return number(c.Name == s.DefaultClass) }},
	}
}

func nodeMetrics() []ofNode {
	gauge := func(name, help string, value func(shaper.Snapshot) float64) ofNode {
		return ofNode{prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, nil, nil), value}
	}
	return []ofNode{
		gauge("in_sync", "1 while the kernel was last seen to be as planned.",
			func(s shaper.Snapshot) float64 { return number(s.InSync) }),
		gauge("interface_up", "1 while the interface exists and is up.",
			func(s shaper.Snapshot) float64 { return number(s.InterfaceUp) }),
		gauge("contended", "1 while somebody keeps changing what is repaired, so that repairs are spaced out.",
			func(s shaper.Snapshot) float64 { return number(s.Contended) }),
		gauge("last_reload_successful", "1 while the files as they are now are the ones followed.",
			func(s shaper.Snapshot) float64 { return number(s.LastReload.Result == shaper.ReloadSuccess) }),
		gauge("last_reload_success_timestamp_seconds", "When files were last read and taken over; 0 before the first time.",
			func(s shaper.Snapshot) float64 { return seconds(s.LastSuccess) }),
		gauge("inventory_servers", "Servers in the inventory that is followed.",
			func(s shaper.Snapshot) float64 { return float64(s.Servers) }),
		gauge("inventory_hash", "A number that all nodes with the same inventory have in common, wherever their files lie.",
			inventoryHash),
		gauge("inventory_warnings", "Warnings about the inventory and the rates; bulkshaper check lists them.",
			func(s shaper.Snapshot) float64 { return float64(len(s.Warnings)) }),
	}
}

// nodeInfo carries what other series of the node are joined with, so that not each of them has these labels.
func nodeInfo() *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_node_info",
		"Always 1; the labels say which node of the inventory this is and where it stands. Empty ones are not known.", []string{"interface", "node", "cabinet", "datacenter"}, nil)
}

func inventoryHash(s shaper.Snapshot) float64 {
	if s.InventoryHash == nil {
		return 0
	}
	return float64(s.InventoryHash())
}

// overrideActive and overrideEnd tell of the rates that people put over the config's for a while.
func overrideActive() *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_override_active",
		"1 while an override holds the class to another rate than the config's.", []string{"interface", "class"}, nil)
}

func overrideEnd() *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_override_end_timestamp_seconds",
		"When the override of the class ends by itself; absent without one.", []string{"interface", "class"}, nil)
}

func directPackets() *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_direct_packets_total",
		"Packets that no class took, so that they went out unshaped.", nil, nil)
}

func ruleMatched() *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_rule_matched_packets_total",
		"Packets that the filters of the rule matched, as of the last read-back; rule default is for destinations without a rule, ack_class for acknowledgements with a class of their own.", []string{"rule"}, nil)
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// seconds is t since 1970. The zero time is 0, not what it is in Unix time.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1e3
}
