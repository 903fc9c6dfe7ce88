package main

import (
	"encoding/json"
	"strings"
	"testing"

	"bulkshaper/cmd/bulkshaper/view"
)

// TestExplainAnswersWhatItCan: an unknown name, a kernel that is not as wanted, an interface that is not there do not keep the rest from
// being answered, and the exit code says the worst of it.
func TestExplainAnswersWhatItCan(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.must("apply", "--config", incidentConfig())
	for name, c := range map[string]struct {
		args []string
		code int
		says []string // on stdout and stderr together
	}{
		"the whole chain": {[]string{"hadoop14.nyc1.example.net"}, exitDone, []string{"10.241.28.14 (hadoop14.nyc1.example.net)", "cabinet b12 of nyc1, role hadoop_node",
			"not      rule same-cabinet: cabinet nyc1/b12, not this node's (nyc1/b13)", "cross-cabinet matches: role hadoop_node (", "config.yaml:21)", "class    cross-cabinet 1:20, rate 204800kbit",
			"kernel   cross-cabinet 1:20 by filter", "agrees", "shared   8 servers with 8 destinations; roles: hadoop_node 8"}},
		"one unknown":                 {[]string{"hadop14", "app01"}, exitWrong, []string{"app01", "did you mean hadoop14?"}},
		"interface not here":          {[]string{"hadoop14", "--interface", "nosuch0"}, exitWrong, []string{"cross-cabinet 1:20", "kernel   not asked: no such interface", "could not be asked"}},
		"files alone":                 {[]string{"hadoop14", "--interface", "nosuch0", "--no-kernel"}, exitDone, []string{"cross-cabinet 1:20, rate 204800kbit", "not asked: --no-kernel"}},
		"a class":                     {[]string{"--class", "same-cabinet"}, exitDone, []string{"same-cabinet 1:10, rate 819200kbit", "10 servers", "agrees on all 10 destinations", "hadoop21"}},
		"a class by its id":           {[]string{"--class", "1:100"}, exitDone, []string{"default 1:100", "everybody whom the inventory does not name", "app01"}},
		"no class":                    {[]string{"--class", "cross-cabinets"}, exitWrong, []string{"did you mean cross-cabinet?"}},
		"the control class":           {[]string{"--class", "control"}, exitWrong, []string{"ARP"}},
		"between":                     {[]string{"--between", "10.241.28.0/22"}, exitDone, []string{"9 ranges", "10.241.28.13   10.241.28.20", "10.241.29.27   10.241.29.27   none: this node itself", "agrees on all 21"}},
		"between of IPv6":             {[]string{"--between", "2001:db8::/32"}, exitDone, []string{"1 range;", "default"}},
		"a prefix is no address":      {[]string{"10.241.28.0/24", "app01"}, exitWrong, []string{"a prefix, and its addresses may be in several classes", "`bulkshaper explain --between 10.241.28.0/24`", "owner    app01"}},
		"with its network's length":   {[]string{"10.241.28.14/24"}, exitDone, []string{"10.241.28.14 (10.241.28.14/24)", "owner    hadoop14"}},
		"no prefix":                   {[]string{"--between", "10.1.0.0"}, exitWrong, []string{"write it like 10.1.0.0/16"}},
		"two questions at once":       {[]string{"app01", "--class", "default"}, exitWrong, []string{"one question at a time", "with --class default alone"}},
		"percentages without a speed": {[]string{"app01", "--config", podsConfig(), "--interface", "nosuch0", "--no-kernel", "spark02"}, exitWrong, []string{"class"}},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"explain", "--config", incidentConfig()}, c.args...)
			r := h.run(args...)
			if r.code != c.code {
				t.Errorf("exit %d, want %d", r.code, c.code)
			}
			for _, text := range c.says {
				if !strings.Contains(r.stdout+r.stderr, text) {
					t.Errorf("does not say %q", text)
				}
			}
			if t.Failed() {
				t.Logf("%s%s", r.stdout, r.stderr)
			}
		})
	}
}

