package main

import (
	"math"
	"slices"
	"strings"
	"testing"

	"bulkshaper/shaper/tc"
)

// asWanted is a report with nothing wrong.
func asWanted() demoReport {
	class := func(name, to string, rate uint64) demoClass {
		return demoClass{Name: name, To: to, Wanted: rate, Rate: rate, Received: float64(rate) * payloadShare, Share: 1, Sent: float64(rate)}
	}
	return demoReport{
		Node: measured,
		Classes: []demoClass{
			class("same-cabinet", "hadoop02", 50e6), class("cross-cabinet", "hadoop04", 20e6), class("priority-role", "namenode01", 15e6),
			{Name: "control", Wanted: 10e6, Rate: 10e6, Sent: 67}, class("default", "client01", 10e6),
		},
		Others: []demoOther{{"hadoop02", "cross-cabinet", 20e6, 20e6}},
	}
}

func TestDemoJudge(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*demoReport)
		want   string // "" for nothing wrong
	}{
		"as wanted": {func(*demoReport) {}, ""},
		"just enough": {func(r *demoReport) {
			r.Classes[0].Share, r.Classes[0].Received, r.Classes[0].Sent = 0.9, 0.9*r.Classes[0].Received, 0.9*r.Classes[0].Sent
		}, ""},
		"too little":       {func(r *demoReport) { r.Classes[1].Share = 0.899 }, "class cross-cabinet: hadoop04 received"},
		"too much":         {func(r *demoReport) { r.Classes[2].Share = 1.021 }, "class priority-role: namenode01 received"},
		"nothing at all":   {func(r *demoReport) { r.Classes[4].Share = 0 }, "class default: client01 received"},
		"by another class": {func(r *demoReport) { r.Classes[0].Sent = 1000 }, "whose traffic should be all of that"},
		"others' traffic": {func(r *demoReport) {
			r.Classes[0].Sent *= 1.06
			r.Classes[0].Wanted *= 2
			r.Classes[0].Rate *= 2
			r.Classes[0].Received /= 2
		}, "whose traffic should be all of that"},
		"over its rate":      {func(r *demoReport) { r.Classes[3].Sent = 11e6 }, "class control sent 11.0mbit by its counters, over its rate"},
		"counter that fell":  {func(r *demoReport) { r.Classes[0].Sent = -1e9 }, "class same-cabinet sent"},
		"another rate":       {func(r *demoReport) { r.Classes[0].Rate = 49e6 }, "class same-cabinet has 49mbit in the kernel, not 50mbit"},
		"class missing":      {func(r *demoReport) { r.Classes = r.Classes[1:] }, "class same-cabinet is not among"},
		"nobody measured":    {func(r *demoReport) { r.Classes[4].To = "" }, "class default is not among"},
		"past the classes":   {func(r *demoReport) { r.Direct = 3 }, "3 packets went past all classes"},
		"another node's":     {func(r *demoReport) { r.Others[0].Sent = 21e6 }, "hadoop02 sent 21.0mbit in class cross-cabinet"},
		"no report to judge": {func(r *demoReport) { *r = demoReport{} }, "class default is not among"},
	} {
		r := asWanted()
		c.change(&r)
		wrongs := r.judge()
		if c.want == "" && wrongs != nil {
			t.Errorf("%s: %v", name, wrongs)
		}
		if c.want != "" && (wrongs == nil || !strings.Contains(wrongs.Error(), c.want)) {
			t.Errorf("%s: %v does not say %q", name, wrongs, c.want)
		}
	}
}

func TestJudgeEdit(t *testing.T) {
	for share, good := range map[float64]bool{0: false, 0.89: false, 0.91: true, 1: true, 1.015: true, 1.03: false, 2.5: false} {
		if wrongs := judgeEdit(share*50e6*payloadShare, 50e6, "hadoop03", "same-cabinet"); (wrongs == nil) != good {
			t.Errorf("%v of what fits: %v", share, wrongs)
		}
	}
}

