package inventory

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestFirstKeyDecides: a path whose first key the object does not have matches nothing, however keys are written.
func TestFirstKeyDecides(t *testing.T) {
	key := rapid.SampledFrom([]string{`"ip"`, `"IP"`, `"\u0069p"`, `"ip.x"`, `"interfaces"`, `"a b"`, `"0"`, `""`, `"location"`})
	value := rapid.SampledFrom([]string{`"x"`, `1`, `null`, `{"ip": "y", "cabinet": {"ip": 1}}`, `[{"ip": "z"}]`, `{"0": {"ip": 2}}`})
	path := rapid.SampledFrom([]string{"ip", "IP", "interfaces.*.ip", "location.cabinet", "a b", "0", "0.ip", "#.ip", "i*", "*.ip", "@this.ip", "ip|x", `ip\.x`, "ip.x", "location.cabinet.ip"})
	skipped := 0
	rapid.Check(t, func(t *rapid.T) {
		var members []string
		for range rapid.IntRange(0, 4).Draw(t, "members") {
			members = append(members, key.Draw(t, "key")+": "+value.Draw(t, "value"))
		}
		doc := &document{text: "{" + strings.Join(members, ", ") + "}"}
		text := path.Draw(t, "path")
		fields := Fields{Names: []string{text}}.compile()
		compiled := fields.names[0]
		p := serverParser{serverReader: newServerReader(fields), doc: doc}
		p.take(membersOf(doc))
		got, want := p.find(nil, &compiled), compiled.find(doc)
		if len(got) != len(want) {
			t.Fatalf("%s in %s: %d matches, want %d", compiled.text, doc.text, len(got), len(want))
		}
		if compiled.first != "" && len(want) == 0 {
			skipped++
		}
	})
	if skipped == 0 {
		t.Error("nothing was skipped")
	}
}
