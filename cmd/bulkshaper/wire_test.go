package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"bulkshaper/cmd/bulkshaper/view"
	"bulkshaper/shaper/kernel"
	"bulkshaper/shaper/kernel/kerneltest"
	"bulkshaper/shaper/tc"
)

const pods = "../../testdata/pods"

func podsConfig() string { return filepath.Join(pods, "config.yaml") }

// counted is what the kernel counted so far, packets by classid, read past the program's commands.
func (h *host) counted() (map[string]uint64, uint64) {
	h.t.Helper()
	k, err := kernel.Open(kernel.Options{Namespace: h.FD(), Interface: kerneltest.Interface, Log: zap.NewNop()})
	if err != nil {
		h.t.Fatal(err)
	}
	defer k.Close()
	stats, err := k.Stats(context.Background())
	if err != nil {
		h.t.Fatal(err)
	}
	packets := map[string]uint64{}
	for _, c := range stats.Classes {
		if c.Leaf {
			packets[c.Class.ID.String()] = c.SentPackets + c.Dropped
		}
	}
	return packets, stats.DirectPackets
}

func (h *host) explain(config string, destinations ...string) []view.Explanation {
	h.t.Helper()
	r := h.run(append([]string{"explain", "--format", "json", "--config", config}, destinations...)...)
	if r.code != exitDone {
		h.t.Fatalf("explain %q: exit %d\n%s%s", destinations, r.code, r.stdout, r.stderr)
	}
	var answers []view.Explanation
	if err := json.Unmarshal([]byte(r.stdout), &answers); err != nil {
		h.t.Fatal(err)
	}
	return answers
}

// TestEveryPacketIsCountedWhereExplainSays sends to every server, pod network, edge and stranger, and reads the counters.
func TestEveryPacketIsCountedWhereExplainSays(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		config string
		extra  []string
	}{
		"incident": {incidentConfig(), []string{"8.8.8.8", "10.241.28.200", "2001:db8::5"}},
		"pods": {podsConfig(), []string{
			"10.244.2.0", "10.244.2.255", "10.244.3.127", "10.244.3.128", "10.244.3.255", "10.244.4.16", "10.244.4.18", "10.244.5.255",
			"10.244.6.0", "10.244.0.255", "10.20.1.3", "198.51.100.0", "198.51.100.255", "198.51.101.0", "2001:db8:244:3::16",
			"2001:db8:244:3:ffff::1", "2001:db8:244:4::1", "2001:db8:ffff::1", "2001:db8:fffe:ffff::1", "2001:db9::1"}},
	}
	for name, c := range cases {
		for _, layout := range []string{"list", "hash"} {
			t.Run(name+"/"+layout, func(t *testing.T) { everyPacketIsCounted(t, layout, c.config, c.extra) })
		}
	}
}

func everyPacketIsCounted(t *testing.T, layout, config string, destinations []string) {
	h := newHost(t)
	h.must("apply", "--config", config, "--layout", layout)
	for _, s := range planned(t, h, config) {
		p := netip.MustParsePrefix(s)
		destinations = append(destinations, p.Addr().String(), lastOf(p).String())
	}
	for _, answer := range h.explain(config, destinations...) {
		if answer.Own {
			continue
		}
		want, _ := h.counted()
		want[answer.ClassID] += 3
		h.Send(t, netip.MustParseAddr(answer.Address), 3)
		eventually(t, fmt.Sprintf("3 packets to %s counted in %s %s only", answer.Address, answer.Class, answer.ClassID), func() bool {
			after, _ := h.counted()
			return fmt.Sprint(after) == fmt.Sprint(want)
		})
	}
	if _, direct := h.counted(); direct != 0 {
		t.Errorf("%d packets went past all classes", direct)
	}
}

func planned(t *testing.T, h *host, config string) []string {
	t.Helper()
	var p planOutput
	if err := json.Unmarshal([]byte(h.must("plan", "--format", "json", "--config", config)), &p); err != nil {
		t.Fatal(err)
	}
	var prefixes []string
	for _, d := range p.Destinations {
		prefixes = append(prefixes, d.Prefix)
	}
	return prefixes
}

