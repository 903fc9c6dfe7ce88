package inventory

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

// glanceAgrees compares a glance at text with checkSyntax and gjson: what it is certain of must have no problems, the same members, and
// give every path the same matches. It tells whether it was certain, and whether the text is an object without problems.
func glanceAgrees(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, text string, fields *fieldPaths) (certain, fine bool) {
	t.Helper()
	doc, problem := openDocument("x.json", []byte(text))
	if problem != nil {
		return false, false
	}
	r := newServerReader(fields)
	members, certain := r.glance.at(doc.text)
	problems := checkSyntax(doc, fields.significant)
	fine = len(problems) == 0 && gjson.Parse(doc.text).IsObject()
	if !certain {
		return false, fine
	}
	if !fine {
		t.Fatalf("%q: nothing seems wrong, and yet %v", text, problems)
	}
	if want := membersOf(doc); !slices.Equal(members, want) {
		t.Fatalf("%q: members %+v, want %+v", text, members, want)
	}
	p := serverParser{serverReader: r, doc: doc}
	p.take(members)
	for _, paths := range [][]fieldPath{fields.name, fields.names, fields.addresses, fields.prefixes, fields.cabinet, fields.datacenter, fields.status} {
		for _, path := range paths {
			if got, want := found(p.find(nil, &path)), found(path.find(doc)); !slices.Equal(got, want) {
				t.Fatalf("%q: %s finds %v, want %v", text, path.text, got, want)
			}
		}
	}
	return true, true
}

// found is matches in a form that can be compared and read.
func found(matches []match) (lines []string) {
	for _, m := range matches {
		lines = append(lines, fmt.Sprintf("%s %q %q at %d", m.value.Type, m.value.Raw, m.value.Str, m.offset))
		for _, leaf := range m.appendLeaves(nil) {
			lines = append(lines, fmt.Sprintf("  %s %q %q at %d", leaf.value.Type, leaf.value.Raw, leaf.value.Str, leaf.offset))
		}
	}
	return lines
}

// glanceTexts are documents that a glance must be certain of, and others about which checkSyntax must be asked.
var glanceTexts = []struct {
	text    string
	certain bool
}{
	{`{}`, true},
	{"\t{ \r\n}\n", true},
	{`{"name": "a", "ip": ["10.0.0.1", null, [{"x": 1.5e-3}]], "cabinet": 12, "interfaces": {"a": {"ip": "::1"}, "b": {"ip": true}}}`, true},
	{`{"cabinet": "\u00e9\"\\\/\b\f\n\r\t", "status": "żółw", "x": [-0, 0.1, 10E+2, -1e5, false]}`, true},
	{`{"a": {"name": 1}, "name": {"a": {"name": 2}}, "b": [{"name": 3}, {"name": 4}]}`, true},
	{"{\"a\": \"\x7f\"}", true},
	{`{"a": ` + strings.Repeat("[", maxDepth-1) + strings.Repeat("]", maxDepth-1) + `}`, true},
	// Right, but not at a glance.
	{`{"n\u0061me": "a"}`, false},
	{`{"größe": 1}`, false},
	{`{"a": {"x": 1, "X": 2}}`, false},
	{`{"a": "\ud83d\ude00"}`, false},
	// Wrong.
	{`{"a": ` + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth) + `}`, false},
	{`{"a": 1, "a": 2}`, false},
	{`{"a": 1, "A": 2}`, false},
	{`{"a": {"name": 1, "Name": 2}}`, false},
	{`{"a": {"b": 1, "c": 2, "b": 3}}`, false},
	{`{"a": 1,}`, false}, {`{"a": [1,]}`, false}, {`{"a": [,1]}`, false}, {`{,}`, false}, {`{"a" 1}`, false}, {`{"a": 1 "b": 2}`, false}, {`{"a": [1 2]}`, false},
	{`{"a": 01}`, false}, {`{"a": 1.}`, false}, {`{"a": .5}`, false}, {`{"a": +1}`, false}, {`{"a": -}`, false}, {`{"a": 1e}`, false}, {`{"a": 1e+}`, false}, {`{"a": 0x1}`, false},
	{`{"a": tru}`, false}, {`{"a": truer}`, false}, {`{"a": nul`, false}, {`{"a": NaN}`, false}, {`{"a": True}`, false}, {`{"a": 'b'}`, false}, {`{a: 1}`, false},
	{`{"a": "\ud800"}`, false}, {`{"a": "\x"}`, false}, {`{"a": "\u12g4"}`, false}, {`{"a": "\u12`, false}, {`{"a": "\`, false},
	{"{\"a\": \"\n\"}", false}, {"{\"a\": \"\x00\"}", false}, {"{\"a\": \"\xff\"}", false}, {"{\"a\": \"\xed\xa0\x80\"}", false}, {"{\"a\": \"\xc0\xaf\"}", false}, {"{\"\xff\": 1}", false},
	{"{\"a\":\u00a01}", false}, {`{"a": 1} {"b": 2}`, false}, {`{"a": 1}]`, false}, {`{"a": 1}//`, false}, {`{"a": 1`, false}, {`{"a": [1`, false}, {`{"a`, false}, {`{"a":`, false},
	{`[]`, false}, {`1`, false}, {`"a"`, false}, {`[{"a": 1}]`, false}, {`{"a": ]}`, false}, {`{"a": [}]`, false}, {"{\"a\":\v1}", false},
}

