//go:build system

package guest

import (
	"context"
	"net/netip"
	"os"
	"strings"
	"testing"

	"go.uber.org/zap"

	"bulkshaper/shaper/kernel"
	"bulkshaper/shaper/tc"
)

var (
	sameCabinet  = netip.MustParseAddr("10.241.29.21")  // hadoop21, in b13 like this node
	crossCabinet = netip.MustParseAddr("10.241.28.20")  // hadoop20, in b12
	nameNode     = netip.MustParseAddr("10.241.28.101") // rule priority-role
	application  = netip.MustParseAddr("10.241.28.103") // no rule
	stranger     = netip.MustParseAddr("203.0.113.9")
)

func observe(t *testing.T, h *host, device string) tc.State {
	t.Helper()
	k, err := kernel.Open(kernel.Options{Namespace: h.FD(), Interface: device, Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	s, err := k.Observe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A leaf of kind auto is fq_codel on a kernel that has it, also the second time and for a daemon that comes later.
func TestAutoLeafIsFQCodel(t *testing.T) {
	h := newHost(t)
	if got := observe(t, h, "eth1").AutoLeaf; got != tc.KindFQCodel {
		t.Fatalf("auto is %s", got)
	}
	h.must("apply")
	for _, handle := range []string{"b010:", "b020:", "b100:", "4fff:"} {
		if len(lines(h.TC("qdisc", "show", "dev", "eth1"), "qdisc fq_codel "+handle+" parent 1:")) != 1 {
			t.Errorf("no fq_codel %s\n%s", handle, h.TC("qdisc", "show", "dev", "eth1"))
		}
	}
	h.nothingLeft()
	if got := h.grows("eth1", func() { h.Send(t, sameCabinet, 5) }); len(got) != 1 || got["1:10"] != 5 {
		t.Errorf("5 packets to the same cabinet: %v", got)
	}
}

// setDefaultQdisc sets the kind of root that the kernel makes. There is one setting for all namespaces, seen in the first.
func setDefaultQdisc(t *testing.T, kind string) {
	t.Helper()
	const path = "/proc/sys/net/core/default_qdisc"
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(kind), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.WriteFile(path, before, 0) })
}

// Where the kernel makes fq_codel or pfifo_fast the root of every new interface (net.core.default_qdisc), that root has the handle 0:
// and is replaced without a question, and comes back with clear.
func TestRootOfTheKernelsOwn(t *testing.T) {
	for _, kind := range []string{"fq_codel", "pfifo_fast", "fq", "sfq"} {
		t.Run(kind, func(t *testing.T) {
			h := newHost(t)
			setDefaultQdisc(t, kind)
			h.Run(t, "ip", "link", "add", "dev0", "type", "ifb") // unlike veth it has a queue of its own
			h.Run(t, "ip", "link", "set", "dev0", "up")
			root := func() tc.Qdisc {
				q, ok := observe(t, h, "dev0").RootQdisc()
				if !ok {
					t.Fatal("no root")
				}
				return q
			}
			before := root()
			if before.Kind != kind || before.Handle != tc.Unspec {
				t.Fatalf("the root is %+v\n%s", before, h.TC("qdisc", "show"))
			}
			h.must("apply", "--interface", "dev0")
			if got := root(); got.Kind != tc.KindHTB || got.Handle != tc.MakeHandle(1, 0) {
				t.Errorf("after apply: %+v", got)
			}
			h.nothingLeft("--interface", "dev0")
			h.must("clear", "--interface", "dev0")
			if got := root(); got.Kind != kind || got.Handle != tc.Unspec {
				t.Errorf("after clear: %+v", got)
			}
		})
	}
}

// An interface with four queues has the kernel's mq as root, with a qdisc for each queue. One htb takes the place of all of them and is
// held by every queue.
func TestMultiQueueVeth(t *testing.T) {
	h := newHost(t)
	h.Disconnect()
	h.Run(t, "ip", "link", "add", "eth1", "numtxqueues", "4", "numrxqueues", "4", "type", "veth", "peer", "name", "peer", "numtxqueues", "4", "numrxqueues", "4")
	h.Run(t, "ip", "link", "set", "peer", "up")
	for _, args := range []string{"link set eth1 txqueuelen 1000", "link set eth1 up", "addr add 192.0.2.1/24 dev eth1", "-4 route add default via 192.0.2.254",
		"neigh replace 192.0.2.254 dev eth1 lladdr 02:00:00:00:00:02 nud permanent"} {
		h.Run(t, "ip", strings.Fields(args)...)
	}
	h.TC("qdisc", "replace", "dev", "eth1", "root", "handle", "77:", "mq")
	if s := observe(t, h, "eth1"); s.Link.TxQueues != 4 {
		t.Fatalf("%d queues", s.Link.TxQueues)
	}
	// With a handle somebody made it: that is refused and named.
	if out, code := h.try("apply"); code == 0 || !strings.Contains(out, "mq 77:") {
		t.Errorf("over mq 77: exit %d\n%s", code, out)
	}
	h.must("apply", "--takeover")
	shown := h.TC("qdisc", "show", "dev", "eth1")
	if strings.Contains(shown, "mq") || len(lines(shown, "qdisc htb 1: root refcnt 5 ")) != 1 {
		t.Errorf("tc shows\n%s", shown)
	}
	h.nothingLeft()
	got := h.grows("eth1", func() {
		for range 50 { // each socket may be on another queue
			h.Send(t, sameCabinet, 1)
			h.Send(t, crossCabinet, 2)
		}
	})
	if len(got) != 2 || got["1:10"] != 50 || got["1:20"] != 100 {
		t.Errorf("packets by class: %v", got)
	}
	h.must("clear")
	if got := h.TC("qdisc", "show", "dev", "eth1"); strings.Contains(got, "htb") {
		t.Errorf("after clear\n%s", got)
	}
}

// A multi-queue device that is no veth has mq 0: at once.
func TestMultiQueueDummy(t *testing.T) {
	h := newHost(t)
	h.Run(t, "ip", "link", "add", "dev0", "numtxqueues", "4", "type", "ifb")
	h.Run(t, "ip", "link", "set", "dev0", "up")
	if got := h.TC("qdisc", "show", "dev", "dev0"); !strings.Contains(got, "qdisc mq 0: root") {
		t.Fatalf("tc shows\n%s", got)
	}
	h.must("apply", "--interface", "dev0")
	if got := h.TC("qdisc", "show", "dev", "dev0"); len(lines(got, "qdisc htb 1: root refcnt 5 ")) != 1 || strings.Contains(got, "mq") {
		t.Errorf("tc shows\n%s", got)
	}
	h.nothingLeft("--interface", "dev0")
	h.must("clear", "--interface", "dev0")
	if got := h.TC("qdisc", "show", "dev", "dev0"); !strings.Contains(got, "qdisc mq 0: root") {
		t.Errorf("after clear\n%s", got)
	}
}

// Devices that no other test has: a dummy, a bond with a slave, a bridge. All can be shaped, once and exactly.
func TestOtherDevices(t *testing.T) {
	for kind, setup := range map[string][]string{
		"dummy":  {"link add dev0 type dummy"},
		"bond":   {"link add dev0 type bond mode active-backup miimon 100", "link add slave type dummy", "link set slave master dev0", "link set slave up"},
		"bridge": {"link add dev0 type bridge mcast_snooping 0", "link add port type dummy", "link set port master dev0", "link set port up"},
	} {
		t.Run(kind, func(t *testing.T) {
			h := newHost(t)
			for _, line := range setup {
				h.Run(t, "ip", strings.Fields(line)...)
			}
			h.Sysctl("ipv6/conf/dev0/disable_ipv6", "1") // no multicast reports among what is counted
			for _, line := range []string{"link set dev0 arp off", "link set dev0 up", "addr add 198.51.100.1/24 dev dev0 noprefixroute",
				"neigh replace 198.51.100.254 dev dev0 lladdr 02:00:00:00:00:02 nud permanent", "-4 route replace default via 198.51.100.254 dev dev0 onlink"} {
				h.Run(t, "ip", strings.Fields(line)...)
			}
			h.must("apply", "--interface", "dev0")
			h.nothingLeft("--interface", "dev0")
			for address, class := range map[netip.Addr]string{sameCabinet: "1:10", crossCabinet: "1:20", nameNode: "1:100", stranger: "1:100"} {
				if got := h.grows("dev0", func() { h.Send(t, address, 4) }); len(got) != 1 || got[class] != 4 {
					t.Errorf("4 packets to %s: %v, want them in %s", address, got, class)
				}
			}
			h.must("clear", "--interface", "dev0")
			// Who shapes a port of a bond is told what to shape instead; a port of a bridge is the right place.
			if port := map[string]string{"bond": "slave", "bridge": "port"}[kind]; port != "" {
				out := h.must("plan", "--interface", port)
				if told := strings.Contains(out, "slave is a port of dev0: shape dev0 instead"); told != (kind == "bond") {
					t.Errorf("plan for %s:\n%s", port, out)
				}
			}
		})
	}
}

// TestTakeoverOfOtherKinds: the incident's tree by hand, with filters of every kind that this kernel has, becomes ours without the root being
// set up again.
func TestTakeoverOfOtherKinds(t *testing.T) {
	h := newHost(t)
	script, err := os.ReadFile("/src/testdata/incident/hand-written.tc")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.TCBatch(string(script)); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"protocol ip pref 5 handle 6 fw flowid 1:20",
		"protocol all pref 7 u32 match ip dst 192.0.2.99/32 flowid 1:10",
		"protocol ip pref 8 flower dst_ip 192.0.2.98 flowid 1:10",
		"protocol ip pref 11 u32 match ip dport 80 0xffff police rate 1mbit burst 10k drop flowid 1:20",
		"protocol ip pref 12 u32 match ip dport 81 0xffff action ok flowid 1:20",
		"protocol 802.1q pref 16 u32 match u32 0 0 flowid 1:20",
		"protocol all pref 60000 matchall flowid 1:20", // what nothing else matches
		"protocol all pref 60001 basic flowid 1:10",
	} {
		h.TC(append(strings.Fields("filter add dev eth1 parent 1:"), strings.Fields(line)...)...)
	}
	old := h.grows("eth1", func() { h.Send(t, stranger, 4) })
	if old["1:20"] != 4 {
		t.Fatalf("4 packets to %s: %v", stranger, old)
	}
	if out := h.must("plan", "--takeover"); !strings.Contains(out, "TAKEOVER in place") || !strings.Contains(out, "filters (29)") {
		t.Errorf("plan:\n%s", out)
	}
	before := h.packets("eth1")
	h.must("apply", "--takeover")
	h.nothingLeft()
	for class, n := range before {
		if now := h.packets("eth1")[class]; now < n {
			t.Errorf("class %s began anew: %d packets, before %d", class, now, n)
		}
	}
	for line := range strings.Lines(h.TC("filter", "show", "dev", "eth1", "parent", "1:")) {
		if f := strings.Fields(line); f[0] == "filter" && len(f[4]) != 5 || strings.Contains(line, "pref 49") || strings.Contains(line, "pref 60000") {
			t.Errorf("left: %s", line)
		}
	}
	for address, class := range map[netip.Addr]string{sameCabinet: "1:10", crossCabinet: "1:20", nameNode: "1:100", stranger: "1:100"} {
		if got := h.grows("eth1", func() { h.Send(t, address, 4) }); len(got) != 1 || got[class] != 4 {
			t.Errorf("4 packets to %s: %v, want them in %s", address, got, class)
		}
	}
}