// TestExplainFindsWhatDiffers takes a filter away and changes a rate behind the program's back.
func TestExplainFindsWhatDiffers(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.must("apply", "--config", incidentConfig())
	h.TC("class", "change", "dev", "eth1", "parent", "1:", "classid", "1:20", "htb", "rate", "1mbit")
	h.TC("filter", "delete", "dev", "eth1", "parent", "1:", "protocol", "ip", "pref", "12000", "handle", "802::2", "u32") // hadoop14's
	var members view.Members
	r := h.run("explain", "--class", "cross-cabinet", "--format", "json", "--config", incidentConfig())
	if err := json.Unmarshal([]byte(r.stdout), &members); err != nil || r.code != exitDiffers {
		t.Fatalf("exit %d, %v\n%s", r.code, err, r.stderr)
	}
	want := view.Disagree{Address: "10.241.28.14", Server: "hadoop14", Wanted: "cross-cabinet 1:20", Kernel: "default 1:100"}
	if d := members.Checked.Disagree; len(d) != 1 || d[0] != want || members.Standing != 1_000_000 || members.Rate != 204_800_000 {
		t.Errorf("%+v", members)
	}
	var between view.Between
	r = h.run("explain", "--between", "10.241.0.0/16", "--format", "json", "--config", incidentConfig())
	if err := json.Unmarshal([]byte(r.stdout), &between); err != nil || r.code != exitDiffers || len(between.Checked.Disagree) != 1 || between.Checked.Asked != 21 {
		t.Errorf("exit %d, %v, %+v", r.code, err, between.Checked)
	}
	if r = h.run("status", "--config", incidentConfig()); !strings.Contains(r.stdout, "WRONG RATE: cross-cabinet stands at 1mbit in the kernel, wanted is 204800kbit") {
		t.Errorf("status:\n%s", r.stdout)
	}
	if out := strings.Join(strings.Fields(r.stdout), " "); !strings.Contains(out, "operations to do (change cross-cabinet 1:20: rate is 1mbit, ") || !strings.Contains(out, "add hadoop14 10.241.28.14 to cross-cabinet 1:20") ||
		!strings.Contains(out, "): run `bulkshaper plan`") {
		t.Errorf("without a daemon the status does not name what is to do:\n%s", r.stdout)
	}
	if r = h.run("explain", "hadoop15", "--config", incidentConfig()); r.code != exitDone || !strings.Contains(r.stdout, "WRONG RATE: it stands at 1mbit") {
		t.Errorf("exit %d\n%s", r.code, r.stdout)
	}
	// That filters lead to another class makes nothing of that class wrong.
	h.TC("filter", "replace", "dev", "eth1", "parent", "1:", "protocol", "ip", "pref", "12000", "handle", "802::3", "u32", "match", "ip", "dst", "10.241.28.15/32", "flowid", "1:10") // hadoop15's
	r = h.run("explain", "hadoop15", "--config", incidentConfig())
	if out := strings.Join(strings.Fields(r.stdout), " "); r.code != exitDiffers || !strings.Contains(out, "kernel same-cabinet 1:10 by filter") || !strings.Contains(out, ", held to 819200kbit, DISAGREES") || strings.Contains(out, "WRONG RATE") {
		t.Errorf("exit %d\n%s", r.code, r.stdout)
	}
}

// TestExplainTellsAnOverride with its end and what comes after it, and so does the status without a daemon.
func TestExplainTellsAnOverride(t *testing.T) {
	t.Parallel()
	h, dir := newHost(t), t.TempDir()
	on := []string{"--config", incidentConfig(), "--run-dir", dir}
	h.must(append([]string{"override", "cross-cabinet", "rate=50mbit", "--for", "30m", "--why", "archive copy"}, on...)...)
	h.must(append([]string{"apply"}, on...)...)
	for _, args := range [][]string{{"explain", "hadoop14"}, {"explain", "--class", "cross-cabinet"}} {
		out := strings.Join(strings.Fields(h.must(append(args, on...)...)), " ")
		if !strings.Contains(out, "cross-cabinet 1:20, rate 50mbit by an override until ") || !strings.Contains(out, "then 204800kbit again") || strings.Contains(out, "stands at") {
			t.Errorf("%q:\n%s", args, out)
		}
	}
	out := strings.Join(strings.Fields(h.must(append([]string{"status"}, on...)...)), " ")
	if !strings.Contains(out, "OVERRIDE cross-cabinet is held to 50mbit for another 29 min") || !strings.Contains(out, "then 204800kbit again") || !strings.Contains(out, "archive copy") {
		t.Errorf("status:\n%s", out)
	}
}

// TestExplainWithoutTheInterface: where this node is told by the addresses of an interface that is not there, that is what is said, and no
// file is called broken.
func TestExplainWithoutTheInterface(t *testing.T) {
	t.Parallel()
	d := startIncident(t)
	edit(t, d.config(), strings.Replace(read(t, d.config()), "node: hadoop27\n", "", 1)) // refused by the daemon, who keeps the files from before
	r := d.run(d.args("explain", "hadoop14", "--interface", "nosuch0")...)
	if r.code != exitWrong || !strings.Contains(r.stderr, "no such interface") || strings.Contains(r.stderr, "broken") || strings.Contains(r.stderr, "set node:") {
		t.Errorf("%+v", r)
	}
	if r = d.run(d.args("explain", "hadoop14")...); r.code != exitWrong || !strings.Contains(r.stderr, "set node:") {
		t.Errorf("with the interface, and no address: %+v", r)
	}
}

// TestStatusOfABareInterface says that nothing is shaped before how much there is to do.
func TestStatusOfABareInterface(t *testing.T) {
	t.Parallel()
	if out := newHost(t).must("status", "--config", incidentConfig()); !strings.Contains(out, "eth1 is not shaped: ") || !strings.Contains(out, "operations to do") {
		t.Error(out)
	}
}
