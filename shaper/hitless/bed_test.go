package hitless

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"bulkshaper/shaper"
	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/fakekernel"
	"bulkshaper/shaper/kernel"
	"bulkshaper/shaper/kernel/kerneltest"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
)

// This node's addresses.
var (
	nodeAddress4 = netip.AddrFrom4([4]byte{192, 0, 2, 1})
	nodeAddress6 = netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0xff, 15: 1})
)

// seedVariable repeats a run: its value is the seed that the failed one logged.
const seedVariable = "HITLESS_SEED"

// seeded is a source of chance whose seed is in the log.
func seeded(t *testing.T) (*rand.Rand, uint64) {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s=%d", seedVariable, seed)
	return rand.New(rand.NewPCG(seed, 1)), seed
}

// bed is a node in a namespace, with traffic to count.
type bed struct {
	t *testing.T
	n *kerneltest.Namespace
	k *kernel.Kernel
	*sender
	before  reading
	packets uint64 // judged so far
}

// reading is what the classes took, sent or not. Packets past all classes are those of fakekernel.Direct.
type reading struct {
	taken          map[tc.Handle]uint64
	total, dropped uint64
}

func newBed(t *testing.T) *bed {
	t.Helper()
	n := kerneltest.New(t, kerneltest.WithAddresses(single(nodeAddress4), single(nodeAddress6)))
	b := &bed{t: t, n: n}
	b.open()
	// Somebody listens, so that nobody answers that nobody does.
	n.Peer().Do(func() {
		sink, err := net.ListenPacket("udp", fmt.Sprintf(":%d", port))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { sink.Close() })
	})
	return b
}

// open is what a process that starts has: sockets of its own, and no memory.
func (b *bed) open() {
	b.t.Helper()
	b.k = openKernel(b.t, b.n)
}

