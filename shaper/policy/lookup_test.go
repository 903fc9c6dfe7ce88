package policy

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bulkshaper/inventory"
	"bulkshaper/shaper/config"
)

var update = flag.Bool("update", false, "rewrite the goldens")

const incident = `
hadoop27   b12@nyc1 hadoop_node             10.241.28.27,10.244.27.0/24,2001:db8:28::27
hadoop28   b12@nyc1 hadoop_node             10.241.28.28,10.244.28.0/24,2001:db8:28::28
app01      b12@nyc1 app                     10.241.28.1
hadoop40   b13@nyc1 hadoop_node             10.241.29.40,10.244.40.0/24,2001:db8:29::40
namenode01 b13@nyc1 hadoop_namenode,hadoop_node 10.241.29.2
monitor01  b12@nyc1 monitoring              10.241.28.3
monitor02  b14@nyc1 monitoring              10.241.30.3
userdb01   b14@nyc1 userdb                  10.241.30.9
hadoop99   b12@lon1 hadoop_node             10.99.0.99
stray      -        hadoop_node             10.241.31.1
nowhere    -        -                       10.241.31.2`

const addressRules = `
rules:
  - {name: dns, match: {address: [10.0.0.53, 10.241.28.28]}, class: priority-role}
  - {name: pods, match: {role: hadoop_node, address: 10.244.0.0/16}, class: cross-cabinet}
  - {name: same-cabinet, match: {cabinet: same}, class: same-cabinet}
  - {name: db, match: {server: ["*db*", monitor01]}, class: priority-role}
  - {name: far, match: {datacenter: other}, class: default}
  - {name: bulk, match: {cabinet: other, role: hadoop_node}, class: cross-cabinet}
  - {name: lan, match: {address: [10.240.0.0/12, "2001:db8::/32"]}, class: same-cabinet}
`

// TestGoldens holds all destinations, and the explanation of some addresses, of the incident as node hadoop27 sees it.
func TestGoldens(t *testing.T) {
	inv := cluster(incident, "hadoop_jobtracker")
	for name, text := range map[string]string{"packaged": "", "address": addressRules} {
		t.Run(name, func(t *testing.T) {
			p := makePolicy(t, parse(t, text), inv, "hadoop27")
			var b strings.Builder
			for _, d := range p.Destinations() {
				fmt.Fprintf(&b, "%s\tserver=%s\trule=%s\tclass=%s\n", d.Prefix, d.Server, d.Rule, d.Class)
			}
			for _, w := range p.Warnings() {
				fmt.Fprintf(&b, "warning: %s\n", w)
			}
			for _, text := range []string{"10.241.28.27", "10.244.27.200", "10.241.28.28", "10.244.28.9", "10.241.29.2", "10.241.30.3", "10.241.31.1", "10.241.31.2",
				"10.99.0.99", "10.0.0.53", "192.0.2.1", "2001:db8:29::40", "2001:db8::1", "::ffff:10.241.29.40"} {
				e := p.Explain(netip.MustParseAddr(text))
				owner := "nobody"
				if e.Owner != nil {
					owner = fmt.Sprintf("%s by %s", e.Owner.Name, e.Prefix)
				}
				fmt.Fprintf(&b, "\n%s is of %s: rule=%s class=%s own=%t\n", text, owner, e.Rule, e.Class, e.Own)
				for _, tried := range e.Tried {
					fmt.Fprintf(&b, "  not %s: %s\n", tried.Rule, tried.Reason)
				}
				if e.Verdict != p.Lookup(netip.MustParseAddr(text)) {
					t.Errorf("%s: Explain and Lookup differ", text)
				}
			}
			golden := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if b.String() != string(want) {
				t.Errorf("got\n%swant\n%s", b.String(), want)
			}
		})
	}
}