// lastOf is the last address of p.
func lastOf(p netip.Prefix) netip.Addr {
	a := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(a)*8; bit++ {
		a[bit/8] |= 1 << (7 - bit%8)
	}
	last, _ := netip.AddrFromSlice(a)
	return last
}

// TestAddressesAndNeighboursAreNotBehindBulk sends ARP and neighbour discovery and finds them in the control class.
func TestAddressesAndNeighboursAreNotBehindBulk(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.must("apply", "--config", incidentConfig())
	control := tc.ControlClass.String()
	solicitation := make([]byte, 64)
	solicitation[0], solicitation[5], solicitation[6], solicitation[7], solicitation[40] = 0x60, 24, 58, 255, 135
	copy(solicitation[24:], netip.MustParseAddr("ff02::1:ff00:1").AsSlice())
	echo := append([]byte(nil), solicitation...)
	echo[40] = 128
	for _, c := range []struct {
		name, class string
		protocol    uint16
		payload     []byte
	}{
		{"ARP", control, 0x0806, make([]byte, 28)},
		{"neighbour solicitation", control, 0x86dd, solicitation},
		{"ping", "1:100", 0x86dd, echo},
	} {
		before, _ := h.counted()
		h.SendFrame(t, kerneltest.EthernetFrame(c.protocol, c.payload), 2)
		eventually(t, c.name+" in "+c.class, func() bool {
			after, _ := h.counted()
			return after[c.class] == before[c.class]+2
		})
	}
}

// TestExplainSeesAStrangersFilter puts a filter of another hand before ours.
func TestExplainSeesAStrangersFilter(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.must("apply", "--config", incidentConfig())
	h.TC("filter", "add", "dev", "eth1", "parent", "1:", "protocol", "ip", "pref", "5", "u32", "match", "ip", "dst", "10.241.28.14/32", "flowid", "1:10")
	r := h.run("explain", "hadoop14", "hadoop15", "--config", incidentConfig())
	if r.code != exitDiffers || strings.Count(r.stdout, "DISAGREES") != 1 {
		t.Errorf("exit %d\n%s", r.code, r.stdout)
	}
	if out := h.must("apply", "--config", incidentConfig()); !strings.Contains(out, "0 operations") {
		t.Errorf("a filter at a foreign pref is not left alone: %s", out)
	}
	if !strings.Contains(h.TC("filter", "show", "dev", "eth1", "parent", "1:"), "pref 5") {
		t.Error("the foreign filter is gone")
	}
}

// TestHiddenTables deletes a pref before its hash tables, which then live on where no dump shows them. Their ids are passed over.
func TestHiddenTables(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.must("apply", "--config", podsConfig(), "--layout", "hash")
	for range 2 { // the second time more ids are hidden
		if !strings.Contains(h.TC("filter", "show", "dev", "eth1", "parent", "1:"), "link ") {
			t.Fatal("no hash table stands: nothing is tested")
		}
		h.TC("filter", "delete", "dev", "eth1", "parent", "1:", "protocol", "ip", "pref", "11100")
		h.must("apply", "--config", podsConfig(), "--layout", "hash")
		h.must("explain", "--config", podsConfig(), "spark02", "spark03", "gateway01", "8.8.8.8")
	}
}

// TestClearBesideAStranger: with a foreign filter on the root, the hash tables go all the same, and the root can be used again.
func TestClearBesideAStranger(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.must("apply", "--config", podsConfig())
	h.TC("filter", "add", "dev", "eth1", "parent", "1:", "protocol", "ip", "pref", "5", "u32", "match", "ip", "dst", "9.9.9.9/32", "flowid", "1:77")
	h.must("clear", "--config", podsConfig())
	if left := h.TC("filter", "show", "dev", "eth1", "parent", "1:"); strings.Count(left, "flowid") != 1 || !strings.Contains(left, "pref 5") || strings.Contains(left, "link") {
		t.Errorf("filters after clear:\n%s", left)
	}
	h.must("apply", "--config", podsConfig())
	h.must("explain", "--config", podsConfig(), "spark02", "gateway01", "8.8.8.8")
}