// TestDemoTries: a wrong result stands where the machine kept up, and is none where it did not.
func TestDemoTries(t *testing.T) {
	calm, busy, late := demoLoad{Busy: 0.5, LagSeconds: 0.001}, demoLoad{Busy: 0.95}, demoLoad{LagSeconds: 0.02}
	wrongs := shapingError{"class default got nothing"}
	type result struct {
		load   demoLoad
		wrongs shapingError
	}
	for name, c := range map[string]struct {
		results []result
		want    string
	}{
		"good":                {[]result{{calm, nil}}, ""},
		"good though busy":    {[]result{{busy, nil}}, ""},
		"wrong":               {[]result{{calm, wrongs}}, "not as it should be"},
		"busy, then good":     {[]result{{busy, wrongs}, {calm, nil}}, ""},
		"late, then wrong":    {[]result{{late, wrongs}, {calm, wrongs}}, "not as it should be"},
		"too busy to measure": {[]result{{busy, wrongs}, {late, wrongs}, {busy, wrongs}}, "not measurable here: machine too busy"},
	} {
		t.Run(name, func(t *testing.T) {
			left := c.results
			d := &demo{stderr: t.Output()}
			err := d.tries(t.Context(), 0, func() (demoLoad, shapingError, error) {
				r := left[0]
				left = left[1:]
				return r.load, r.wrongs, nil
			})
			if len(left) > 0 {
				t.Errorf("%d results were not asked for", len(left))
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestLine(t *testing.T) {
	var steady, held line
	for i := range 250 {
		x := float64(i) * 0.02
		steady.add(x, 7+50e6*x)
		// At the end 100 ms of it wait behind a lost packet.
		held.add(x, 50e6*min(x, 4.9))
	}
	if got := steady.slope(); math.Abs(got-50e6) > 1 {
		t.Errorf("steady: %v", got)
	}
	if got := held.slope(); got < 0.99*50e6 || got > 50e6 {
		t.Errorf("held back: %v", got)
	}
	var one line
	one.add(1, 1)
	if got := one.slope(); got != 0 {
		t.Errorf("one point: %v", got)
	}
}

func TestParseCPU(t *testing.T) {
	before, err := parseCPU("cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 2 3\n")
	if err != nil || before != (cpuTime{idle: 800, all: 1000}) {
		t.Fatalf("%+v, %v", before, err)
	}
	after, err := parseCPU("cpu  200 50 200 800 100 20 30 100 200 50")
	if err != nil {
		t.Fatal(err)
	}
	if got := after.busySince(before); got != 0.8 {
		t.Errorf("busy %v", got)
	}
	if got := before.busySince(before); got != 0 {
		t.Errorf("busy %v in no time", got)
	}
	for _, text := range []string{"", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3 4 5 6 7 x"} {
		if got, err := parseCPU(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
	if _, err := readCPU(); err != nil {
		t.Error(err)
	}
}

func TestChangedFilters(t *testing.T) {
	filter := func(node uint32, class uint16) tc.Filter {
		return tc.Filter{Kind: tc.KindU32, Pref: 12000, Protocol: tc.ProtocolIP, Handle: tc.MakeU32Handle(0x800, 0, node), ClassID: tc.MakeHandle(1, class)}
	}
	before := tc.State{Filters: []tc.Filter{filter(1, 0x10), filter(2, 0x20), filter(3, 0x20)}}
	after := tc.State{Filters: []tc.Filter{filter(1, 0x10), filter(2, 0x10), filter(4, 0x20)}}
	want := []string{
		"filter ip pref 12000 800::2 dst 0.0.0.0/0: 1:20 is now 1:10", "filter ip pref 12000 800::3 dst 0.0.0.0/0: deleted",
		"filter ip pref 12000 800::4 dst 0.0.0.0/0: added, to 1:20",
	}
	if got := changedFilters(before, after); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := changedFilters(before, before); len(got) > 0 {
		t.Errorf("no change: %q", got)
	}
	if got := countNodes(append(after.Filters, tc.Filter{Kind: tc.KindU32, Divisor: 1})); got != 3 {
		t.Errorf("%d nodes", got)
	}
}

func TestCheckEdit(t *testing.T) {
	at := func(bytes uint64) look {
		l := look{}
		for _, id := range []uint16{0x10, 0x100} {
			l.stats.Classes = append(l.stats.Classes, tc.ClassStats{Class: tc.Class{ID: tc.MakeHandle(1, id)}, SentBytes: bytes, SentPackets: bytes / 1000})
		}
		l.stats.Classes = append(l.stats.Classes, tc.ClassStats{Class: tc.Class{ID: tc.MakeHandle(1, 0xffff)}, SentBytes: 42, SentPackets: 1})
		return l
	}
	for name, c := range map[string]struct {
		change func(*demo, *look)
		want   string
	}{
		"as it should be":     {func(*demo, *look) {}, ""},
		"two filters":         {func(d *demo, _ *look) { d.report.Edit.Changed = []string{"a", "b"} }, "the edit changed 2 filters of hadoop01, not one"},
		"two operations":      {func(d *demo, _ *look) { d.report.Daemons[0].Operations = 2 }, "did 2 operations for the edit, not one"},
		"a class made again":  {func(_ *demo, l *look) { l.stats.Classes[0].SentBytes = 10 }, "class same-cabinet counted 5000 bytes before the edit and 10 after it"},
		"a class that is out": {func(_ *demo, l *look) { l.stats.Classes[1].SentBytes = 5000 }, "class default counted nothing after the edit"},
		"control made again":  {func(_ *demo, l *look) { l.stats.Classes = l.stats.Classes[:2] }, "class control counted 42 bytes before the edit and 0 after it"},
		"past the classes":    {func(_ *demo, l *look) { l.stats.DirectPackets = 1 }, "1 packets went past all classes"},
	} {
		d := &demo{}
		d.report.Classes = []demoClass{{Name: "same-cabinet", ClassID: "1:10"}, {Name: "default", ClassID: "1:100"}, {Name: "control", ClassID: "1:ffff"}}
		d.report.Daemons = []demoDaemon{{measured, 1}, {"hadoop03", 7}}
		d.report.Edit.Changed = []string{"a"}
		last := at(9000)
		c.change(d, &last)
		err := d.checkEdit(at(5000), last)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
