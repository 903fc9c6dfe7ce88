//go:build system

package pagetest

import (
	"context"
	"fmt"
	"math"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"bulkshaper/inventory"
	"bulkshaper/metrics"
	"bulkshaper/shaper"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/fakekernel"
	"bulkshaper/shaper/override"
	"bulkshaper/shaper/tc"
)

// cluster is what the page is shown of: a loop on a fake kernel whose counters this test moves.
type cluster struct {
	*httptest.Server
	loop    *shaper.Loop
	kernel  *fakekernel.Kernel
	history *shaper.History
}

// shape says how large the cluster is.
type shape struct {
	classes, servers, warnings int
	long                       bool // names of 60 characters
	override, broken           bool
	troubled                   bool
}

func longName(text string) string {
	const filler = "-of-the-analytics-department-in-the-eastern-datacentre-hall-seven"
	return (text + filler)[:60]
}

func (s shape) input() shaper.Input {
	cfg := config.Default()
	cfg.Interface, cfg.Node, cfg.LinkRate = "eth1", "hadoop27", 10_000_000_000
	name := func(text string) string {
		if s.long {
			return longName(text)
		}
		return text
	}
	if s.long {
		cfg.Node = longName("hadoop27")
	}
	if s.classes > len(cfg.Classes) {
		cfg.Classes = append(cfg.Classes, config.Class{Name: "tenants", ID: 0x200, Rate: config.Rate{Fixed: 5_000_000_000}, Leaf: config.Leaf{Kind: config.LeafAuto}})
	}
	for i := len(cfg.Classes); i < s.classes; i++ {
		class := name(fmt.Sprintf("tenant-%02d", i))
		cfg.Classes = append(cfg.Classes, config.Class{Name: class, ID: uint16(0x200 + i), Parent: "tenants", Rate: config.Rate{Fixed: 100_000_000},
			Ceil: config.Rate{Fixed: 2_000_000_000}, Leaf: config.Leaf{Kind: config.LeafAuto}})
		cfg.Rules = append(cfg.Rules, config.Rule{Name: class, Class: class, Match: config.Match{Server: []string{fmt.Sprintf("tenant%d-*", i)},
			Address: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16, byte(i), 0}), 24)}}})
	}
	var servers []*inventory.Server
	for i := range s.servers {
		server := &inventory.Server{Name: name(fmt.Sprintf("hadoop%02d", i)), Datacenter: "nyc1", Cabinet: fmt.Sprintf("b%d", i/40), Roles: []string{"hadoop_node"},
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})}}
		if i%7 == 3 {
			server.Roles = []string{"app"}
		}
		server.Names = []string{server.Name}
		servers = append(servers, server)
	}
	inv := inventory.New(servers, []string{"app", "hadoop_node", "hadoop_namenode", "hadoop_jobtracker", "monitoring"})
	for i := range s.warnings {
		inv.Warnings = append(inv.Warnings, inventory.Problem{File: fmt.Sprintf("/etc/bulkshaper/dc/nyc1/jsons/app%02d.json", i), Message: "no cabinet is given", Remedy: "add it"})
	}
	return shaper.Input{Config: cfg, Inventory: inv}
}

type files struct{ load func() (shaper.Input, error) }

func (f files) Load(context.Context) (shaper.Input, error) { return f.load() }

type silent struct{}

func (silent) Ready()        {}
func (silent) Reloading()    {}
func (silent) Status(string) {}

type fixedStore struct{ list []override.Override }

func (f fixedStore) Load() ([]override.Override, error)    { return f.list, nil }
func (f fixedStore) Remove(gone []override.Override) error { return nil }

// counting gives the classes counters that rise with time.
type counting struct {
	*shaper.Loop
	begin time.Time
	// troubled adds all that may be wrong to what the loop says.
	troubled bool
}

