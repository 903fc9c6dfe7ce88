package live

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"

	"bulkshaper/cmd/bulkshaper/screen"
	"bulkshaper/shaper"
)

var update = flag.Bool("update", false, "write the goldens anew")

func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// node is the status of a node of n classes after some seconds: class i sends i times 20 Mbit/s, and every third drops.
func node(n, seconds int) shaper.Status {
	read := noon().Add(-3 * time.Minute)
	s := shaper.Status{Interface: "eth1", Node: "hadoop27", Cabinet: "b13", Datacenter: "nyc1", Time: noon().Add(time.Duration(seconds) * time.Second), Daemon: true, InSync: true, InterfaceUp: true,
		LastReload: &shaper.Reload{Time: read, Result: shaper.ReloadSuccess}, LastSuccess: &read, Servers: 100_001, Layout: "hash"}
	for i := range n {
		c := shaper.ClassStatus{Name: fmt.Sprintf("class-%02d", i), ClassID: fmt.Sprintf("1:%x", i+1), Kind: "leaf", Parent: "root", Rate: 100_000_000, Ceil: 100_000_000,
			SentBytes: uint64(i * seconds * 2_500_000), SentPackets: uint64(i * seconds), Destinations: i, Standing: true}
		if i%3 == 2 {
			c.Dropped = uint64(seconds)
		}
		s.Classes = append(s.Classes, c)
	}
	if n > 3 {
		s.Classes[1].Name = strings.Repeat("long-name-", 6)
		s.Classes[2].Parent = s.Classes[1].ClassID
	}
	return s
}

func press(m *model, keys ...string) tea.Cmd {
	var cmd tea.Cmd
	codes := map[string]tea.KeyPressMsg{"up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown}, "pgdown": {Code: tea.KeyPgDown}, "pgup": {Code: tea.KeyPgUp}, "home": {Code: tea.KeyHome}, "end": {Code: tea.KeyEnd},
		"esc": {Code: tea.KeyEscape}, "space": {Code: tea.KeySpace, Text: " "}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl}}
	for _, k := range keys {
		msg, ok := codes[k]
		if !ok {
			msg = tea.KeyPressMsg{Code: rune(k[0]), Text: k}
		}
		_, cmd = m.Update(msg)
	}
	return cmd
}

// watching is a model that has had two answers.
func watching(classes, width, height int) *model {
	m := newModel(context.Background(), Options{Source: "the daemon at /run/bulkshaper/bulkshaper.sock", Interval: time.Second, Style: screen.Style{Unicode: true}})
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	for i := range 4 {
		s := node(classes, i*60)
		m.Update(answered{status: s, at: s.Time})
	}
	return m
}

// TestScreens holds what is to be looked at, in the size of the terminal and never larger.
func TestScreens(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		classes int
		change  func(*model)
	}{
		"few":    {3, func(*model) {}},
		"many":   {40, func(m *model) { press(m, "pgdown", "down") }},
		"sorted": {40, func(m *model) { press(m, "s", "t") }},
		"paused": {3, func(m *model) { press(m, "p") }},
		"help":   {3, func(m *model) { press(m, "?") }},
		"silent": {3, func(m *model) {
			m.Update(answered{err: errors.New("ask the daemon: connection refused"), at: m.now.Add(time.Second)})
			m.Update(answered{err: errors.New("ask the daemon: connection refused"), at: m.now.Add(5 * time.Second)})
		}},
		"troubled": {40, func(m *model) {
			m.status.InSync, m.status.Reason = false, strings.Repeat("a long reason ", 30)
			m.status.Warnings = []string{"w"}
		}},
		"counted": {3, func(m *model) {
			m.status.Top = []shaper.Matched{{Prefix: "10.241.28.14/32", Server: "hadoop14", Class: "cross-cabinet", Packets: 90_000, Seconds: 30}}
		}},
	} {
		for _, size := range [][2]int{{80, 24}, {200, 50}, {40, 8}, {20, 2}, {1, 1}} {
			m := watching(c.classes, size[0], size[1])
			c.change(m)
			lines := m.lines()
			if want := max(size[1], 2); len(lines) != want {
				t.Errorf("%s at %v: %d lines", name, size, len(lines))
			}
			for _, line := range lines {
				if got := screen.Cells(line); got > max(size[0], 20) {
					t.Errorf("%s at %v: a line of %d: %s", name, size, got, line)
				}
			}
			if size[0] >= 40 {
				golden(t, fmt.Sprintf("%s-%d.txt", name, size[0]), strings.Join(lines, "\n")+"\n")
			}
		}
	}
}