func TestOwnPrefixesInsideOthersAreOwn(t *testing.T) {
	inv := cluster(`
me     a - 10.0.1.0/24,10.0.0.1
router a - 10.0.0.0/16
pod    b - 10.0.1.7`)
	p := makePolicy(t, parse(t, "rules:\n  - {name: net, match: {address: [10.0.1.16/28, 10.0.1.1]}, class: default}\n"), inv, "me")
	for text, want := range map[string]string{"10.0.0.1": "own", "10.0.1.1": "own", "10.0.1.17": "own", "10.0.1.7": "pod", "10.0.2.1": "router", "10.1.0.0": ""} {
		v := p.Lookup(netip.MustParseAddr(text))
		got := ""
		if v.Owner != nil {
			got = v.Owner.Name
		}
		if v.Own {
			got = "own"
		}
		if got != want {
			t.Errorf("%s is of %q, want %q", text, got, want)
		}
	}
	var got []string
	for _, d := range p.Destinations() {
		got = append(got, d.Prefix.String())
	}
	if s := strings.Join(got, " "); s != "10.0.0.0/16 10.0.1.7/32" {
		t.Error(s)
	}
}

func TestLookupOfOddAddresses(t *testing.T) {
	p := makePolicy(t, parse(t, ""), cluster(incident), "hadoop27")
	if v := p.Lookup(netip.Addr{}); v != (Verdict{}) {
		t.Errorf("%+v", v)
	}
	if v := p.Lookup(netip.MustParseAddr("fe80::1%eth1")); v.Class != "default" || v.Address.Zone() != "" {
		t.Errorf("%+v", v)
	}
}

// TestEmptyMatchNeedsAnOwner is about configs that were not read from a file, where an empty match is refused.
func TestEmptyMatchNeedsAnOwner(t *testing.T) {
	cfg := &config.Config{DefaultClass: "default", Rules: []config.Rule{{Name: "all", Class: "all"}}}
	p := makePolicy(t, cfg, cluster("me a - 10.0.0.1\nyou a - 10.0.0.2"), "me")
	for text, want := range map[string]string{"10.0.0.2": "all", "10.0.0.3": "default"} {
		if got := p.Lookup(netip.MustParseAddr(text)).Class; got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	inv := cluster("a x r 10.0.0.1\nb y r 10.0.0.1/32,10.0.1.0/24\nc y r 10.0.1.0/24", "spark_worker")
	cfg := parse(t, "rules:\n  - {name: bulk, match: {role: [spark_workers, sprak_worker]}, class: default}\n")
	_, err := New(cfg, inv, inv.Servers[0])
	const want = `c.yaml:3:5: rule bulk: the inventory declares no role "spark_workers"; did you mean spark_worker?
c.yaml:3:5: rule bulk: the inventory declares no role "sprak_worker"; did you mean spark_worker?
b.json: 10.0.0.1/32 is a prefix of a and of b; take it from one of them
c.json: 10.0.1.0/24 is a prefix of b and of c; take it from one of them`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestWarnings(t *testing.T) {
	inv := cluster("n1.example.net - r 10.0.0.1\nm1 b12@nyc1 r 10.0.0.2")
	for match, want := range map[string]string{
		"{role: [r, rr]}":                `c.yaml:3:5: rule x: the inventory declares no role "rr"; did you mean r?`,
		"{cabinet: [same, b12, b13]}":    `c.yaml:3:5: rule x: no server is in a cabinet "b13"; did you mean b12?` + "\n" + `c.yaml:3:5: rule x: the cabinet of this node, n1.example.net, is unknown, so no server is in the same; add it to n1.example.net.json`,
		"{datacenter: [nyc1, nyc2]}":     `c.yaml:3:5: rule x: no server is in a datacenter "nyc2"; did you mean nyc1?`,
		"{server: ['m*', n1, n3, 'z*']}": `c.yaml:3:5: rule x: the inventory has no server "n3"; correct it, or add the server` + "\n" + `c.yaml:3:5: rule x: no server matches "z*"`,
		"{role: r}":                      "",
	} {
		p := makePolicy(t, parse(t, "rules:\n  - {name: x, match: "+match+", class: default}\n"), inv, "n1")
		if got := printed(p.Warnings()); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", match, got, want)
		}
	}
	// The packaged rules name roles that a cluster may not have.
	p := makePolicy(t, parse(t, ""), inv, "m1")
	if got := len(p.Warnings()); got != 4 {
		t.Errorf("%d warnings:\n%s", got, printed(p.Warnings()))
	}
}

// TestServerPatterns reads names as they are compared: any case, a unique short name for the full one, patterns over all names.
func TestServerPatterns(t *testing.T) {
	inv := cluster("db1.example.net a - 10.0.0.1\ndb2.example.net a - 10.0.0.2\ndb2.example.org a - 10.0.0.3\nme a - 10.0.0.9")
	for pattern, want := range map[string]string{"DB1": "1", "db1.example.net": "1", "db2": "", "db2.example.org": "3", "'db*'": "123", "'*.ORG'": "3", "'db[1]*'": "1",
		"'db?'": "", "[db1, db2.example.net]": "12", "'*.example.net.'": "12"} {
		p := makePolicy(t, parse(t, "rules:\n  - {name: x, match: {server: "+pattern+"}, class: same-cabinet}\n"), inv, "me")
		got := ""
		for i, a := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} {
			if p.Lookup(netip.MustParseAddr(a)).Rule != "" {
				got += fmt.Sprint(i + 1)
			}
		}
		if got != want {
			t.Errorf("%s matches %q, want %q", pattern, got, want)
		}
	}
}

