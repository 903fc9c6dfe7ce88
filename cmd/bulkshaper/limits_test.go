package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAListHolds4000 shapes for as many servers as a list may have filters, and refuses one more before anything is sent.
func TestAListHolds4000(t *testing.T) {
	t.Parallel()
	const most = 4000
	files := map[string]string{
		"config.yaml": "interface: eth1\nnode: s0\nlink_rate: 10gbit\nlayout: list\ninventory: {roles: roles.json, servers: [jsons]}\n" +
			"rules:\n  - {name: same, match: {cabinet: same}, class: same-cabinet}\n  - {name: bulk, match: {role: hadoop_node}, class: cross-cabinet}\n",
	}
	var names []string
	server := func(i int) string {
		return fmt.Sprintf(`{"name": "s%d", "ip": "10.%d.%d.%d", "cabinet": %d}`, i, 1+i>>16, i>>8&255, i&255, i%40)
	}
	for i := range most + 1 { // this node among them
		names = append(names, fmt.Sprintf(`"s%d"`, i))
		files[fmt.Sprintf("jsons/s%d.json", i)] = server(i)
	}
	all := strings.Join(names, ", ")
	files["roles.json"] = fmt.Sprintf(`{"servers": [%s], "roles": ["hadoop_node"], "mapping": {"hadoop_node": [%s]}}`, all, all)
	dir := write(t, files)
	h := newHost(t)
	on := []string{"--config", filepath.Join(dir, "config.yaml")}
	h.must(append([]string{"apply"}, on...)...)
	h.must(append([]string{"plan", "--exit-code"}, on...)...)
	filters := h.TC("filter", "show", "dev", "eth1", "parent", "1:")
	if n := len(shownFilters(filters)); n != most {
		t.Errorf("%d filters for %d servers", n, most)
	}
	if err := os.WriteFile(filepath.Join(dir, "jsons/more.json"), []byte(server(most+1)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"apply", "plan", "check"} {
		r := h.run(append([]string{command}, on...)...)
		if said := r.stdout + r.stderr; r.code != exitWrong || !strings.Contains(said, "4001") || !strings.Contains(said, "4000") {
			t.Errorf("%s of one more: exit %d, %s", command, r.code, said)
		}
	}
	if h.TC("filter", "show", "dev", "eth1", "parent", "1:") != filters {
		t.Error("the refused apply changed filters")
	}
}
