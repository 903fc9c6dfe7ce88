package main

import (
	"fmt"
	"net/netip"
	"time"

	"bulkshaper/shaper/kernel/lab"
	"bulkshaper/shaper/kernel/lab/traffic"
	"bulkshaper/shaper/tc"
)

// The cluster of the story has links of a tenth of the incident's, and uplinks of a hundredth: two cores have to carry it all. What
// matters are ratios: a cabinet's nodes together can send four times what its uplink takes.
const (
	storyLink   = tc.BitRate(100_000_000)
	storyUplink = tc.BitRate(100_000_000)
	// storySlow is the old remedy: every bulk port at a tenth.
	storySlow = storyLink / 10
	// storyAppLink is the link of a node of the services, which is not what is short.
	storyAppLink = tc.BitRate(1_000_000_000)
	// storyDisk is how fast the copies within a cabinet are read: more than their class's rate, and so little that no port is full
	// without shaping.
	storyDisk = 28_000_000 // bits of payload per second
	// storyMapper is how fast a copy from one node to another across the cabinets is read: together much more than the uplink takes, and
	// into one node never so much that its port is full. Without it that would be left to luck: of BBR's connections one may keep half
	// of the uplink for seconds.
	storyMapper = 9_000_000 // bits of payload per second
	// storyFlows is the number of connections of a copy across the cabinets.
	storyFlows = 3
)

// Rates of the classes in the config, in percent of the link. Four nodes take 80 % of the uplink.
const (
	storySame  = 25
	storyCross = 20
	storyUse   = 80 // of the uplink, for shares
)

// storyServer is a server of the story.
type storyServer struct {
	name, role, cabinet, address string
	joins                        int // 1 for those that come when the cabinet doubles
}

// storyServers are two cabinets. Those that double the first one stand there from the start, idle and in nobody's inventory.
func storyServers() []storyServer {
	servers := []storyServer{
		{"app01", "app", "b12", "10.1.12.101", 0}, {"app02", "app", "b13", "10.1.13.101", 0},
	}
	for i := 1; i <= 12; i++ {
		s := storyServer{name: fmt.Sprintf("hadoop%02d", i), role: bulkRole, cabinet: "b12"}
		if i > 4 && i <= 8 {
			s.cabinet = "b13"
		}
		if i > 8 {
			s.joins = 1
		}
		s.address = fmt.Sprintf("10.1.%s.%d", s.cabinet[1:], 10+i)
		servers = append(servers, s)
	}
	return servers
}

func storyServerOf(name string) storyServer {
	for _, s := range storyServers() {
		if s.name == name {
			return s
		}
	}
	return storyServer{}
}

// serviceNodes are the servers that earn the money.
func serviceNodes() []string { return []string{"app01", "app02"} }

// storyCabinets are the cabinets by name, with their networks.
func storyCabinets() map[string]string {
	return map[string]string{"b12": "10.1.12.0/24", "b13": "10.1.13.0/24"}
}

func storyTopology(congestion string) lab.Topology {
	t := lab.Topology{Congestion: congestion}
	for _, name := range []string{"b12", "b13"} {
		// A burst of less than a millisecond, and a queue as a switch has it.
		cabinet := lab.Cabinet{Name: name, Prefix: netip.MustParsePrefix(storyCabinets()[name]),
			Uplink: lab.Limit{Rate: storyUplink, Burst: 10_000, Queue: 80 * time.Millisecond}}
		for _, s := range storyServers() {
			if s.cabinet != name {
				continue
			}
			rate := storyLink
			if s.role != bulkRole {
				rate = storyAppLink
			}
			cabinet.Servers = append(cabinet.Servers, lab.Server{Name: s.name, Address: netip.MustParseAddr(s.address), Wire: lab.Limit{Rate: rate}})
		}
		t.Cabinets = append(t.Cabinets, cabinet)
	}
	return t
}