// TestUnknownCabinets are in no cabinet together with any other.
func TestUnknownCabinets(t *testing.T) {
	inv := cluster("me - - 10.0.0.1\npeer - - 10.0.0.2\nfar b - 10.0.0.3\nme2 b@x - 10.0.0.4\ntwin b@y - 10.0.0.5\nalso b@x - 10.0.0.6")
	for node, want := range map[string]map[string]string{
		"me":  {"peer": "other", "far": "other", "me2": "other"},
		"me2": {"me": "other", "peer": "other", "far": "other", "twin": "other", "also": "same"},
		"far": {"me2": "other", "twin": "other"},
	} {
		p := makePolicy(t, parse(t, `
rules:
  - {name: same, match: {cabinet: same}, class: same-cabinet}
  - {name: other, match: {cabinet: other}, class: cross-cabinet}
`), inv, node)
		for to, rule := range want {
			if got := p.Lookup(find(t, inv, to).Addresses[0]).Rule; got != rule {
				t.Errorf("from %s to %s: %q, want %q", node, to, got, rule)
			}
		}
		if got := p.Lookup(netip.MustParseAddr("192.0.2.1")).Rule; got != "" {
			t.Errorf("an address of nobody is in a cabinet: %s", got)
		}
	}
}

func BenchmarkDestinations(b *testing.B) {
	servers := make([]*inventory.Server, 100_000)
	for i := range servers {
		a := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		role := []string{"hadoop_node", "app", "monitoring", "userdb"}[i%4]
		servers[i] = &inventory.Server{Name: fmt.Sprintf("s%06d", i), Cabinet: fmt.Sprint(i / 40), Datacenter: "x", Addresses: []netip.Addr{a}, Roles: []string{role}}
	}
	inv := inventory.New(servers, []string{"hadoop_node", "monitoring", "hadoop_namenode", "hadoop_jobtracker", "app", "userdb"})
	for name, text := range map[string]string{"packaged": "", "address": addressRules} {
		cfg := parse(b, text)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				p, err := New(cfg, inv, inv.Servers[0])
				if err != nil {
					b.Fatal(err)
				}
				if n := len(p.Destinations()); n < len(servers)-1 {
					b.Fatal(n)
				}
			}
		})
	}
	b.Run("baseline", func(b *testing.B) { // what counting the roles of all servers takes
		for b.Loop() {
			n := 0
			for _, s := range inv.Servers {
				if s.HasRole("hadoop_node") {
					n++
				}
			}
			if n != len(servers)/4 {
				b.Fatal(n)
			}
		}
	})
}
