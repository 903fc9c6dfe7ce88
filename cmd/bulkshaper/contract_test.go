package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// shape is the names and kinds of a JSON value, as other people's programs rely on them: each field's kind is "string", "number",
// "bool" or "list", or a shape for an object, or a list of one shape for a list of objects. Fields beside those named may come.
type shape map[string]any

// check compares a decoded value with what is promised.
func (s shape) check(t *testing.T, path string, value any) {
	t.Helper()
	object, ok := value.(map[string]any)
	if !ok {
		t.Errorf("%s is %T, not an object", path, value)
		return
	}
	for name, want := range s {
		got, there := object[name]
		at := path + "." + name
		if !there {
			t.Errorf("%s is missing; there are %v", at, slices.Sorted(maps.Keys(object)))
			continue
		}
		switch want := want.(type) {
		case string:
			kind := map[string]string{"string": "string", "float64": "number", "bool": "bool", "[]interface {}": "list"}[fmt.Sprintf("%T", got)]
			if kind != want {
				t.Errorf("%s is %T %v, not a %s", at, got, got, want)
			}
		case shape:
			want.check(t, at, got)
		case []shape:
			list, ok := got.([]any)
			if !ok || len(list) == 0 {
				t.Errorf("%s is %T %v, not a list of something", at, got, got)
				continue
			}
			for i, element := range list {
				want[0].check(t, fmt.Sprintf("%s[%d]", at, i), element)
			}
		}
	}
}

var (
	classID  = regexp.MustCompile(`^1:[1-9a-f][0-9a-f]{0,3}$`)
	eitherID = regexp.MustCompile(`^(root|1:[1-9a-f][0-9a-f]{0,3})$`)
)

// promises are the fields of the JSON outputs in the contract.
func promises() (plan, explain, status shape) {
	plan = shape{"interface": "string", "node": "string",
		"changes": []shape{{"verb": "string", "object": "string", "why": "string", "hitless": "bool"}},
		"classes": []shape{{"name": "string", "classid": "string", "rate_bits_per_second": "number", "ceil_bits_per_second": "number",
			"burst_bytes": "number", "parent": "string"}},
		"destinations": []shape{{"prefix": "string", "server": "string", "rule": "string", "class": "string", "classid": "string"}}}
	explain = shape{"destination": "string", "address": "string", "server": "string", "cabinet": "string", "roles": "list", "rule": "string",
		"class": "string", "classid": "string", "kernel": shape{"classid": "string", "filter": "string", "agrees": "bool"}}
	status = shape{"interface": "string", "node": "string", "in_sync": "bool", "last_reload": shape{},
		"classes": []shape{{"name": "string", "classid": "string", "rate_bits_per_second": "number", "sent_bytes": "number",
			"sent_packets": "number", "dropped_packets": "number", "overlimits": "number", "backlog_bytes": "number", "destinations": "number"}}}
	return plan, explain, status
}

func decode(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return v
}

// TestFieldsOfTheJSON holds names and kinds of every field that is promised, shaped and unshaped, with and without a daemon.
func TestFieldsOfTheJSON(t *testing.T) {
	t.Parallel()
	plan, explain, status := promises()
	h := newHost(t)
	dir := t.TempDir()
	ask := func(args ...string) any {
		t.Helper()
		r := h.run(append(args, "--format", "json", "--config", incidentConfig(), "--run-dir", dir)...)
		if r.code != exitDone && r.code != exitDiffers {
			t.Fatalf("%q: exit %d, %s", args, r.code, r.stderr)
		}
		return decode(t, r.stdout)
	}
	explained := func(v any) {
		t.Helper()
		list, ok := v.([]any)
		if !ok || len(list) != 4 {
			t.Fatalf("explain's answer is no list of four: %v", v)
		}
		for i, e := range list {
			explain.check(t, fmt.Sprintf("explain[%d]", i), e)
		}
	}
	destinations := []string{"explain", "hadoop14", "8.8.8.8", "2001:db8::7", "hadoop27"} // the last is the node itself
	plan.check(t, "plan", ask("plan"))
	plan.check(t, "plan --full", ask("plan", "--full"))
	explained(ask(destinations...))
	status.check(t, "status", ask("status"))

	h.must("apply", "--config", incidentConfig())
	shaped := ask("plan").(map[string]any)
	if changes, ok := shaped["changes"].([]any); !ok || len(changes) != 0 {
		t.Errorf("changes where nothing is to do: %v, want []", shaped["changes"])
	}
	for _, key := range []string{"classes", "destinations"} {
		for _, v := range shaped[key].([]any) {
			element := v.(map[string]any)
			if id := element["classid"].(string); !classID.MatchString(id) {
				t.Errorf("classid %q", id)
			}
			if parent, ok := element["parent"].(string); ok && !eitherID.MatchString(parent) {
				t.Errorf("parent %q", parent)
			}
		}
	}
	explained(ask(destinations...))
	status.check(t, "status of a shaped interface", ask("status"))
}

