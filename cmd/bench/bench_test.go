package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// rows are those that the requirement asks for.
var rows = []string{
	"packet-a", "packet-b", "packet-c", "packet-d", "packet-e", "packet-f", "packet-g", "packet-none", "packet-list", "packet-list-last", "packet-list-spread",
	"netlink", "apply", "messages-moved", "messages-added", "messages-removed", "edit-some", "edit-many", "scrape", "scrape-filters",
	"idle-some", "idle-many", "memory-some", "memory-many", "repair-filter", "repair-class", "repair-tree", "goodput", "goodput-htb",
	"costs-full-10mbit-cubic", "costs-full-1gbit-bbr", "costs-under-one-ours", "costs-under-four-cubic-story", "costs-under-four-bbr-tbf",
	"costs-latency-alone-small-ours", "costs-latency-four-cubic-large-story", "costs-latency-four-bbr-small-tbf",
	"costs-fair-same-fq_codel-cubic", "costs-fair-cross-pfifo-bbr",
	"costs-fair-same-pfifo-cubic",
}

// TestEveryRow takes every figure once, in a size at which the numbers mean nothing.
func TestEveryRow(t *testing.T) {
	program := filepath.Join(t.TempDir(), "bulkshaper")
	if out, err := exec.Command("go", "build", "-o", program, "../bulkshaper").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	tiny := sizes{few: 3, some: 12, many: 60, rounds: 2, packets: 300, repeats: 1, idle: 2, settle: 20 * time.Millisecond, window: 50 * time.Millisecond,
		costRepeats: 1, exchanges: 5}
	figures, err := take(t.Context(), options{sizes: tiny, program: program, layout: "hash", progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range rows {
		i := slices.IndexFunc(figures, func(f figure) bool { return f.ID == id })
		switch {
		case i < 0:
			t.Errorf("no figure %s", id)
		case figures[i].Verdict == failed:
			t.Errorf("%s: %s", id, figures[i].Note)
		case figures[i].Verdict == absent: // it is said to be, which is all that can be asked for
		case figures[i].Samples == 0 || figures[i].Value < 0 || figures[i].Against != "" && figures[i].Ratio <= 0:
			t.Errorf("%s: %+v", id, figures[i])
		}
	}
	var table bytes.Buffer
	if err := printTable(&table, figures, time.Second); err != nil {
		t.Fatal(err)
	}
	for _, f := range figures {
		if !strings.Contains(table.String(), f.Name) {
			t.Errorf("the table lacks %q", f.Name)
		}
	}
	path := filepath.Join(t.TempDir(), "figures.json")
	if err := writeJSON(path, figures); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var read []figure
	if err := json.Unmarshal(text, &read); err != nil || !slices.Equal(read, figures) {
		t.Errorf("read back: %v", err)
	}
}

func TestJudgement(t *testing.T) {
	series := func(values ...float64) pairs {
		var p pairs
		for _, v := range values {
			p.add(v, 1)
		}
		return p
	}
	for _, test := range []struct {
		name    string
		f       figure
		p       pairs
		verdict verdict
		noisy   bool
	}{
		{"below", figure{Limit: 1.05}, series(1, 1.01, 1.02, 1.01, 1), reached, false},
		{"above", figure{Limit: 1.05}, series(1.2, 1.3, 1.1, 1.2, 1.2), missed, false},
		{"below, and who knows", figure{Limit: 1.05}, series(0.9, 1.3, 1.2, 1, 1), reached, true},
		{"above, and who knows", figure{Limit: 1.05}, series(0.9, 1.3, 1.2, 1, 1.1), missed, true},
		{"at least", figure{Limit: 50, AtLeast: true}, series(60, 70, 80), reached, false},
		{"not at least", figure{Limit: 50, AtLeast: true}, series(40, 30, 20), missed, false},
		{"nothing to reach", figure{}, series(1, 9), reported, false},
	} {
		got := test.f.compared(test.p)
		if got.Verdict != test.verdict || got.Noisy != test.noisy {
			t.Errorf("%s: %s, noisy %v: %+v", test.name, got.Verdict, got.Noisy, got)
		}
	}
}

func TestNone(t *testing.T) {
	for v, want := range map[float64]verdict{0: reached, 1: missed} {
		if got := (figure{}).none(v); got.Verdict != want || got.Value != v {
			t.Errorf("%v: %+v", v, got)
		}
	}
}

func TestMedian(t *testing.T) {
	if got := median([]float64{3, 1, 2}); got != 2 {
		t.Errorf("odd: %v", got)
	}
	if got := median([]float64{4, 1, 2, 3}); got != 2.5 {
		t.Errorf("even: %v", got)
	}
	values := make([]float64, 100)
	for i := range values {
		values[i] = float64((i*37 + 11) % 100)
	}
	// The ranks 40 and 61 (from 1) of Conover's table for n = 100.
	if low, high := interval(values); low < 38 || low > 41 || high < 58 || high > 61 {
		t.Errorf("interval %v to %v", low, high)
	}
}

func TestUsage(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"-program", "/no/such"}, &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), "make build") {
		t.Errorf("code %d: %s", code, stderr.String())
	}
	if code := run(t.Context(), []string{"-nonsense"}, &stdout, &stderr); code != exitUsage {
		t.Errorf("code %d", code)
	}
}