func (c counting) Snapshot() shaper.Snapshot {
	s := c.Loop.Snapshot()
	if c.troubled {
		now := time.Now()
		s.InSync, s.Reason, s.Contended = false, "somebody keeps changing the shaping, so the repair waits until noon", true
		s.Contention = &shaper.Contention{Since: now.Add(-time.Minute), Repairs: 9, Next: now.Add(time.Minute), By: []string{"process 4711 (tc)"},
			Objects: []shaper.Meddled{{Object: "cross-cabinet 1:20", Why: "rate is 1mbit, wanted 2gbit", Times: 8, Last: now},
				{Object: "the root qdisc", Why: "removed", Times: 3, Last: now, Varied: true, Remedy: "set it to false"}}}
		s.Unconfirmed = "an apply on eth1 waits for confirmation until noon"
		s.OverridesError = "read overrides: /run/bulkshaper/overrides.state: its mode 0666 lets others write it"
	}
	return s
}

func (c counting) Stats(ctx context.Context) (tc.Stats, error) {
	stats, err := c.Loop.Stats(ctx)
	stats.Time = time.Now()
	seconds := time.Since(c.begin).Seconds()
	for i := range stats.Classes {
		s := &stats.Classes[i]
		part := []float64{0.55, 0.98, 0.02, 0.2, 0.7}[i%5]
		s.SentBytes = 1<<50 + uint64(float64(s.Class.Rate)/8*part*seconds)
		s.SentPackets = s.SentBytes / 1500
		if part > 0.9 {
			s.Dropped, s.BacklogBytes = uint64(seconds*40), 1_234_567
		}
	}
	return stats, err
}

// serve runs a loop and the HTTP handler over it.
func serve(t *testing.T, s shape) *cluster {
	t.Helper()
	c := &cluster{history: shaper.NewHistory()}
	link := tc.Link{Index: 2, Name: "eth1", MTU: 1500, TxQueueLen: 1000, Up: true, TxQueues: 1}
	c.kernel = fakekernel.New(link)
	input := s.input()
	registry := prometheus.NewRegistry()
	reload := make(chan struct{}, 1)
	store := fixedStore{}
	if s.override {
		o := override.New("eth1", "cross-cabinet", config.Rate{Fixed: 50_000_000}, config.Rate{}, time.Now(), 30*time.Minute)
		o.Why, o.By = `archive copy <b>"ticket 4711"</b>`, "alice"
		store.list = append(store.list, o)
	}
	c.loop = shaper.New(shaper.Options{Kernel: c.kernel, Recorder: metrics.NewRecorder(registry), Notifier: silent{}, Log: zap.NewNop(), History: c.history,
		Reload: reload, Overrides: store, Inputs: files{func() (shaper.Input, error) {
			if s.broken {
				return shaper.Input{}, inventory.Problems{{File: "/etc/bulkshaper/roles.json", Line: 3, Column: 17, Message: "a comma is missing", Remedy: "write one"}}
			}
			return input, nil
		}}}, input)
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.loop.Run(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for deadline := time.Now().Add(time.Minute); !c.loop.Snapshot().InSync; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in sync: %s", c.loop.Snapshot().Reason)
		}
	}
	if s.broken {
		reload <- struct{}{}
	}
	source := counting{c.loop, time.Now().Add(-time.Hour), s.troubled}
	meter := shaper.NewMeter(source.Stats)
	now, err := source.Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const readings, apart = 100, 6 * time.Second // ten minutes ago until now
	sent := func(i, j int) uint64 {              // by class j in the span before reading i
		return uint64(float64(now.Classes[j].Class.Rate) / 8 * apart.Seconds() * (0.5 + 0.3*math.Sin(float64(i)/9+float64(j)) - 0.1*float64(i*7%5)/5))
	}
	for j := range now.Classes {
		for i := range readings {
			now.Classes[j].SentBytes -= sent(i, j)
		}
	}
	for i := range readings {
		for j := range now.Classes {
			now.Classes[j].SentBytes += sent(i, j)
		}
		reading := now
		reading.Time = time.Now().Add(-time.Duration(readings-1-i) * apart)
		meter.Add(reading)
	}
	c.Server = httptest.NewServer(metrics.NewHandler(metrics.HandlerOptions{Gatherer: registry, Source: source, Meter: meter, History: c.history.Events,
		Oracle: c.loop, Log: zap.NewNop(), Version: "v1.2.3"}))
	t.Cleanup(c.Server.Close)
	return c
}
