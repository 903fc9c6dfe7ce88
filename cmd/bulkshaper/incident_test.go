package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const incident = "../../testdata/incident"

func incidentConfig() string { return filepath.Join(incident, "config.yaml") }

// TestIncidentAsTcShowsIt holds what stood on the nodes of the incident, in the words of the real tool.
func TestIncidentAsTcShowsIt(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.must("apply", "--config", incidentConfig())

	classes := h.TC("class", "show", "dev", "eth1")
	for _, want := range []string{
		`(?m)^class htb 1:100 root leaf b100: prio 0 rate 204800Kbit ceil 204800Kbit burst 1561b cburst 1561b\s*$`,
		`(?m)^class htb 1:10 root leaf b010: prio 0 rate 819200Kbit ceil 819200Kbit burst 1433b cburst 1433b\s*$`,
		`(?m)^class htb 1:20 root leaf b020: prio 0 rate 204800Kbit ceil 204800Kbit burst 1561b cburst 1561b\s*$`,
	} {
		if !regexp.MustCompile(want).MatchString(classes) {
			t.Errorf("tc class show lacks %s:\n%s", want, classes)
		}
	}
	qdiscs := h.TC("qdisc", "show", "dev", "eth1")
	if !regexp.MustCompile(`(?m)^qdisc htb 1: root refcnt \d+ r2q 10 default 0x100 direct_packets_stat 0`).MatchString(qdiscs) {
		t.Errorf("tc qdisc show lacks the root:\n%s", qdiscs)
	}
	shown := shownFilters(h.TC("filter", "show", "dev", "eth1", "parent", "1:"))
	want := map[string]string{
		"0af11d15": "1:10", "0af11d1c": "1:10", "0af11d65": "1:10", "0af11d66": "1:10", "0af11d67": "1:10", // cabinet b13, whatever the role
		"0af11c0d": "1:20", "0af11c14": "1:20", // bulk in b12
		"0af11c65": "1:100", "0af11c66": "1:100", // name node and monitoring share the default class
		"0af11c67": "1:100", // an application server in b12: no rule
	}
	for match, class := range want {
		if shown[match] != class {
			t.Errorf("filter %s leads to %q, want %s", match, shown[match], class)
		}
	}
	if _, own := shown["0af11d1b"]; own {
		t.Error("the node's own address has a filter")
	}
	if len(shown) != 21 {
		t.Errorf("%d filters for 21 other servers", len(shown))
	}
}

// shownFilters are the IPv4 destinations in the output of tc filter show, match in hexadecimal to flowid.
func shownFilters(text string) map[string]string {
	found := map[string]string{}
	flow := regexp.MustCompile(`flowid (\S+)`)
	match := regexp.MustCompile(`match ([0-9a-f]{8})/ffffffff at 16`)
	class := ""
	for _, line := range strings.Split(text, "\n") {
		if m := flow.FindStringSubmatch(line); m != nil {
			class = m[1]
		}
		if m := match.FindStringSubmatch(line); m != nil {
			found[m[1]] = class
		}
	}
	return found
}

func TestSecondApplyDoesNothing(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.must("apply", "--config", incidentConfig())
	if out := h.must("apply", "--config", incidentConfig()); !strings.Contains(out, "0 operations") {
		t.Errorf("second apply: %s", out)
	}
	h.must("plan", "--exit-code", "--config", incidentConfig())
}

func TestPlanAsJSON(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	r := h.run("plan", "--exit-code", "--format", "json", "--config", incidentConfig())
	if r.code != exitDiffers {
		t.Errorf("exit %d for an unshaped interface, want %d: %s", r.code, exitDiffers, r.stderr)
	}
	var p struct {
		Interface, Node string
		Changes         []struct {
			Verb, Object, Why string
			Hitless           *bool
		}
		Classes []struct {
			Name, ClassID, Parent string
			Rate                  uint64 `json:"rate_bits_per_second"`
			Ceil                  uint64 `json:"ceil_bits_per_second"`
			Burst                 uint64 `json:"burst_bytes"`
		}
		Destinations []struct{ Prefix, Server, Rule, Class, ClassID string }
	}
	if err := json.Unmarshal([]byte(r.stdout), &p); err != nil {
		t.Fatalf("%v in\n%s", err, r.stdout)
	}
	if p.Interface != "eth1" || p.Node != "hadoop27" || len(p.Destinations) != 21 || len(p.Classes) != 4 {
		t.Errorf("interface %s, node %s, %d destinations, %d classes", p.Interface, p.Node, len(p.Destinations), len(p.Classes))
	}
	for _, c := range p.Changes {
		if c.Verb == "" || c.Object == "" || c.Why == "" || c.Hitless == nil {
			t.Errorf("incomplete change %+v", c)
		}
	}
	for _, c := range p.Classes {
		if c.Name == "same-cabinet" && (c.ClassID != "1:10" || c.Rate != 819_200_000 || c.Ceil != 819_200_000 || c.Parent != "root") {
			t.Errorf("same-cabinet is %+v", c)
		}
	}
	i := slices.IndexFunc(p.Destinations, func(d struct{ Prefix, Server, Rule, Class, ClassID string }) bool { return d.Server == "hadoop14" })
	if i < 0 || fmt.Sprint(p.Destinations[i]) != "{10.241.28.14/32 hadoop14 cross-cabinet cross-cabinet 1:20}" {
		t.Errorf("hadoop14 is not as it should be: %+v", p.Destinations)
	}

	h.must("apply", "--config", incidentConfig())
	out := h.must("plan", "--exit-code", "--format", "json", "--config", incidentConfig())
	if !strings.Contains(out, `"changes": []`) {
		t.Errorf("changes of a shaped interface are not []:\n%s", out[:min(len(out), 400)])
	}
}

// TestPlanForTcBatch feeds the plan to the real tc: what stands then is what apply would have made, bursts too.
func TestPlanForTcBatch(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	lines := h.must("plan", "--format", "tc", "--config", incidentConfig())
	if err := h.TCBatch(lines); err != nil {
		t.Fatalf("%v\n%s", err, lines)
	}
	byTC := shownFilters(h.TC("filter", "show", "dev", "eth1", "parent", "1:"))
	for _, line := range strings.Split(strings.TrimSpace(h.must("plan", "--format", "tc", "--config", incidentConfig())), "\n") {
		if line != "" && !strings.HasPrefix(line, "#") {
			t.Errorf("after tc -batch there is still to do: %s", line)
		}
	}
	other := newHost(t)
	other.must("apply", "--config", incidentConfig())
	applied := shownFilters(other.TC("filter", "show", "dev", "eth1", "parent", "1:"))
	if fmt.Sprint(byTC) != fmt.Sprint(applied) {
		t.Errorf("tc -batch made\n%v\napply made\n%v", byTC, applied)
	}
}

func TestClearRemovesOursOnly(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	before := h.TC("qdisc", "show", "dev", "eth1")
	h.must("apply", "--config", incidentConfig())
	h.must("clear", "--config", incidentConfig())
	if after := h.TC("qdisc", "show", "dev", "eth1"); after != before {
		t.Errorf("after clear:\n%sbefore:\n%s", after, before)
	}
	h.TC("qdisc", "add", "dev", "eth1", "root", "handle", "42:", "htb")
	r := h.run("clear", "--config", incidentConfig())
	if r.code != exitFailed || !strings.Contains(r.stderr, "42:") {
		t.Errorf("clear of a foreign root: exit %d, %s", r.code, r.stderr)
	}
}
