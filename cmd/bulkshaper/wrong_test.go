package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"bulkshaper/shaper/tc"
)

// TestWrongInput gives apply input that is wrong in many ways. Each ends with 1 or 2 and one message that says where and what to
// do, and changes nothing in the kernel.
func TestWrongInput(t *testing.T) {
	t.Parallel()
	type place struct {
		*host
		dir string
	}
	config := func(p place) string { return filepath.Join(p.dir, "config.yaml") }
	roles := func(p place) string { return filepath.Join(p.dir, "roles.json") }
	server := func(p place) string { return filepath.Join(p.dir, "nyc1/jsons/hadoop14.json") }
	swap := func(file func(place) string, old, new string) func(*testing.T, place) {
		return func(t *testing.T, p place) {
			text := read(t, file(p))
			if !strings.Contains(text, old) {
				t.Fatalf("%s has no %s", file(p), old)
			}
			edit(t, file(p), strings.Replace(text, old, new, 1))
		}
	}
	tc := func(args ...string) func(*testing.T, place) {
		return func(_ *testing.T, p place) { p.TC(args...) }
	}
	for name, c := range map[string]struct {
		prepare func(*testing.T, place)
		args    []string
		code    int
		says    []string // all in the message
	}{
		"broken JSON":            {swap(roles, `"roles"`, `"roles`), nil, exitWrong, []string{"roles.json:"}},
		"two values":             {func(t *testing.T, p place) { edit(t, roles(p), read(t, roles(p))+"{}") }, nil, exitWrong, []string{"roles.json:"}},
		"duplicate key":          {swap(server, `"cabinet"`, `"name": "x", "cabinet"`), nil, exitWrong, []string{"hadoop14.json:", "name"}},
		"FIFO for roles":         {fifo(roles), nil, exitWrong, []string{"roles.json", "FIFO"}},
		"role not declared":      {swap(roles, `"hadoop_jobtracker": [`, `"hadoop_jobtrackr": [`), nil, exitWrong, []string{"hadoop_jobtrackr", "hadoop_jobtracker"}},
		"one address twice":      {swap(server, "10.241.28.14", "10.241.28.15"), nil, exitWrong, []string{"10.241.28.15", "hadoop14.json", "hadoop15.json"}},
		"cabinet of true":        {swap(server, `"b12"`, `true`), nil, exitWrong, []string{"hadoop14.json:7:14", "cabinet"}},
		"address of no sense":    {swap(server, "10.241.28.14", "10.241.28.014"), nil, exitWrong, []string{"hadoop14.json:", "10.241.28.014"}},
		"rate without a unit":    {swap(config, "819200kbit", "100"), nil, exitWrong, []string{"config.yaml:", "unit"}},
		"rate over ceil":         {swap(config, "rate: 819200kbit", "rate: 819200kbit, ceil: 100mbit"), nil, exitWrong, []string{"config.yaml:", "ceil"}},
		"percent of nothing":     {swap(config, "rate: 819200kbit", "rate: 180%"), nil, exitWrong, []string{"config.yaml:", "180%"}},
		"unknown key":            {swap(config, "default_class:", "defaultclass:"), nil, exitWrong, []string{"config.yaml:", "default_class"}},
		"unknown class in rule":  {swap(config, "class: same-cabinet}", "class: same-cabin}"), nil, exitWrong, []string{"config.yaml:", "same-cabinet"}},
		"two classes with an id": {swap(config, "id: 20", "id: 10"), nil, exitWrong, []string{"config.yaml:", "10"}},
		"prio of 8":              {swap(config, "id: 10,", "id: 10, prio: 8,"), nil, exitWrong, []string{"config.yaml:", "prio"}},
		"id in words":            {swap(config, "id: 10,", "id: ten,"), nil, exitWrong, []string{"config.yaml:", "ten"}},
		"per_cabinet":            {swap(config, "id: 20,", "id: 20, per_cabinet: {of: 10gbit},"), nil, exitWrong, []string{"config.yaml:", "per_cabinet"}},
		"no config":              {func(t *testing.T, p place) { remove(t, config(p)) }, nil, exitWrong, []string{"config.yaml"}},
		"no servers":             {func(t *testing.T, p place) { remove(t, filepath.Join(p.dir, "nyc1/jsons")) }, nil, exitWrong, []string{"nyc1/jsons"}},
		"unknown node":           {nil, []string{"--node", "hadoop72"}, exitWrong, []string{"hadoop72", "hadoop22"}},
		"no such interface":      {nil, []string{"--interface", "eth9"}, exitWrong, []string{"eth9", "--interface"}},
		"unknown flag":           {nil, []string{"--intreface", "eth1"}, exitWrong, []string{"--intreface", "--help"}},
		"unknown argument":       {nil, []string{"now"}, exitWrong, []string{"now"}},
		"YARN's root":            {tc("qdisc", "add", "dev", "eth1", "root", "handle", "42:", "htb"), nil, exitFailed, []string{"42:", "YARN", "--takeover"}},
		"a hand-written tree": {func(_ *testing.T, p place) {
			p.TC("qdisc", "add", "dev", "eth1", "root", "handle", "1:", "htb", "default", "30")
			p.TC("class", "add", "dev", "eth1", "parent", "1:", "classid", "1:30", "htb", "rate", "1mbit")
		}, nil, exitFailed, []string{"htb 1:", "--takeover"}},
		"a foreign tbf": {tc("qdisc", "add", "dev", "eth1", "root", "tbf", "rate", "1mbit", "burst", "10k", "latency", "50ms"), nil, exitFailed, []string{"tbf", "--takeover"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := place{newHost(t), copyTree(t, incident)}
			p.host.t = t
			if c.prepare != nil {
				c.prepare(t, p)
			}
			kernel := func() string {
				return p.TC("qdisc", "show", "dev", "eth1") + p.TC("class", "show", "dev", "eth1") + p.TC("filter", "show", "dev", "eth1")
			}
			before := kernel()
			r := p.run(append([]string{"apply", "--config", config(p)}, c.args...)...)
			if r.code != c.code {
				t.Errorf("exit %d, want %d", r.code, c.code)
			}
			if r.stdout != "" {
				t.Errorf("said on stdout: %s", r.stdout)
			}
			if n := strings.Count(strings.TrimSpace(r.stderr), "\n"); n > 0 {
				t.Errorf("%d lines instead of one", n+1)
			}
			for _, text := range c.says {
				if !strings.Contains(r.stderr, text) {
					t.Errorf("the message does not say %q", text)
				}
			}
			if after := kernel(); after != before {
				t.Errorf("the kernel changed:\n%s", after)
			}
			if t.Failed() {
				t.Logf("message: %s", r.stderr)
			}
		})
	}
}

