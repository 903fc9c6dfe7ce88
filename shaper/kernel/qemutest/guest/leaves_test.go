//go:build system

package guest

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Every kind of leaf that the config knows stands as it was asked for, has its packets, is left alone by a second run, and gives
// way to another kind in place.
func TestLeafKinds(t *testing.T) {
	h := newHost(t)
	text, err := os.ReadFile(h.config)
	if err != nil {
		t.Fatal(err)
	}
	const class = "{id: 10,  rate: 819200kbit,"
	if !strings.Contains(string(text), class) {
		t.Fatalf("no class %q in\n%s", class, text)
	}
	for _, c := range []struct{ leaf, want string }{
		{"{kind: fq_codel}", "qdisc fq_codel b010: parent 1:10 limit 10240p"},
		{"{kind: fq_codel, limit: 300}", "qdisc fq_codel b010: parent 1:10 limit 300p"},
		{"{kind: pfifo}", "qdisc pfifo b010: parent 1:10 limit 3381p"},
		{"{kind: pfifo, limit: 77}", "qdisc pfifo b010: parent 1:10 limit 77p"},
		{"{kind: bfifo, limit: 200000}", "qdisc bfifo b010: parent 1:10 limit 200000b"},
		{"{kind: fq}", "qdisc fq b010: parent 1:10 limit 10000p"},
		{"{kind: fq, limit: 400}", "qdisc fq b010: parent 1:10 limit 400p"},
		{"{kind: sfq}", "qdisc sfq b010: parent 1:10 limit 127p"},
		{"{kind: cake}", "qdisc cake b010: parent 1:10 "},
		{"{kind: auto}", "qdisc fq_codel b010: parent 1:10 limit 10240p"},
	} {
		t.Run(strings.ReplaceAll(c.leaf, "/", ""), func(t *testing.T) {
			h.t = t
			changed := strings.Replace(string(text), class, class+" leaf: "+c.leaf+",", 1)
			if err := os.WriteFile(h.config, []byte(changed), 0o644); err != nil {
				t.Fatal(err)
			}
			h.must("apply")
			if shown := h.TC("qdisc", "show", "dev", "eth1"); len(lines(shown, c.want)) != 1 {
				t.Errorf("want %s, tc shows\n%s", c.want, shown)
			}
			h.nothingLeft()
			if got := h.grows("eth1", func() { h.Send(t, sameCabinet, 9) }); fmt.Sprint(got) != "map[1:10:9]" {
				t.Errorf("9 packets to the same cabinet: %v", got)
			}
		})
	}
}