func TestGlance(t *testing.T) {
	fields := Fields{}.compile()
	for _, test := range glanceTexts {
		if certain, _ := glanceAgrees(t, test.text, fields); certain != test.certain {
			t.Errorf("%q: certain %v, want %v", test.text, certain, test.certain)
		}
	}
	many := make([]string, manyNames+1)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d": {"k0": [{"k1": %d}]}`, i, i)
	}
	for count, want := range map[int]bool{manyNames: true, manyNames + 1: false} {
		if certain, fine := glanceAgrees(t, "{"+strings.Join(many[:count], ",")+"}", fields); certain != want || !fine {
			t.Errorf("%d names: certain %v, fine %v", count, certain, fine)
		}
	}
}

// TestGlanceProperty makes documents of parts, right and wrong, and paths for them.
func TestGlanceProperty(t *testing.T) {
	name := rapid.SampledFrom([]string{`"ip"`, `"IP"`, `"\u0069p"`, `"ip.x"`, `"interfaces"`, `"a b"`, `"0"`, `""`, `"location"`, `"cabinet"`, `"é"`, `"names"`, `"name"`})
	scalar := rapid.SampledFrom([]string{`"x"`, `"a\n"`, `"\u00e9"`, `"é"`, `"\ud800"`, `1`, `-0.5e3`, `01`, `null`, `true`, `""`, `nul`, "\"\t\""})
	gap := rapid.SampledFrom([]string{"", "", "", " ", "\n\t", ",", "}"})
	path := rapid.SampledFrom([]string{"ip", "IP", "interfaces.*.ip", "location.cabinet", "names", "names.0", "names.#", "0", "a b", "i*", "@this.ip", "ip|@this", `ip\.x`, "ip.x", "names.#.ip", "name"})
	var value *rapid.Generator[string]
	object := rapid.Custom(func(t *rapid.T) string {
		var members []string
		for range rapid.IntRange(0, 4).Draw(t, "members") {
			members = append(members, name.Draw(t, "name")+gap.Draw(t, "gap")+":"+value.Draw(t, "value")+gap.Draw(t, "gap"))
		}
		return "{" + strings.Join(members, ", ") + "}"
	})
	list := rapid.Custom(func(t *rapid.T) string {
		return "[" + strings.Join(rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[string] { return value }), 0, 3).Draw(t, "list"), ",") + "]"
	})
	value = rapid.OneOf(scalar, scalar, scalar, rapid.Deferred(func() *rapid.Generator[string] { return object }), rapid.Deferred(func() *rapid.Generator[string] { return list }))
	outcomes := map[[2]bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		paths := rapid.SliceOfN(path, 1, 4).Draw(t, "paths")
		certain, fine := glanceAgrees(t, object.Draw(t, "object"), Fields{Name: paths[:1], Names: paths}.compile())
		outcomes[[2]bool{certain, fine}]++
	})
	if outcomes[[2]bool{true, true}] == 0 || outcomes[[2]bool{false, false}] == 0 {
		t.Errorf("outcomes %v", outcomes)
	}
}

