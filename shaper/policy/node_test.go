package policy

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"bulkshaper/inventory"
	"bulkshaper/shaper/config"
)

func TestFindNode(t *testing.T) {
	inv := cluster(`
n1.nyc1.example.net a - 10.0.0.1,2001:db8::1
n2.nyc1.example.net a - 10.0.0.2
n2.lon1.example.net a - 10.1.0.2
n3                  a - 10.0.0.3
router              a - 10.0.0.254,10.0.0.0/16
n5                  a - 10.0.0.5`)
	find(t, inv, "n5").Names = []string{"n5", "n5.nyc1.example.net"}
	inv = inventory.New(inv.Servers, inv.Roles)
	for _, c := range []struct {
		name, node, addresses, host, want string
	}{
		{"by config", "N1.nyc1.example.net.", "10.0.0.2", "n3", "n1.nyc1.example.net"},
		{"by short name in config", "n1", "", "", "n1.nyc1.example.net"},
		{"by address", "", "10.0.0.1", "n3", "n1.nyc1.example.net"},
		{"by IPv6", "", "2001:db8::1", "", "n1.nyc1.example.net"},
		{"by mapped address", "", "::ffff:10.0.0.1", "", "n1.nyc1.example.net"},
		{"both addresses of one", "", "10.0.0.1 2001:db8::1 192.0.2.1", "", "n1.nyc1.example.net"},
		{"by host name", "", "192.0.2.1", "n1.nyc1.example.net", "n1.nyc1.example.net"},
		{"by short host name", "", "", "N1", "n1.nyc1.example.net"},
		{"host name with a domain, inventory without", "", "", "n3.example.net", "n3"},
		// An address inside another's network does not make us that other.
		{"prefix does not count", "", "10.0.7.7", "n3", "n3"},

		{"config names nobody", "n4", "10.0.0.1", "n3", `c.yaml: node "n4" is not in the inventory; correct node, or add the server to the inventory; did you mean n3?`},
		{"config names several", "n2", "10.0.0.1", "n3",
			`c.yaml: node "n2" is not in the inventory; correct node, or add the server to the inventory; the short name stands for n2.lon1.example.net and n2.nyc1.example.net`},
		{"two owners", "", "10.0.0.3 10.0.0.1", "n3",
			"c.yaml: the addresses of eth1 belong to several servers: n1.nyc1.example.net (10.0.0.1), n3 (10.0.0.3); say which with node: or --node, or correct the inventory"},
		{"nobody", "", "10.9.9.9 2001:db8::9", "elsewhere",
			`c.yaml: which server this node is cannot be told: no server has an address of eth1 (10.9.9.9, 2001:db8::9), and no server has the host name "elsewhere"; set node: or --node, or add the server to the inventory`},
		{"no address", "", "", "localhost",
			`c.yaml: which server this node is cannot be told: eth1 has no address, and no server has the host name "localhost"; set node: or --node, or add the server to the inventory`},
		{"same short name, other domain", "", "", "n1.lon1.example.net",
			`c.yaml: which server this node is cannot be told: eth1 has no address, and no server has the host name "n1.lon1.example.net"; set node: or --node, or add the server to the inventory; did you mean n2.lon1.example.net?`},
		{"both names known, other domain", "", "", "n5.lon1.example.net",
			`c.yaml: which server this node is cannot be told: eth1 has no address, and no server has the host name "n5.lon1.example.net"; set node: or --node, or add the server to the inventory; did you mean n2.lon1.example.net?`},
		{"ambiguous host name", "", "", "n2",
			`c.yaml: which server this node is cannot be told: eth1 has no address, and no server has the host name "n2"; set node: or --node, or add the server to the inventory; the short name stands for n2.lon1.example.net and n2.nyc1.example.net`},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := &config.Config{File: "c.yaml", Interface: "eth1", Node: c.node}
			s, err := FindNode(cfg, inv, addresses(c.addresses), c.host)
			got := ""
			if err != nil {
				var ps inventory.Problems
				if !errors.As(err, &ps) {
					t.Errorf("the error is %T", err)
				}
				got = err.Error()
			} else {
				got = s.Name
			}
			if got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// TestOtherNode: a config copied from another node is warned of.
func TestOtherNode(t *testing.T) {
	inv := inventory.New([]*inventory.Server{
		{Name: "n1", Names: []string{"n1"}, Addresses: addresses("10.0.0.1 2001:db8::1")}, {Name: "n2", Names: []string{"n2"}, Addresses: addresses("10.0.0.2")}}, nil)
	for _, c := range []struct {
		node, addresses string
		byFlag          bool
		want            string
	}{
		{"n1", "10.0.0.1", false, ""}, {"n1", "192.0.2.1", false, ""}, {"n1", "", false, ""}, {"", "10.0.0.2", false, ""}, {"n1", "10.0.0.2", true, ""},
		{"n1", "10.0.0.2 2001:db8::1", false, ""}, // an address of its own beside another's, which moves between nodes
		{"n1", "192.0.2.1 ::ffff:10.0.0.2", false, "c.yaml: node is n1, and eth1 has 10.0.0.2, an address of n2; correct node, or leave it out: " +
			"a node finds itself by its addresses; until then its cabinet is taken to be that of n1"},
	} {
		got := ""
		if ps := OtherNode(&config.Config{File: "c.yaml", Interface: "eth1", Node: c.node, NodeByFlag: c.byFlag}, inv, inv.Servers[0], addresses(c.addresses)); ps != nil {
			got = ps.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func addresses(list string) (out []netip.Addr) {
	for _, a := range strings.Fields(list) {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

// TestNodeByFlag: the error names what is to be corrected.
func TestNodeByFlag(t *testing.T) {
	t.Parallel()
	var flags config.Overrides
	if err := flags.Set("node", "n9"); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse("c.yaml", []byte("interface: eth1\nnode: n1\n"), flags)
	if err != nil {
		t.Fatal(err)
	}
	_, err = FindNode(cfg, inventory.New(nil, nil), nil, "")
	if want := `--node: node "n9" is not in the inventory; `; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}
