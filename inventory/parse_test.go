package inventory

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// compareServers compares values of netip by ==.
var compareServers = cmp.Options{cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmpopts.EquateEmpty()}

// parseOne reads one server file with roles that declare the server "hadoop01" and two roles of it.
func parseOne(t *testing.T, path, json string, fields Fields) *Server {
	t.Helper()
	inv, err := Parse(File{Path: "roles.json", Data: []byte(`{"servers": ["hadoop01"], "roles": ["hadoop_node", "app"], "mapping": {"hadoop01": ["hadoop_node", "app"]}}`)},
		[]File{{Path: path, Data: []byte(json), Datacenter: DatacenterOf(path)}}, fields)
	if err != nil {
		t.Fatal(err)
	}
	if len(inv.Servers) != 1 {
		t.Fatalf("%d servers", len(inv.Servers))
	}
	return inv.Servers[0]
}

func TestServerFile(t *testing.T) {
	const path = "dc/nyc1/jsons/hadoop01.json"
	addresses := func(list ...string) (out []netip.Addr) {
		for _, a := range list {
			out = append(out, netip.MustParseAddr(a))
		}
		return out
	}
	for _, test := range []struct {
		name   string
		path   string
		json   string
		fields Fields
		want   Server
	}{
		{name: "the example of the README",
			json: `{"name": "hadoop01", "names": ["hadoop01.nyc1.example.net"], "ip_address": "10.241.28.14", "cabinet": "b12",
				"prefixes": ["10.244.14.0/24"], "provisioning": {"anything": "else is ignored"}}`,
			want: Server{Name: "hadoop01", Names: []string{"hadoop01", "hadoop01.nyc1.example.net"}, Addresses: addresses("10.241.28.14"),
				Prefixes: []netip.Prefix{netip.MustParsePrefix("10.244.14.0/24")}, Cabinet: "b12", Datacenter: "nyc1"}},
		{name: "name of the file", json: `{"ip": "10.0.0.1"}`,
			want: Server{Name: "hadoop01", Names: []string{"hadoop01"}, Addresses: addresses("10.0.0.1"), Datacenter: "nyc1"}},
		{name: "names in any case, with blanks and a final dot", json: `{"hostname": " HADOOP01.NYC1.Example.NET. ", "fqdn": "hadoop01.nyc1.example.net", "names": "Hadoop01"}`,
			want: Server{Name: "hadoop01.nyc1.example.net", Names: []string{"hadoop01", "hadoop01.nyc1.example.net"}, Datacenter: "nyc1"}},
		{name: "folder of another name", path: "servers/nyc1/hadoop01.json", json: `{"ip": "10.0.0.1"}`,
			want: Server{Name: "hadoop01", Names: []string{"hadoop01"}, Addresses: addresses("10.0.0.1")}},
		{name: "datacenter in the file", json: `{"dc": "sjc1"}`, want: Server{Name: "hadoop01", Names: []string{"hadoop01"}, Datacenter: "sjc1"}},
		{name: "cabinet as a number", json: `{"cabinet": 12}`, want: Server{Name: "hadoop01", Names: []string{"hadoop01"}, Cabinet: "12", Datacenter: "nyc1"}},
		{name: "cabinet with zeros", json: `{"cabinet": " 012 "}`, want: Server{Name: "hadoop01", Names: []string{"hadoop01"}, Cabinet: "012", Datacenter: "nyc1"}},
		{name: "cabinet in the second place", json: `{"cabinet": null, "rack": "r7"}`, want: Server{Name: "hadoop01", Names: []string{"hadoop01"}, Cabinet: "r7", Datacenter: "nyc1"}},
		{name: "every match is taken, each address once, unmapped and sorted",
			json: `{"ip": "10.0.0.9", "addresses": ["::ffff:10.0.0.9", ["10.0.0.3/24"], null, ""], "interfaces": {"eth1": {"ip": "2001:DB8::1"}, "eth0": {"ip": "10.0.0.2/31", "ips": ["10.0.0.3"]}}}`,
			want: Server{Name: "hadoop01", Names: []string{"hadoop01"}, Addresses: addresses("10.0.0.2", "10.0.0.3", "10.0.0.9", "2001:db8::1"), Datacenter: "nyc1"}},
		{name: "interfaces in a list", json: `{"interfaces": [{"ip": "10.0.0.2"}, {"mac": "x"}, {"ip": ["10.0.0.1"]}]}`,
			want: Server{Name: "hadoop01", Names: []string{"hadoop01"}, Addresses: addresses("10.0.0.1", "10.0.0.2"), Datacenter: "nyc1"}},
		{name: "wide prefixes", json: `{"prefixes": ["0.0.0.0/1", "128.0.0.0/1", "::/1"]}`,
			want: Server{Name: "hadoop01", Names: []string{"hadoop01"}, Prefixes: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/1"), netip.MustParsePrefix("128.0.0.0/1"),
				netip.MustParsePrefix("::/1")}, Datacenter: "nyc1"}},
		{name: "prefixes", json: `{"pod_cidrs": ["10.2.0.0/16", "::ffff:10.1.0.0/112"], "podCIDR": "2001:db8:1::/64", "prefixes": ["10.3.0.1"]}`,
			want: Server{Name: "hadoop01", Names: []string{"hadoop01"}, Prefixes: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"),
				netip.MustParsePrefix("10.2.0.0/16"), netip.MustParsePrefix("10.3.0.1/32"), netip.MustParsePrefix("2001:db8:1::/64")}, Datacenter: "nyc1"}},
		{name: "live by any other status", json: `{"status": "maintenance"}`, want: Server{Name: "hadoop01", Names: []string{"hadoop01"}, Datacenter: "nyc1"}},
		{name: "byte order mark and CRLF", json: "\xef\xbb\xbf{\r\n\"cabinet\":\r\n\"b1\"\r\n}\r\n", want: Server{Name: "hadoop01", Names: []string{"hadoop01"}, Cabinet: "b1", Datacenter: "nyc1"}},
		{name: "keys that differ in case where nobody looks", json: `{"provisioning": {"env": {"http_proxy": 1, "HTTP_PROXY": 2}}}`, want: Server{Name: "hadoop01", Names: []string{"hadoop01"}, Datacenter: "nyc1"}},
		{name: "fields of another shop", fields: Fields{Name: []string{"Meta.Host"}, Addresses: []string{`nics.#(role=="data")#.addr.*.v`}, Cabinet: []string{`loc\.rack`}, Datacenter: []string{}, Status: []string{}},
			json: `{"Meta": {"Host": "hadoop01"}, "nics": [{"role": "oob", "addr": {"a": {"v": "192.0.2.1"}}}, {"role": "data", "addr": {"a": {"v": "10.0.0.1"}, "b": {"v": "10.0.0.2"}}}],
				"loc.rack": "z", "datacenter": "ignored", "status": "retired"}`,
			want: Server{Name: "hadoop01", Names: []string{"hadoop01"}, Addresses: addresses("10.0.0.1", "10.0.0.2"), Cabinet: "z", Datacenter: "nyc1"}},
		{name: "fields with a modifier are gjson's", fields: Fields{Addresses: []string{"nics.@values.#.ip"}, Cabinet: []string{"place|rack"}},
			json: `{"nics": {"a": {"ip": "10.0.0.1"}, "b": {"ip": "10.0.0.2"}}, "place": {"rack": 3}}`,
			want: Server{Name: "hadoop01", Names: []string{"hadoop01"}, Addresses: addresses("10.0.0.1", "10.0.0.2"), Cabinet: "3", Datacenter: "nyc1"}},
		{name: "wildcards inside of keys", fields: Fields{Addresses: []string{"eth?.i*.#.local"}},
			json: `{"eth0": {"inet": [{"local": "10.0.0.1"}, {"local": "10.0.0.2"}]}, "eth1": {"inet6": [{"local": "2001:db8::1"}]}, "eth10": {"inet": [{"local": "10.0.0.3"}]}}`,
			want: Server{Name: "hadoop01", Names: []string{"hadoop01"}, Addresses: addresses("10.0.0.1", "10.0.0.2", "2001:db8::1"), Datacenter: "nyc1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.path == "" {
				test.path = path
			}
			test.want.File = test.path
			test.want.Roles = []string{"app", "hadoop_node"}
			if diff := cmp.Diff(&test.want, parseOne(t, test.path, test.json, test.fields), compareServers); diff != "" {
				t.Errorf("server differs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEncodings has the mistakes that cannot be written down in a text archive.
func TestEncodings(t *testing.T) {
	wide := func(order binary.AppendByteOrder, mark bool) []byte {
		text := `{"ip": "10.0.0.1"}`
		if mark {
			text = "\ufeff" + text
		}
		var b []byte
		for _, unit := range utf16.Encode([]rune(text)) {
			b = order.AppendUint16(b, unit)
		}
		return b
	}
	for _, test := range []struct {
		name string
		data []byte
		want string
	}{
		{"UTF-16 with mark", wide(binary.LittleEndian, true), "a.json: file is in UTF-16, not UTF-8; save it as UTF-8, for example with iconv -f UTF-16 -t UTF-8"},
		{"UTF-16, the other order", wide(binary.BigEndian, true), "a.json: file is in UTF-16, not UTF-8; save it as UTF-8, for example with iconv -f UTF-16 -t UTF-8"},
		{"UTF-16LE", wide(binary.LittleEndian, false), "a.json: file is in UTF-16LE, not UTF-8; save it as UTF-8, for example with iconv -f UTF-16LE -t UTF-8"},
		{"UTF-16BE", wide(binary.BigEndian, false), "a.json: file is in UTF-16BE, not UTF-8; save it as UTF-8, for example with iconv -f UTF-16BE -t UTF-8"},
		{"Latin-1", []byte("{\n\"owner\": \"J\xf6rg\"}"), "a.json:2:12: invalid UTF-8; save the file as UTF-8"},
		{"zero bytes of a crash", make([]byte, 512), `a.json:1:1: invalid character '\x00' at start of value; correct the JSON there`},
		{"columns count characters", []byte("\xef\xbb\xbf{\"\u00f6\u00f6\": 1, \"cabinet\": true}"), "a.json:1:22: cabinet is true; write a string or a whole number, or null where it is unknown"},
		{"mark and nothing else", []byte("\xef\xbb\xbf"), "a.json: file is empty; write the JSON object again, or delete the file if it is not wanted"},
		{"too large", []byte("{" + strings.Repeat(" ", MaxFileSize) + "}"),
			"a.json: file has 16777218 bytes, more than the 16 MiB that are read; an inventory file is far smaller: move this one out of the folder, or name the right one"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse(File{Path: "roles.json", Data: []byte(`{"servers": [], "roles": [], "mapping": {}}`)}, []File{{Path: "a.json", Data: test.data}}, Fields{})
			if err == nil || err.Error() != test.want {
				t.Errorf("error is\n%v\nwant\n%s", err, test.want)
			}
		})
	}
}

// TestMappingBothWays gives the same mapping in both directions and with every spelling of names.
func TestMappingBothWays(t *testing.T) {
	servers := []File{
		{Path: "a.json", Data: []byte(`{"name": "hadoop01.nyc1.example.net", "ip": "10.0.0.1", "cabinet": "b1"}`)},
		{Path: "b.json", Data: []byte(`{"name": "app01", "ip": "10.0.0.2", "cabinet": "b1"}`)},
		{Path: "c.json", Data: []byte(`{"name": "monitoring", "ip": "10.0.0.3", "cabinet": "b1"}`)}, // a server named like a role
	}
	for _, mapping := range []string{
		`{"hadoop_node": ["hadoop01.nyc1.example.net"], "app": ["app01"], "monitoring": ["app01", "monitoring"]}`,
		`{"hadoop_node": "HADOOP01", "app": ["app01.nyc1.example.net."], "monitoring": ["app01", "monitoring", "app01"]}`,
		`{"hadoop01": "hadoop_node", "APP01": ["app", "monitoring"], "monitoring": ["monitoring"]}`,
		`{"Hadoop01.NYC1.example.net": ["hadoop_node"], "app01": ["app"], "app01.": "monitoring", "monitoring": "monitoring"}`,
	} {
		inv, err := Parse(File{Path: "roles.json", Data: fmt.Appendf(nil,
			`{"servers": ["hadoop01", "app01", "monitoring"], "roles": ["app", "hadoop_node", "monitoring", "unused"], "mapping": %s}`, mapping)}, servers, Fields{})
		if err != nil {
			t.Errorf("mapping %s: %v", mapping, err)
			continue
		}
		var got []string
		for _, s := range inv.Servers {
			got = append(got, s.Name+" "+strings.Join(s.Roles, ","))
		}
		if diff := cmp.Diff([]string{"app01 app,monitoring", "hadoop01.nyc1.example.net hadoop_node", "monitoring monitoring"}, got); diff != "" {
			t.Errorf("mapping %s gives other roles (-want +got):\n%s", mapping, diff)
		}
		if len(inv.Warnings) > 0 {
			t.Errorf("mapping %s: warnings %v", mapping, inv.Warnings)
		}
	}
}

func TestNamesResolve(t *testing.T) {
	inv := New([]*Server{
		{Name: "Hadoop01.nyc1.example.net."}, {Name: "hadoop02.nyc1.example.net"}, {Name: "hadoop02.sjc1.example.net"},
		{Name: "app01"}, {Name: "db01"}, {Name: "db01.sjc1.example.net"},
	}, nil)
	for query, want := range map[string]string{
		"hadoop01": "hadoop01.nyc1.example.net", " HADOOP01.NYC1.example.net.": "hadoop01.nyc1.example.net",
		"hadoop01.sjc1.example.net": "", // another host
		"hadoop02":                  "", // which of the two
		"hadoop02.sjc1.example.net": "hadoop02.sjc1.example.net",
		"app01.nyc1.example.net":    "app01", "app": "", "": "",
		"db01": "db01", "db01.nyc1.example.net": "", "db01.sjc1.example.net": "db01.sjc1.example.net",
	} {
		got := ""
		if s, ok := inv.Server(query); ok {
			got = s.Name
		}
		if got != want {
			t.Errorf("%q is %q, want %q", query, got, want)
		}
	}
}

func TestProblemsAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"addresses": [1`)
	for range 5000 {
		b.WriteString(",1")
	}
	b.WriteString("]}")
	_, err := Parse(File{Path: "roles.json", Data: []byte("{")}, []File{{Path: "a.json", Data: []byte(b.String())}, {Path: "b.json", Data: []byte("{")}}, Fields{})
	var problems Problems
	if !errors.As(err, &problems) || len(problems) != maxProblems+1 {
		t.Fatalf("%d problems, want %d and one that counts the others", len(problems), maxProblems)
	}
	if got := problems[maxProblems].String(); got != "and 3 more problems" {
		t.Errorf("last is %q", got)
	}
	if got := problems[0].String(); got != "a.json: 4001 more problems in this file" {
		t.Errorf("first is %q", got)
	}
}

func TestCheckShrink(t *testing.T) {
	named := func(from, to int) *Inventory {
		var servers []*Server
		for i := from; i < to; i++ {
			servers = append(servers, &Server{Name: fmt.Sprintf("s%d", i)})
		}
		return New(servers, nil)
	}
	for _, test := range []struct {
		name     string
		old, new *Inventory
		max      float64
		gone     int // 0: allowed
	}{
		{"first", nil, named(0, 1), 0.5, 0},
		{"from nothing", named(0, 0), named(0, 0), 0, 0},
		{"half", named(0, 10), named(0, 5), 0.5, 0},
		{"more than half", named(0, 10), named(0, 4), 0.5, 6},
		{"replaced by others", named(0, 10), named(6, 30), 0.5, 6},
		{"no loss allowed", named(0, 10), named(1, 10), 0, 1},
		{"any loss allowed", named(0, 10), named(20, 21), 1, 0},
		{"29 of 100", named(0, 100), named(29, 100), 0.29, 0},
		{"renamed to FQDN", named(0, 2), New([]*Server{{Name: "s0.example.net"}, {Name: "s1.example.net"}}, nil), 0, 0},
	} {
		err := CheckShrink(test.old, test.new, test.max)
		var shrink *ShrinkError
		switch {
		case test.gone == 0 && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.gone > 0 && (!errors.As(err, &shrink) || shrink.Gone != test.gone):
			t.Errorf("%s: error %v, want %d gone", test.name, err, test.gone)
		}
	}
	err := CheckShrink(named(0, 10), named(0, 3), 0.5)
	const want = "inventory lost 7 of 10 servers (70%), more than inventory.max_shrink allows (50%): a copy at work or a wrong glob looks like that; " +
		"if they are really gone, set inventory.max_shrink to 100% for one reload"
	if err == nil || err.Error() != want {
		t.Errorf("error is %v", err)
	}
}