func fifo[P any](path func(P) string) func(*testing.T, P) {
	return func(t *testing.T, p P) {
		remove(t, path(p))
		if err := syscall.Mkfifo(path(p), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

// TestWithoutPrivilege runs as a user who may read but not change: plan, check, explain and status answer, apply says what is missing.
//
// PROMISES.md: The daemon has no CAP_NET_ADMIN
func TestWithoutPrivilege(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	drop := func(args ...string) result {
		return h.runWith(withoutPrivilege, args...)
	}
	for _, args := range [][]string{
		{"check", "--config", incidentConfig()},
		{"plan", "--config", incidentConfig()},
		{"status", "--format", "json", "--config", incidentConfig(), "--run-dir", t.TempDir()},
	} {
		if r := drop(args...); r.code != exitDone {
			t.Errorf("%q without privilege: exit %d, %s", args, r.code, r.stderr)
		}
	}
	for _, args := range [][]string{
		{"apply", "--config", incidentConfig()},
		{"run", "--config", incidentConfig(), "--run-dir", t.TempDir(), "--listen", ""},
	} {
		r := drop(args...)
		if r.code != exitFailed || !strings.Contains(r.stderr, "CAP_NET_ADMIN") {
			t.Errorf("%q without privilege: exit %d, %s", args, r.code, r.stderr)
		}
	}
	// A service manager is told that another start is no use; also where nothing is to do, since some day something will be.
	h.must("apply", "--config", incidentConfig())
	service := func(cmd *exec.Cmd) {
		withoutPrivilege(cmd)
		cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+filepath.Join(t.TempDir(), "none"))
	}
	r := h.runWith(service, "run", "--config", incidentConfig(), "--run-dir", t.TempDir(), "--listen", "")
	if want := "bulkshaper: " + tc.ErrPermission.Error() + "\n"; r.code != exitNoPermission || r.stderr != want || r.stdout != "" {
		t.Errorf("run as a service without privilege: exit %d, want %d; %q, want %q", r.code, exitNoPermission, r.stderr, want)
	}
	h.must("clear", "--config", incidentConfig())
	if q := h.TC("qdisc", "show", "dev", "eth1"); strings.Contains(q, "htb") {
		t.Errorf("the kernel changed: %s", q)
	}
}

// TestInterrupted: told to stop while it still reads files, the daemon ends well, and what was to be done once has failed; neither is
// an error of the files.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for command, want := range map[string]int{"run": exitDone, "check": exitFailed, "plan": exitFailed, "apply": exitFailed} {
		var stdout, stderr bytes.Buffer
		code := run(ctx, []string{command, "--config", incidentConfig()}, &stdout, &stderr)
		said := map[int]string{exitDone: "", exitFailed: "bulkshaper: interrupted\n"}[want]
		if code != want || stdout.String() != "" || stderr.String() != said {
			t.Errorf("%s: exit %d, want %d; %q, want %q; %q", command, code, want, stderr.String(), said, stdout.String())
		}
	}
}

// TestDidYouMean: what is mistyped is told in words, and of a command which may have been meant.
func TestDidYouMean(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for typed, says := range map[string]string{
		"history 5": `bulkshaper history takes no arguments, and "5" is one; see `, "explain": "bulkshaper explain needs an argument: explain DEST...; see ",
		"status --interval 1": "write a length of time with its unit, like 500ms, 10s or 5m", "check --max-shrink 200%": "is not from 0% to 100%",
	} {
		if r := h.run(strings.Fields(typed)...); r.code != exitWrong || !strings.Contains(r.stdout+r.stderr, says) {
			t.Errorf("%s: %+v", typed, r)
		}
	}
	for typed, meant := range map[string]string{"statuss": "did you mean status?", "aply": "did you mean apply?", "conf": "did you mean confirm?", "xyzzyx": ""} {
		r := h.run(typed)
		if r.code != exitWrong || !strings.Contains(r.stderr, meant) || (meant == "") == strings.Contains(r.stderr, "did you mean") {
			t.Errorf("%s: %+v", typed, r)
		}
	}
}