// TestGlanceReadsTheSame reads files with and without the glance.
func TestGlanceReadsTheSame(t *testing.T) {
	for _, text := range []string{
		`{"name": "a", "names": ["b", "A."], "ip": ["10.0.0.2", "10.0.0.1", "10.0.0.2"], "prefixes": ["10.2.0.0/16", "10.1.0.0/16"], "rack": 7, "dc": "x"}`,
		`{"Name": "a", "ip": "10.0.0.1/8", "cabinet": [1], "status": {"value": "offline"}}`,
		`{"name": 1, "hostname": {"x": 2}, "addresses": [[["::1"], "1.2.3.4"], {"a": 1}], "interfaces": {"a": {"ip": "10.0.0.9"}}, "location": {"rack": "r", "cabinet": null}}`,
		`{"ip": "x", "addresses": "10.0.0.1, 10.0.0.2", "cabinet": "a", "rack": "b"}`, `{"state": "retired", "ip": 5}`, `{}`,
	} {
		read := func(text string) *record {
			return newServerReader(Fields{}.compile()).read(File{Path: "dc/nyc1/jsons/x.json", Data: []byte(text), Datacenter: "nyc1"})
		}
		// A name with an escape is not for a glance, and one at the end moves nothing.
		certain, slow := read(text), read(text[:len(text)-1]+strings.Repeat(`, "\u0061": 0`, min(1, len(text)-2))+"}")
		if !strings.Contains(text, `"`) {
			slow = read(`{"\u0061": 0}`)
		}
		if diff := cmp.Diff(certain, slow, compareServers, cmp.AllowUnexported(record{}, place{})); diff != "" {
			t.Errorf("%s: -glance +checkSyntax\n%s", text, diff)
		}
	}
}

// FuzzGlance compares glances at any text and any path.
func FuzzGlance(f *testing.F) {
	for _, test := range glanceTexts {
		f.Add(test.text, "name")
	}
	for _, path := range []string{"interfaces.*.ip", "a|b", "@values.#.ip", `a\.b`, "#", "*", "a.#.b.*", "{a,b}", "a..", "0"} {
		f.Add(glanceTexts[2].text, path)
	}
	f.Fuzz(func(t *testing.T, text, path string) {
		glanceAgrees(t, text, Fields{Names: []string{path}}.compile())
	})
}

// BenchmarkServerFile reads one plain file, with a glance and without.
func BenchmarkServerFile(b *testing.B) {
	plain := `{"name": "hadoop00001", "names": ["hadoop00001.example.net"], "ip_address": "10.1.2.3", "cabinet": "b12", "provisioning": {"image": "x", "disks": [1, 2, 3]}}`
	for _, test := range []struct{ name, text string }{{"glance", plain}, {"whole", strings.Replace(plain, "image", `im\u0061ge`, 1)}} {
		b.Run(test.name, func(b *testing.B) {
			r := newServerReader(Fields{}.compile())
			f := File{Path: "dc/nyc1/jsons/hadoop00001.json", Data: []byte(test.text), Datacenter: "nyc1"}
			b.ReportAllocs()
			for b.Loop() {
				if len(r.read(f).problems) > 0 {
					b.Fatal("problems")
				}
			}
		})
	}
}
