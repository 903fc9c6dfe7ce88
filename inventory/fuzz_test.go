package inventory

import (
	"errors"
	"strings"
	"testing"
)

// checkOutcome wants an inventory or problems, and the same again for the same input.
func checkOutcome(t *testing.T, roles File, servers []File, fields Fields) {
	inv, err := Parse(roles, servers, fields)
	var problems Problems
	if err != nil && (inv != nil || !errors.As(err, &problems) || len(problems) == 0 || len(problems) > maxProblems+1) {
		t.Fatalf("inventory %v and error %v", inv, err)
	}
	if err == nil {
		for _, s := range inv.Servers {
			if got, ok := inv.Server(s.Name); !ok || got != s {
				t.Fatalf("server %q is not found by its name", s.Name)
			}
			for i, a := range s.Addresses {
				if a.Is4In6() || a.IsUnspecified() || a.Zone() != "" || i > 0 && s.Addresses[i-1].Compare(a) >= 0 {
					t.Fatalf("addresses %v", s.Addresses)
				}
			}
			for i, p := range s.Prefixes {
				if p != p.Masked() || i > 0 && s.Prefixes[i-1].Compare(p) >= 0 {
					t.Fatalf("prefixes %v", s.Prefixes)
				}
			}
		}
	}
	if first, second := outcomeOf(inv, err), outcomeOf(Parse(roles, servers, fields)); first != second {
		t.Fatalf("the same input gives\n%s\nand\n%s", first, second)
	}
}

func FuzzRoles(f *testing.F) {
	for _, seed := range []string{shopRoles, `{"servers": [], "roles": [], "mapping": {"a": "b"}}`, `{"mapping": {"hadoop01": ["app", 1, {}]}, "roles": ["app", null], "servers": "x"}`,
		`[]`, `{"servers": ["a"], "servers": ["b"]}`, "\xef\xbb\xbf{}", `{"roles": ["\ud800"]}`} {
		f.Add([]byte(seed))
	}
	servers := []File{{Path: "hadoop01.json", Data: []byte(`{"ip": "10.0.0.1"}`)}, {Path: "a.json", Data: []byte(`{"name": "app01.nyc1", "ip": "10.0.0.2"}`)},
		{Path: "b.json", Data: []byte(`{"name": "app01.sjc1", "status": "retired"}`)}}
	f.Fuzz(func(t *testing.T, data []byte) {
		checkOutcome(t, File{Path: "roles.json", Data: data}, servers, Fields{})
	})
}

func FuzzServer(f *testing.F) {
	for _, seed := range []string{`{"name": "a", "ip": "10.0.0.1", "cabinet": 12, "prefixes": ["10.1.0.0/16"]}`, `{"interfaces": {"a": {"ip": ["10.0.0.1", 7]}}, "status": {"value": "retired"}}`,
		`{"names": [["x", ["y."]]], "rack": 1e3, "Cabinet": "z"}`, strings.Repeat("[", 100), `{"addresses": ["::ffff:1.2.3.4/120", "fe80::1%1"]}`, "\xff\xfe{\x00", `{"a": {"b": 1, "b": 2}}`} {
		f.Add([]byte(seed))
	}
	roles := File{Path: "roles.json", Data: []byte(`{"servers": ["a"], "roles": ["app"], "mapping": {"app": ["a"]}}`)}
	f.Fuzz(func(t *testing.T, data []byte) {
		checkOutcome(t, roles, []File{{Path: "a.json", Data: data}, {Path: "b.json", Data: []byte(`{"ip": "10.0.0.2"}`)}}, Fields{})
	})
}

// FuzzFields gives any path, as the config may, on any file.
func FuzzFields(f *testing.F) {
	for _, seed := range []string{"interfaces.*.ip", "nics.#(role==\"data\")#.addr.*.v", "a|b", "@values.#.ip", `a\.b`, "#", "*", "a.#.b.*", "!true", "{a,b}", "[a.0]", `x\`, "a.."} {
		f.Add(seed, []byte(`{"interfaces": {"a": {"ip": "10.0.0.1"}}, "nics": [{"role": "data", "addr": {"x": {"v": "10.0.0.2"}}}], "a": [{"b": {"c": 1}}]}`))
	}
	roles := File{Path: "roles.json", Data: []byte(`{"servers": ["a"], "roles": ["app"], "mapping": {"app": ["a"]}}`)}
	f.Fuzz(func(t *testing.T, path string, data []byte) {
		paths := []string{path}
		checkOutcome(t, roles, []File{{Path: "a.json", Data: data}}, Fields{Name: paths, Names: paths, Addresses: paths, Prefixes: paths, Cabinet: paths, Datacenter: paths, Status: paths})
	})
}
