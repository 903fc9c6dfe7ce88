package view

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bulkshaper/cmd/bulkshaper/screen"
	"bulkshaper/shaper"
)

var update = flag.Bool("update", false, "write the goldens anew")

// golden compares text with a file of testdata.
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

// noon is when the goldens are read.
func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func rate(v uint64) *uint64 { return &v }

// quiet is a node of three classes on which all is well.
func quiet() Status {
	read := noon().Add(-3 * time.Minute)
	s := shaper.Status{
		Interface: "eth1", Node: "hadoop27", Cabinet: "b13", Datacenter: "nyc1", Time: noon(), Daemon: true, InSync: true, InterfaceUp: true,
		LastReload: &shaper.Reload{Time: read, Result: shaper.ReloadSuccess, Operations: 1,
			Changed: []string{"move hadoop14 10.241.28.14 from cross-cabinet 1:20 to same-cabinet 1:10: by rule same-cabinet"}},
		LastSuccess: &read, Servers: 22, Layout: "hash", SendingOver: 3.2,
		Filters: []shaper.FilterCost{{Protocol: "ip", Destinations: 21, Tables: 2, Depth: 1, Mean: 2.4, Worst: 3}},
		Classes: []shaper.ClassStatus{
			{Name: "same-cabinet", ClassID: "1:10", Parent: "root", Rate: 819_200_000, Ceil: 819_200_000, Sending: rate(413_000_000), SentBytes: 1 << 40, SentPackets: 812_345_678, Destinations: 10, Standing: true},
			{Name: "cross-cabinet", ClassID: "1:20", Parent: "root", Rate: 204_800_000, Ceil: 204_800_000, Sending: rate(204_100_000), SentBytes: 3 << 38, SentPackets: 99_345_678, Dropped: 1_234_567, BacklogBytes: 1 << 20, BacklogPkts: 700, Overlimits: 7, Destinations: 8, Standing: true},
			{Name: "default", ClassID: "1:100", Parent: "root", Rate: 204_800_000, Ceil: 1_000_000_000, Sending: rate(0), Borrowed: 12, Destinations: 3, Standing: true},
		},
	}
	return Status{Status: s, Source: "the daemon at /run/bulkshaper/bulkshaper.sock", Now: noon()}
}

// troubled has all at once that can be wrong.
func troubled() Status {
	s := quiet()
	s.InSync, s.Reason = false, "shape eth1: the root qdisc is htb 42:, which is not ours (probably YARN's TrafficController, which wipes the root at each start of the node manager): stop what made it"
	s.Contended, s.InterfaceUp, s.Direct = true, false, 1_234_567
	s.Foreign = []string{"u32 filters of protocol ip at pref 5 (1), ahead of ours"}
	s.Warnings = []string{"nyc1/jsons/app01.json: server app01 has no cabinet; add it", "another"}
	s.LastReload = &shaper.Reload{Time: noon().Add(-26 * time.Hour), Result: shaper.ReloadFailure}
	for i := range 7 {
		s.LastReload.Problems = append(s.LastReload.Problems, fmt.Sprintf("nyc1/jsons/app%02d.json:3:14: cabinet is true; write it as a string or a whole number", i))
	}
	s.Classes[1].Standing, s.Classes[1].Sending = false, nil
	s.Contention = &shaper.Contention{Since: noon().Add(-time.Minute), Repairs: 9, Next: noon().Add(30 * time.Second), Ends: noon().Add(55 * time.Second), By: []string{"process 4711 (tc)"}, Objects: []shaper.Meddled{
		{Object: "cross-cabinet 1:20", Why: "rate is 1mbit, wanted 204800kbit", Times: 8}, {Object: "hadoop14 10.241.28.14", Why: "the kernel has no filter for it", Times: 1}}}
	s.Unconfirmed = "an apply on eth1 waits for confirmation until 2026-03-01 12:01:00: run `bulkshaper confirm` to keep it, or `bulkshaper confirm --back`"
	s.OverridesError = "read overrides: /run/bulkshaper/overrides.state: its mode 0666 lets others write it; remove it"
	s.Overrides = []shaper.OverrideStatus{{Class: "cross-cabinet", Rate: 50_000_000, Ceil: 100_000_000, ConfiguredRate: 204_800_000, ConfiguredCeil: 204_800_000,
		Since: noon(), Until: noon().Add(22 * time.Minute), Why: "archive copy, ticket 4711", By: "operator"}}
	s.Lately = []shaper.Happening{{Time: noon().Add(-time.Minute), Kind: shaper.EventRepaired, Times: 9, Text: "which CONTENDED tells"},
		{Time: noon().Add(-50 * time.Minute), Kind: shaper.EventOverride, Times: 1, Text: "dropped: bulk at 20mbit until 2026-03-01T13:00:00Z, by operator: class \"bulk\" does not exist"}}
	s.Top = []shaper.Matched{{Prefix: "10.241.28.14/32", Server: "hadoop14", Class: "cross-cabinet", Packets: 90_000, Seconds: 30}, {Prefix: "10.9.0.0/16", Class: "default", Packets: 3, Seconds: 30}}
	return s
}

