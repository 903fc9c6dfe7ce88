package shaper

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"bulkshaper/inventory"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/fakekernel"
	"bulkshaper/shaper/tc"
)

var errBroken = inventory.Problems{{File: "roles.json", Line: 3, Message: "no value", Remedy: "write one"}}

// bench is a loop on a fake kernel, in fake time.
type bench struct {
	*Loop
	t      *testing.T
	kernel *fakekernel.Kernel
	inputs *fakeInputs
	notes  *notes
	counts *counts
	logs   *observer.ObservedLogs
	files  chan struct{}
	hup    chan struct{}
	end    context.CancelFunc
	done   chan error
}

type fakeInputs struct {
	mu    sync.Mutex
	input Input
	err   error
	takes time.Duration
	loads int
}

func (f *fakeInputs) Load(context.Context) (Input, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loads++
	time.Sleep(f.takes)
	return f.input, f.err
}

func (f *fakeInputs) set(in Input, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.input, f.err = in, err
}

// notes are what the service manager was told.
type notes struct {
	mu   sync.Mutex
	said []string
}

func (n *notes) say(text string) { n.mu.Lock(); n.said = append(n.said, text); n.mu.Unlock() }
func (n *notes) Ready()          { n.say("READY") }
func (n *notes) Reloading()      { n.say("RELOADING") }
func (n *notes) Status(s string) { n.say(s) }
func (n *notes) list() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.said...)
}
func (n *notes) times(s string) (c int) {
	for _, said := range n.list() {
		if said == s {
			c++
		}
	}
	return c
}

// counts is a Recorder.
type counts struct {
	mu       sync.Mutex
	n        map[string]int
	repairAt []time.Time
}

func (c *counts) add(key string)                     { c.mu.Lock(); c.n[key]++; c.mu.Unlock() }
func (c *counts) get(key string) int                 { c.mu.Lock(); defer c.mu.Unlock(); return c.n[key] }
func (c *counts) Reload(r ReloadResult, _ time.Time) { c.add("reload " + string(r)) }
func (c *counts) Applied(time.Duration)              { c.add("applied") }
func (c *counts) Rebuilt()                           { c.add("rebuilt") }
func (c *counts) DriftRepaired(object string) {
	c.add("repaired " + object)
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); len(c.repairAt) == 0 || !c.repairAt[len(c.repairAt)-1].Equal(now) {
		c.repairAt = append(c.repairAt, now)
	}
}

// repairs is when something was repaired, once for each pass.
func (c *counts) repairs() []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.repairAt)
}

func (c *counts) Operation(op tc.Op, err error) {
	result := "done"
	if err != nil {
		result = "failed"
	}
	c.add(fmt.Sprintf("%s %s %s", op.Verb, op.Object.Type(), result))
}

func benchInput(cabinets map[string]string) Input {
	cfg := config.Default()
	cfg.Interface, cfg.Node, cfg.LinkRate = "eth1", "hadoop01", 1_000_000_000
	var servers []*inventory.Server
	for i := range 6 {
		name := fmt.Sprintf("hadoop%02d", i)
		cabinet := cabinets[name]
		if cabinet == "" {
			cabinet = fmt.Sprintf("b%d", i%2)
		}
		servers = append(servers, &inventory.Server{Name: name, Names: []string{name}, Cabinet: cabinet, Roles: []string{"hadoop_node"},
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})}})
	}
	return Input{cfg, inventory.New(servers, []string{"hadoop_node", "hadoop_namenode", "hadoop_jobtracker", "monitoring"})}
}

func testLink() tc.Link {
	return tc.Link{Index: 2, Name: "eth1", MTU: 1500, TxQueueLen: 1000, Up: true, TxQueues: 1}
}

// run gives f a bench with its loop running, in fake time, and ends the loop.
func run(t *testing.T, prepare func(*bench), f func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		in := benchInput(nil)
		core, logs := observer.New(zapcore.InfoLevel)
		b := &bench{
			t: t, kernel: fakekernel.New(testLink()), inputs: &fakeInputs{input: in}, notes: &notes{}, counts: &counts{n: map[string]int{}},
			logs: logs, files: make(chan struct{}, 1), hup: make(chan struct{}, 1), done: make(chan error, 1),
		}
		b.Loop = New(Options{Kernel: b.kernel, Inputs: b.inputs, Recorder: b.counts, Notifier: b.notes, Log: zap.New(core),
			Files: b.files, Reload: b.hup}, in)
		if prepare != nil {
			prepare(b)
		}
		ctx, end := context.WithCancel(t.Context())
		b.end = end
		go func() { b.done <- b.Run(ctx) }()
		synctest.Wait()
		f(b)
		end()
		if err := <-b.done; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the loop ended with %v", err)
		}
	})
}

// wait lets time pass and everything settle.
func (b *bench) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// shaped checks that the kernel holds the plan of the present input.
func (b *bench) shaped() {
	b.t.Helper()
	state, err := b.kernel.Observe(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	want, err := Desire(b.inputs.input, "", FactsOf(state))
	if err != nil {
		b.t.Fatal(err)
	}
	changes, err := diff.Compute(state, want.Plan, diff.Options{})
	if err != nil {
		b.t.Fatal(err)
	}
	if len(changes.Ops) > 0 {
		b.t.Errorf("not as wanted: %s (%s) and %d more", changes.Ops[0], changes.Ops[0].Why, len(changes.Ops)-1)
	}
	if s := b.Snapshot(); !s.InSync {
		b.t.Errorf("not in sync: %s", s.Reason)
	}
}

func (b *bench) messages() (lines []string) {
	for _, e := range b.logs.All() {
		lines = append(lines, e.Message)
	}
	return lines
}