// storyServiceKind names what is asked for, and how late an answer may be.
type storyServiceKind struct {
	Name     string
	Deadline time.Duration
	// Judged services have to be live, and are broken by the copy. Of the others the story only tells: kept connections are sometimes
	// lucky, and some are asked too seldom.
	MustLive, MustBreak bool
}

// bulkRPC is asked from a bulk node, which the old remedy hurts as well.
const bulkRPC = "RPC of a bulk node"

func storyKinds() []storyServiceKind {
	return []storyServiceKind{
		{"RPC, fresh", 100 * time.Millisecond, true, true},
		{"RPC, kept", 100 * time.Millisecond, true, false},
		{"DNS", 50 * time.Millisecond, true, true},
		{"database", 250 * time.Millisecond, false, false},
		{bulkRPC, 100 * time.Millisecond, false, false},
	}
}

// storyRequests are the services as they are asked, kind for kind in the order of storyKinds.
func storyRequests() []traffic.Service {
	var all []traffic.Service
	for _, way := range [][2]string{{"app01", "app02"}, {"app02", "app01"}} {
		service := func(kind traffic.Kind, perSecond float64, work time.Duration, answer int) {
			all = append(all, traffic.Service{Kind: kind, From: way[0], To: way[1],
				Every: time.Duration(float64(time.Second) / perSecond), Work: work, Answer: answer})
		}
		service(traffic.Fresh, 50, 10*time.Millisecond, 200)
		service(traffic.Kept, 50, 10*time.Millisecond, 200)
		service(traffic.Query, 50, 5*time.Millisecond, 120)
		service(traffic.Kept, 0.5, 10*time.Millisecond, 64<<10)
	}
	return append(all, traffic.Service{Kind: traffic.Fresh, From: "hadoop01", To: "app02", Every: 50 * time.Millisecond, Work: 10 * time.Millisecond, Answer: 200})
}

// kindOf is the kind of a service of storyRequests.
func kindOf(service int) int {
	if service == len(storyRequests())-1 {
		return len(storyKinds()) - 1
	}
	return service % (len(storyKinds()) - 1)
}

// copies are those between the nodes in use: each to each in the other cabinet, and one within each cabinet.
func (s *story) copies() []traffic.Copy {
	var all []traffic.Copy
	for _, from := range s.inUse {
		for _, to := range s.inUse {
			if storyServerOf(from).cabinet != storyServerOf(to).cabinet {
				all = append(all, traffic.Copy{Pair: traffic.Pair{From: from, To: to}, Flows: storyFlows, Pace: storyMapper})
			}
		}
	}
	for _, pair := range samePairs() {
		all = append(all, traffic.Copy{Pair: pair, Flows: 1, Pace: storyDisk})
	}
	return all
}

func samePairs() []traffic.Pair {
	return []traffic.Pair{{From: "hadoop03", To: "hadoop04"}, {From: "hadoop07", To: "hadoop08"}}
}

// listed are the services' nodes and the bulk nodes in use, as the inventory has them.
func (s *story) listed() []listedServer {
	var list []listedServer
	for _, name := range append(serviceNodes(), s.inUse...) {
		server := storyServerOf(name)
		list = append(list, listedServer{Name: name, Address: server.address, Cabinet: server.cabinet, Role: server.role})
	}
	return list
}

// writeStoryConfig writes a node's config; cross is the rate of its class for other cabinets.
func (s *story) writeStoryConfig(node, cross string) error {
	return s.writeConfig(node, storyLink,
		nodeClass{name: "same-cabinet", id: "10", rate: percentRate(storySame), rule: "cabinet: same"},
		nodeClass{name: "cross-cabinet", id: "20", rate: cross, rule: "role: " + bulkRole},
		nodeClass{name: "default", id: "100", rate: "20%"})
}

// fixedCross and sharedCross are the two ways to write the rate.
func fixedCross() string { return fmt.Sprintf("%d%%", storyCross) }

func sharedCross() string {
	return fmt.Sprintf("{of: %s, use: %d%%, among: {role: %s, cabinet: same}}", storyUplink, storyUse, bulkRole)
}