// crowded has 40 classes below three parents, with names of 60 characters and 100,000 destinations.
func crowded() Status {
	s := quiet()
	s.Servers, s.Classes = 100_001, nil
	for p := range 3 {
		id := fmt.Sprintf("1:%d0", p+1)
		s.Classes = append(s.Classes, shaper.ClassStatus{Name: fmt.Sprintf("parent-%d", p), ClassID: id, Kind: "inner", Parent: "root", Rate: 8_000_000_000, Ceil: 10_000_000_000, Sending: rate(5_000_000_000), Standing: true})
	}
	for i := range 37 {
		name := fmt.Sprintf("%s/b%02d", strings.Repeat("cross-cabinet-", 4), i)
		s.Classes = append(s.Classes, shaper.ClassStatus{Name: name, ClassID: fmt.Sprintf("1:%x", 0x1000+i), Kind: "leaf", Parent: fmt.Sprintf("1:%d0", i%3+1),
			Rate: 347_826_086, Ceil: 8_000_000_000, Sending: rate(uint64(i) * 31_234_567), SentBytes: 1 << (i + 10), SentPackets: 1 << i, Dropped: 1 << (i / 2),
			BacklogBytes: uint64(i) * 1514, Borrowed: uint64(i * i), Destinations: 2702, Standing: true})
	}
	return s
}

// TestStatusFits holds the screens as they are to be looked at, and that no line is wider than the terminal.
func TestStatusFits(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]Status{"quiet": quiet(), "troubled": troubled(), "crowded": crowded()} {
		for _, width := range []int{40, 60, 80, 200} {
			st := screen.Style{Width: width, Unicode: width != 60}
			lines := StatusLines(st, s, StatusOptions{})
			for _, line := range lines {
				if got := screen.Cells(line); got > width {
					t.Errorf("%s at %d: a line of %d: %s", name, width, got, line)
				}
				if !st.Unicode && strings.ContainsFunc(line, func(r rune) bool { return r > 126 }) {
					t.Errorf("%s at %d: not ASCII: %s", name, width, line)
				}
			}
			golden(t, fmt.Sprintf("status-%s-%d.txt", name, width), strings.Join(lines, "\n")+"\n")
		}
	}
	golden(t, "status-colour-80.txt", strings.Join(StatusLines(screen.Style{Width: 80, Unicode: true, Colour: true}, troubled(), StatusOptions{}), "\n")+"\n")
}

// TestEverythingIsShownWhereThereIsRoom asks for each figure of the status at 200 columns.
func TestEverythingIsShownWhereThereIsRoom(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]Status{"quiet": quiet(), "crowded": crowded()} {
		lines, notes := StatusTable(screen.Style{Width: 200}, s, StatusOptions{})
		if len(notes) != 0 {
			t.Errorf("%s: not all is shown: %q", name, notes)
		}
		for _, head := range []string{colClass, colID, colRate, colCeil, colNow, colShare, colSent, colPackets, colDropped, colBacklog, colBorrowed, colDestinations} {
			if !strings.Contains(lines[0], head) {
				t.Errorf("%s: no column %s", name, head)
			}
		}
		for _, c := range s.Classes {
			if !strings.Contains(strings.Join(lines, "\n"), c.Name) {
				t.Errorf("%s: class %s is not there by its whole name", name, c.Name)
			}
		}
	}
}