// TestBeforeTheFirstAnswer there is something to read, too.
func TestBeforeTheFirstAnswer(t *testing.T) {
	t.Parallel()
	m := newModel(context.Background(), Options{Source: "the daemon"})
	if text := join(m.lines()); !strings.Contains(text, "asking the daemon") {
		t.Error(text)
	}
	m.Update(answered{err: errors.New("refused"), at: noon()})
	if text := join(m.lines()); !strings.Contains(text, "NO ANSWER") || !strings.Contains(text, "refused") {
		t.Error(text)
	}
}

// TestKeys: orders go round, scrolling stops at both ends, a pause asks nothing and its end asks at once.
func TestKeys(t *testing.T) {
	t.Parallel()
	m := watching(40, 80, 24)
	shows := func(text string) {
		t.Helper()
		if all := join(m.lines()); !strings.Contains(all, text) {
			t.Errorf("%q is not to be seen in\n%s", text, all)
		}
	}
	shows("classes 1 to")
	press(m, "up", "pgup")
	shows("classes 1 to")
	press(m, "end")
	shows("to 40 of 40")
	press(m, "down", "pgdown", "up")
	shows("to 39 of 40")
	press(m, "home")
	shows("classes 1 to")
	press(m, "s")
	shows("by sending")
	if first := m.lines()[7]; !strings.Contains(first, "class-39") {
		t.Errorf("by sending the first is %s", first)
	}
	press(m, "S", "S")
	shows("by name")
	press(m, "t")
	shows("LAST 10 MIN")
	m.Update(tea.WindowSizeMsg{Width: 80, Height: 60})
	shows("class-39")
	if press(m, "space"); !m.paused {
		t.Error("no pause")
	}
	_, cmd := m.Update(due{round: m.round - 1})
	if _, later := m.Update(due{round: m.round}); cmd != nil || later != nil {
		t.Error("it asks in a pause")
	}
	s := node(3, 900)
	if m.Update(answered{status: s, at: s.Time, round: m.round}); len(m.status.Classes) != 40 {
		t.Error("the screen changes in a pause")
	}
	m.Ask = func(context.Context) (shaper.Status, error) { return s, nil }
	ask := press(m, "p")
	if ask == nil {
		t.Fatal("the end of a pause does not ask")
	}
	if m.Update(ask()); len(m.status.Classes) != 3 {
		t.Error("the answer after a pause is not taken")
	}
	for _, key := range []string{"q", "esc", "ctrl+c"} {
		if cmd := press(watching(3, 80, 24), key); cmd == nil || cmd() != tea.Quit() {
			t.Errorf("%s does not quit", key)
		}
		if m := watching(3, 80, 24); key != "esc" {
			if cmd := press(m, "?", key); cmd == nil {
				t.Errorf("%s does not quit from the help", key)
			}
		}
	}
}

// TestHistoryLine: what was sent in a part of the time is its mean; what is not known is a gap; what is old is forgotten.
func TestHistoryLine(t *testing.T) {
	t.Parallel()
	rate := func(v uint64) *uint64 { return &v }
	h := history{}
	h.take(shaper.Recent{Times: []time.Time{noon(), noon().Add(10 * time.Second), noon().Add(20 * time.Second), noon().Add(30 * time.Second)},
		Classes: []shaper.RecentClass{{ClassID: "1:1", Rates: []*uint64{rate(7), rate(100), nil, rate(300)}}, {ClassID: "1:9", Rates: []*uint64{nil}}}})
	add := func(second int, over float64, v *uint64) {
		h.add(shaper.Status{Time: noon().Add(time.Duration(second) * time.Second), SendingOver: over, Classes: []shaper.ClassStatus{{ClassID: "1:1", Sending: v}}})
	}
	add(40, 10, rate(400))
	add(50, 10, nil)
	add(60, 5, rate(600))
	got := h.line("1:1", noon().Add(60*time.Second), time.Minute, 6)
	want := []float64{100, math.NaN(), 300, 400, math.NaN(), 600}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := h.line("1:1", noon().Add(60*time.Second), time.Minute, 2); fmt.Sprint(got) != fmt.Sprint([]float64{200, (400*10 + 600*5) / 15.0}) {
		t.Errorf("of two cells: %v", got)
	}
	if _, ok := h["1:9"]; ok {
		t.Error("a class that is gone is remembered")
	}
	add(60+int(kept.Seconds())+1, 1, rate(1))
	if n := len(h["1:1"]); n != 1 {
		t.Errorf("%d spans are remembered", n)
	}
}
