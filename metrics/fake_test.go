package metrics

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"bulkshaper/shaper"
	"bulkshaper/shaper/tc"
)

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write the goldens anew")
	if err := loopbackUp(); err != nil {
		fmt.Fprintln(os.Stderr, "set lo up:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// loopbackUp is for a new network namespace, whose loopback is down.
func loopbackUp() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCGIFFLAGS, request); err != nil {
		return err
	}
	if request.Uint16()&unix.IFF_UP != 0 {
		return nil
	}
	request.SetUint16(request.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request)
}

// fakeSource is a Source made of values.
type fakeSource struct {
	mu    sync.Mutex
	snap  shaper.Snapshot
	stats tc.Stats
	err   error
	reads int
}

func (f *fakeSource) Snapshot() shaper.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.snap
}

func (f *fakeSource) Stats(context.Context) (tc.Stats, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	if f.err != nil {
		return tc.Stats{}, f.err
	}
	return f.stats, nil
}

func (f *fakeSource) set(change func(*fakeSource)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func classID(minor uint16) tc.Handle { return tc.MakeHandle(tc.Major, minor) }

// incident is node hadoop27 of the original story, some time later.
func incident() *fakeSource {
	class := func(minor uint16, rate tc.BitRate) tc.Class {
		return tc.Class{ID: classID(minor), Parent: tc.Root, Rate: rate, Ceil: rate, Buffer: tc.TicksOf(64<<10, rate), Cbuffer: tc.TicksOf(64<<10, rate)}
	}
	same, cross, other := class(0x10, 819_200_000), class(0x20, 204_800_000), class(0x100, 204_800_000)
	return &fakeSource{
		snap: shaper.Snapshot{
			Interface: "eth1", Node: "hadoop27", Cabinet: "b12", Datacenter: "nyc1", InSync: true, InterfaceUp: true,
			Started:     time.UnixMilli(1_700_000_000_000),
			LastReload:  shaper.Reload{Time: time.UnixMilli(1_700_000_100_250), Result: shaper.ReloadSuccess},
			LastSuccess: time.UnixMilli(1_700_000_100_250),
			Servers:     42, InventoryHash: func() uint64 { return 1<<48 - 3 }, DefaultClass: "default", Warnings: []string{"app07 has no cabinet"},
			Classes: []shaper.ClassInfo{
				{Name: "same-cabinet", Class: same, Leaf: true, Destinations: 12},
				{Name: "cross-cabinet", Class: cross, Leaf: true, Destinations: 24},
				{Name: "default", Class: other, Leaf: true, Destinations: 6},
			},
			Overrides: []shaper.OverrideStatus{{Class: "cross-cabinet", Rate: 51_200_000, Ceil: 51_200_000, ConfiguredRate: 204_800_000,
				ConfiguredCeil: 204_800_000, Since: time.UnixMilli(1_700_000_000_000), Until: time.UnixMilli(1_700_001_800_000), Why: "copy of the archive", By: "root"}},
			RuleMatches: []shaper.RuleMatch{{Rule: shaper.AckRule, Packets: 77}, {Rule: "same-cabinet", Packets: 1<<32 + 2}, {Rule: "priority-role"}, {Rule: "cross-cabinet", Packets: 690},
				{Rule: shaper.DefaultRule, Packets: 4}},
		},
		stats: tc.Stats{
			Root:          tc.Qdisc{Handle: tc.MakeHandle(tc.Major, 0), Parent: tc.Root, Kind: tc.KindHTB},
			DirectPackets: 3,
			Classes: []tc.ClassStats{
				{Class: same, Leaf: true, SentBytes: 1 << 40, SentPackets: 1<<32 + 5, Lends: 1<<32 + 5},
				{Class: cross, Leaf: true, SentBytes: 1_000_000, SentPackets: 700, Dropped: 11, Overlimits: 400, Requeues: 1, Lends: 600, Borrows: 100,
					BacklogBytes: 30_280, BacklogPackets: 20},
				{Class: other, Leaf: true},
			},
		},
	}
}

func gather(t *testing.T, reg prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatalf("gather: %v", err)
	}
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			id := f.GetName() + "{"
			for _, l := range m.GetLabel() {
				id += l.GetName() + "=" + l.GetValue() + ","
			}
			id += "}"
			switch {
			case m.Counter != nil:
				values[id] = m.Counter.GetValue()
			case m.Gauge != nil:
				values[id] = m.Gauge.GetValue()
			case m.Histogram != nil:
				values[id] = float64(m.Histogram.GetSampleCount())
			}
		}
	}
	return values
}

func series(name, class, classid, kind string) string {
	return name + "{class=" + class + ",classid=" + classid + ",interface=eth1,kind=" + kind + ",}"
}