// TestOrders has each order with another class first, and children below their parents in that of the tree.
func TestOrders(t *testing.T) {
	t.Parallel()
	classes := []shaper.ClassStatus{
		{Name: "c", ClassID: "1:1", Parent: "root", Rate: 100, Sending: rate(50), Dropped: 1},
		{Name: "d", ClassID: "1:2", Parent: "root", Rate: 1000, Sending: rate(100), BacklogBytes: 9},
		{Name: "a", ClassID: "1:3", Parent: "1:1", Rate: 1000, Sending: nil},
		{Name: "b", ClassID: "1:4", Parent: "1:9", Rate: 1000, Dropped: 7},
		{Name: "e", ClassID: "1:5", Parent: "1:3", Rate: 1},
	}
	for by, want := range map[string]string{"": "c, a,  e,d,b", SortTree: "c, a,  e,d,b", SortSending: "d,c,a,b,e", SortShare: "c,d,a,b,e", SortDropped: "b,c,d,a,e", SortBacklog: "d,c,a,b,e", SortName: "a,b,c,d,e"} {
		var got []string
		for _, r := range ordered(classes, by) {
			got = append(got, r.indent[:len(r.indent)/2]+r.class.Name)
		}
		if s := strings.Join(got, ","); s != want {
			t.Errorf("by %q: %s, want %s", by, s, want)
		}
	}
}

// TestMeasure makes rates of two readings, and none where a class was made again in between.
func TestMeasure(t *testing.T) {
	t.Parallel()
	at := func(seconds int, sent ...uint64) shaper.Status {
		s := shaper.Status{Time: noon().Add(time.Duration(seconds) * time.Second)}
		for i, b := range sent {
			s.Classes = append(s.Classes, shaper.ClassStatus{ClassID: fmt.Sprint(i), SentBytes: b, Standing: true})
		}
		return s
	}
	now := at(2, 3000, 10, 5)
	Measure(at(0, 1000, 20), &now)
	switch {
	case now.SendingOver != 2, now.Classes[0].Sending == nil || *now.Classes[0].Sending != 8000:
		t.Errorf("%+v", now)
	case now.Classes[1].Sending != nil:
		t.Error("a counter that fell has a rate")
	case now.Classes[2].Sending != nil:
		t.Error("a class that is new has a rate")
	}
	first := at(2, 3000)
	if Measure(shaper.Status{}, &first); first.SendingOver != 0 || first.Classes[0].Sending != nil {
		t.Error("one reading has a rate")
	}
}

// TestStatusSaysWhetherTheInterfaceIsDownOrMissing.
func TestStatusSaysWhetherTheInterfaceIsDownOrMissing(t *testing.T) {
	t.Parallel()
	s := quiet()
	s.InterfaceUp = false
	if text := strings.Join(StatusHead(screen.Style{}, s), "\n"); !strings.Contains(text, "DOWN: the interface eth1 is down (`ip link set eth1 up`)") || strings.Contains(text, "there is no") {
		t.Errorf("down:\n%s", text)
	}
	s.InterfaceMissing = true
	if text := strings.Join(StatusHead(screen.Style{}, s), "\n"); !strings.Contains(text, "NO INTERFACE: there is no eth1") || strings.Contains(text, "DOWN") {
		t.Errorf("missing:\n%s", text)
	}
}

// TestStatusTellsOfLately what nothing else in it shows any more.
func TestStatusTellsOfLately(t *testing.T) {
	t.Parallel()
	s := quiet()
	s.Lately = []shaper.Happening{{Time: noon().Add(-2 * time.Minute), Kind: shaper.EventRepaired, Times: 3, Text: "change class 1:20 (cross-cabinet): rate is 1mbit, wanted 204800kbit"},
		{Time: noon().Add(-5 * time.Minute), Kind: shaper.EventOverride, Times: 1, Text: "ended: cross-cabinet at 50mbit until 2026-03-01T11:55:00Z, by operator"}}
	text := strings.Join(StatusHead(screen.Style{}, s), "\n")
	for _, want := range []string{"REPAIRED 2 min ago what somebody else changed, the last of 3 times within the hour (`bulkshaper history` tells all): change class 1:20 (cross-cabinet): rate is 1mbit, wanted 204800kbit\n",
		"OVERRIDE 5 min ago ended: cross-cabinet at 50mbit until 2026-03-01T11:55:00Z, by operator\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
}