// TestLiveDaemonKeepsTheContract asks a running daemon all that it serves.
func TestLiveDaemonKeepsTheContract(t *testing.T) {
	t.Parallel()
	d := startIncident(t)
	d.Send(t, netip.MustParseAddr("10.241.28.14"), 3)
	base := "http://" + d.address()
	_, _, status := promises()
	get := func(method, path string) (int, string) {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{DialContext: d.dial, DisableKeepAlives: true}}
		request, err := http.NewRequestWithContext(t.Context(), method, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	for _, path := range []string{"/", "/metrics", "/-/healthy", "/-/ready", "/api/v1/status"} {
		if code, body := get(http.MethodGet, path); code != http.StatusOK || body == "" {
			t.Errorf("GET %s: %d %s", path, code, body)
		}
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
			if code, _ := get(method, path); code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, code)
			}
		}
	}
	_, body := get(http.MethodGet, "/api/v1/status")
	status.check(t, "/api/v1/status", decode(t, body))
	status.check(t, "status", decode(t, d.must("status", "--format", "json", "--config", d.config(), "--run-dir", d.dir)))

	_, text := get(http.MethodGet, "/metrics")
	for _, name := range []string{"sent_bytes_total", "sent_packets_total", "dropped_packets_total", "overlimits_total", "requeues_total",
		"borrowed_packets_total", "lent_packets_total", "backlog_bytes", "backlog_packets", "rate_bits_per_second", "ceil_bits_per_second", "destinations"} {
		for class, id := range map[string]string{"same-cabinet": "1:10", "cross-cabinet": "1:20", "default": "1:100", "control": "1:ffff"} {
			series := fmt.Sprintf(`bulkshaper_class_%s{class=%q,classid=%q,interface="eth1",kind="leaf"} `, name, class, id)
			if n := strings.Count(text, "\n"+series); n != 1 {
				t.Errorf("%d times %s", n, series)
			}
		}
	}
	for _, series := range []string{`class_sent_packets_total{class="cross-cabinet",classid="1:20",interface="eth1",kind="leaf"} 3`,
		"direct_packets_total 0", "in_sync 1", "interface_up 1", "contended 0", "rebuilds_total 0", "last_reload_successful 1",
		"last_reload_success_timestamp_seconds ", "inventory_servers 22", "inventory_warnings 0", "build_info{", "apply_duration_seconds_count 1",
		`drift_repairs_total{object="qdisc"} 0`, `drift_repairs_total{object="class"} 0`, `drift_repairs_total{object="filter"} 0`,
		`operations_total{object="class",result="success",verb="add"} 4`,
		`inventory_reloads_total{result="success"} 1`, `inventory_reloads_total{result="failure"} 0`, `inventory_reloads_total{result="unchanged"} `} {
		if !strings.Contains(text, "\nbulkshaper_"+series) {
			t.Errorf("no bulkshaper_%s", series)
		}
	}
	for _, series := range []string{"process_resident_memory_bytes ", "process_start_time_seconds ", "go_goroutines "} {
		if !strings.Contains(text, "\n"+series) {
			t.Errorf("no %s", series)
		}
	}
}

// address is where the daemon serves HTTP.
func (d *daemonHost) address() string {
	d.host.t.Helper()
	var line struct{ Address string }
	eventually(d.host.t, "the daemon listens", func() bool {
		lines := d.lines(`"listening"`)
		return len(lines) > 0 && json.Unmarshal([]byte(lines[0]), &line) == nil
	})
	return line.Address
}

// dial connects inside the node's namespace.
func (d *daemonHost) dial(_ context.Context, network, address string) (conn net.Conn, err error) {
	d.Do(func() { conn, err = net.Dial(network, address) })
	return conn, err
}

// TestUsageErrorsExitWith2 gives arguments that no command takes.
func TestUsageErrorsExitWith2(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for _, args := range [][]string{
		{}, {"nosuch"}, {"--nosuch"}, {"plan", "now"}, {"plan", "--format", "yaml"}, {"explain"}, {"explain", "--format", "tc", "8.8.8.8"},
		{"status", "--format", "xml"}, {"version", "now"}, {"completion"}, {"completion", "nosuch"}, {"completion", "bash", "now"},
		{"run", "now"}, {"apply", "--takeover=perhaps"}, {"plan", "--config", "/nonexistent.yaml"}, {"check", "now"},
		{"explain", "--config", incidentConfig(), "nobody"}, {"clear"}, {"clear", "--interface", "nosuch0"}, {"help", "nosuch"}, {"help", "plan", "now"}, {"help", "override", "nosuch"}, {"plan", "--interface", "a-name-that-is-too-long"},
	} {
		r := h.run(args...)
		if r.code != exitWrong || r.stdout != "" || !strings.Contains(r.stderr, "bulkshaper: ") {
			t.Errorf("%q: exit %d, stdout %q, stderr %q", args, r.code, r.stdout, r.stderr)
		}
	}
	for _, args := range [][]string{{"--help"}, {"help"}, {"help", "plan"}, {"help", "override", "clear"}, {"help", "help"}, {"plan", "--help"}, {"version"}, {"completion", "bash"}, {"completion", "zsh"}, {"completion", "fish"}} {
		if r := h.run(args...); r.code != exitDone || r.stdout == "" || r.stderr != "" {
			t.Errorf("%q: exit %d, stderr %q", args, r.code, r.stderr)
		}
	}
}

// TestCheckTellsEverything on stdout, errors of the plan and of the web config too, and warnings without an exit code.
func TestCheckTellsEverything(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	r := h.run("check", "--config", incidentConfig(), "--web-config", "/nonexistent.yml")
	if r.code != exitWrong || !strings.Contains(r.stdout, "error: /nonexistent.yml") {
		t.Errorf("web config that is not there: exit %d, %s%s", r.code, r.stdout, r.stderr)
	}
	dir := copyTree(t, incident)
	edit(t, dir+"/nyc1/jsons/app01.json", `{"name": "app01", "ip_address": "10.241.28.103"}`)
	r = h.run("check", "--config", dir+"/config.yaml")
	if r.code != exitDone || !strings.Contains(r.stdout, "warning: ") || !strings.Contains(r.stdout, "app01.json") || !strings.Contains(r.stdout, "\nok: ") {
		t.Errorf("a server without a cabinet: exit %d, %s%s", r.code, r.stdout, r.stderr)
	}
}