func openKernel(t *testing.T, n *kerneltest.Namespace) *kernel.Kernel {
	t.Helper()
	k, err := kernel.Open(kernel.Options{Namespace: n.FD(), Interface: kerneltest.Interface})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

// restart is a new process in the place of one that is gone.
func (b *bed) restart() {
	b.t.Helper()
	if err := b.k.Close(); err != nil {
		b.t.Fatal(err)
	}
	b.open()
}

func (b *bed) observe() tc.State {
	b.t.Helper()
	s, err := b.k.Observe(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// wanted is a plan, and the class that each target has by the rules.
type wanted struct {
	*shaper.Desired
	targets []tc.Handle
}

// want is what the cluster as it is means for the node.
func (b *bed) want(c *cluster) wanted {
	b.t.Helper()
	w, err := desire(c, shaper.FactsOf(b.observe()))
	if err != nil {
		b.t.Fatal(err)
	}
	return w
}

func desire(c *cluster, facts plan.Facts) (wanted, error) {
	cfg, err := settings(c.layout)
	if err != nil {
		return wanted{}, err
	}
	d, err := shaper.Desire(shaper.Input{Config: cfg, Inventory: c.inventory()}, "", facts)
	if err != nil {
		return wanted{}, err
	}
	w := wanted{Desired: d}
	for _, a := range c.targets {
		w.targets = append(w.targets, w.class(a))
	}
	return w, nil
}

// class is where packets to a belong: by the rules, without the help of plan, diff or kernel.
func (w wanted) class(a netip.Addr) tc.Handle {
	name := w.Policy.Lookup(a).Class
	i := slices.IndexFunc(w.Plan.Classes, func(c plan.Class) bool { return c.Name == name })
	if i < 0 {
		return tc.Unspec
	}
	return w.Plan.Classes[i].Class.ID
}

// converge is one pass of the program to its end, and says how many operations it took. All must be hitless.
func (b *bed) converge(w wanted) int {
	b.t.Helper()
	out, err := shaper.Converge(b.t.Context(), b.k, b.observe(), w.Plan, diff.Options{}, nil)
	if err != nil || !out.Converged {
		b.t.Fatalf("converged: %v, %v", out.Converged, err)
	}
	b.checkHitless(out.Changes)
	return len(out.Results)
}

// checkHitless: nothing but a first installation may be hard on packets.
func (b *bed) checkHitless(changes *diff.Changes) {
	b.t.Helper()
	if b.sender == nil {
		return
	}
	if changes.Rebuild != "" {
		b.t.Errorf("rebuild: %s", changes.Rebuild)
	}
	for _, op := range changes.Ops {
		if !op.Hitless {
			b.t.Errorf("not hitless: %s: %s", op, op.Why)
		}
	}
}

func (b *bed) read() reading {
	b.t.Helper()
	s, err := b.k.Stats(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	r := reading{taken: map[tc.Handle]uint64{fakekernel.Direct: s.DirectPackets}, total: s.DirectPackets}
	for _, c := range s.Classes {
		if c.Leaf {
			n := c.SentPackets + c.BacklogPackets + c.Dropped
			r.taken[c.Class.ID] = n
			r.total += n
			r.dropped += c.Dropped
		}
	}
	return r
}

// settled is the reading when all packets sent so far are counted: one that another processor dequeues may be on its way.
func (b *bed) settled(packets uint64) reading {
	b.t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; {
		r := b.read()
		if r.total == b.before.total+packets {
			return r
		}
		if r.total > b.before.total+packets || time.Now().After(deadline) {
			b.t.Fatalf("%d packets were sent and %d counted", packets, r.total-b.before.total)
		}
	}
}

// judge counts what was sent since the last time, while the sender waits: each target's packets must be in the classes that the plans
// give it. It is exact for each class: what the targets with one class sent has to be there, and no more than those that may go
// there sent.
func (b *bed) judge(what string, plans ...wanted) {
	b.t.Helper()
	if b.err != nil {
		b.t.Fatal(b.err)
	}
	sent := b.take()
	least, most := map[tc.Handle]uint64{}, map[tc.Handle]uint64{}
	var total uint64
	for i, n := range sent {
		total += n
		may := map[tc.Handle]bool{}
		for _, w := range plans {
			may[w.targets[i]] = true
		}
		for id := range may {
			most[id] += n
			if len(may) == 1 {
				least[id] += n
			}
		}
	}
	after := b.settled(total)
	for _, id := range slices.Sorted(maps.Keys(after.taken)) {
		n := after.taken[id] - b.before.taken[id]
		if n < least[id] || n > most[id] {
			b.t.Errorf("%s: of %d packets %d are in class %s, which should have %d to %d", what, total, n, id, least[id], most[id])
		}
	}
	if after.dropped != 0 {
		b.t.Errorf("%s: %d packets were dropped", what, after.dropped)
	}
	if b.t.Failed() {
		b.t.Fatalf("%s: before %v, after %v", what, b.before, after)
	}
	b.before = after
	b.packets += total
}

// change brings the kernel to w while packets flow; from are the plans of which something may stand. In the end only w counts, for
// each target.
func (b *bed) change(what string, w wanted, from ...wanted) int {
	b.t.Helper()
	n := b.converge(w)
	b.pause(func() {
		b.t.Helper()
		b.judge(what, append(from, w)...)
		b.round()
		b.judge(what+", afterwards", w)
	})
	return n
}

// each sends a packet to each target by itself.
func (b *bed) each(what string, w wanted) {
	b.t.Helper()
	b.pause(func() {
		b.t.Helper()
		b.judge(what, w)
		for i := range b.targets {
			b.send(i)
			b.judge(what+", to "+b.targets[i].Addr().String(), w)
		}
	})
}

// arrived judges what is left and holds all that was sent against what the other end of the wire saw: nothing was lost on the way.
func (b *bed) arrived(w wanted) {
	b.t.Helper()
	b.sender.end()
	b.judge("in the end", w)
	text := b.n.Peer().Run(b.t, "ip", "-s", "-o", "link", "show", "dev", kerneltest.PeerInterface)
	_, rx, found := strings.Cut(text, "RX:")
	fields := strings.Fields(rx[strings.Index(rx, `\`)+1:])
	if !found || len(fields) < 2 {
		b.t.Fatalf("no counters in %q", text)
	}
	if fields[1] != strconv.FormatUint(b.packets, 10) {
		b.t.Errorf("%d packets were sent, and %s arrived:\n%s", b.packets, fields[1], text)
	}
}

// errCut ends a run in the middle.
var errCut = errors.New("cut")
