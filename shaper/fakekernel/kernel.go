package fakekernel

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/u32"
)

// Kernel is the traffic control of one interface. All methods may be called at any time from any goroutine.
type Kernel struct {
	mu   sync.Mutex
	link *tc.Link // nil while the interface does not exist
	name string

	rootKind string // of the qdisc that the kernel itself makes
	autoLeaf string
	counts   bool // hits of filters
	root     tc.Qdisc
	classes  map[tc.Handle]*class
	prefs    map[uint16]*pref
	tables   map[uint32]*table
	nextRoot uint32 // cursor of the root tables' ids
	grace    int    // operations until a table is free after its last link went
	count    int    // operations so far
	direct   uint64 // packets

	faults   faults
	watchers map[chan tc.Event]bool
	applied  []tc.Op
	now      func() time.Time
}

type class struct {
	tc.Class
	parent   *class
	leaf     *tc.Qdisc // nil where the kernel's own pfifo is the leaf
	children int
	bound    int // filters that hold the class
	packets  uint64
	bytes    uint64
	backlog  uint64 // packets
}

// Option changes what New makes.
type Option func(*Kernel)

// WithFQCodel makes a kernel that has fq_codel.
func WithFQCodel() Option { return func(k *Kernel) { k.autoLeaf = tc.KindFQCodel } }

// WithFilterCounters makes a kernel that counts what each u32 node matches (CONFIG_CLS_U32_PERF).
func WithFilterCounters() Option { return func(k *Kernel) { k.counts = true } }

// WithRootKind sets the kind of the qdisc that the kernel makes itself: noqueue without it, as on a veth.
func WithRootKind(kind string) Option { return func(k *Kernel) { k.rootKind = kind } }

// WithGrace makes tables deletable only some operations after their last link went, as the kernel frees them only when no packet can
// be inside. Those that are refused count.
func WithGrace(operations int) Option { return func(k *Kernel) { k.grace = operations } }

// New is a kernel whose interface has no traffic control but its own.
func New(link tc.Link, opts ...Option) *Kernel {
	k := &Kernel{name: link.Name, rootKind: "noqueue", autoLeaf: tc.KindPFIFO, watchers: map[chan tc.Event]bool{}, now: time.Now}
	for _, opt := range opts {
		opt(k)
	}
	k.link = &link
	k.clear()
	return k
}

// clear leaves only what the kernel makes itself.
func (k *Kernel) clear() {
	k.root = tc.Qdisc{Parent: tc.Root, Kind: k.rootKind}
	k.classes, k.direct = map[tc.Handle]*class{}, 0
	k.clearFilters()
}

// Observe is the whole state.
func (k *Kernel) Observe(ctx context.Context) (tc.State, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return tc.State{}, err
	}
	if err := k.faults.takeObserve(); err != nil {
		return tc.State{}, err
	}
	if k.link == nil {
		return tc.State{}, k.noInterface()
	}
	return k.state(), nil
}

func (k *Kernel) noInterface() error {
	return fmt.Errorf("interface %s: %w", k.name, tc.ErrNoInterface)
}

func (k *Kernel) state() tc.State {
	s := tc.State{Link: *k.link, AutoLeaf: k.autoLeaf, Qdiscs: []tc.Qdisc{k.root}}
	s.Link.Addresses = slices.Clone(k.link.Addresses)
	s.Qdiscs[0].HTB.DirectPackets = 0
	if k.root.Kind == tc.KindHTB {
		s.Qdiscs[0].HTB.DirectPackets = uint32(k.direct)
	}
	for _, id := range slices.Sorted(maps.Keys(k.classes)) {
		c := k.classes[id]
		s.Classes = append(s.Classes, c.observed())
		if c.leaf != nil {
			s.Qdiscs = append(s.Qdiscs, *c.leaf)
		}
		if c.leaf != nil && c.leaf.Handle.Major()^uint16(id) == tc.LeafHandle(0).Major() && (c.leaf.Kind == tc.KindPFIFO || c.leaf.Kind == tc.KindFQCodel) {
			s.AutoLeaf = c.leaf.Kind
		}
	}
	s.Filters = k.filters(false)
	if k.counts {
		for _, f := range s.Filters {
			hits := uint64(0)
			if n := k.find(f.Handle); n != nil && f.Kind == tc.KindU32 {
				hits = n.hits
			}
			s.Hits = append(s.Hits, hits)
		}
	}
	return s
}

func (c *class) observed() tc.Class {
	o := c.Class
	o.Parent = tc.Root
	if c.parent != nil {
		o.Parent = c.parent.ID
	}
	if c.leaf != nil {
		o.Leaf = c.leaf.Handle
	}
	return o
}

// Stats is the counters of all classes, in ascending order.
func (k *Kernel) Stats(ctx context.Context) (tc.Stats, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return tc.Stats{}, err
	}
	if k.link == nil {
		return tc.Stats{}, k.noInterface()
	}
	s := tc.Stats{Time: k.now(), Root: k.root, DirectPackets: k.direct}
	s.Root.HTB.DirectPackets = uint32(k.direct)
	for _, c := range k.classes {
		s.Classes = append(s.Classes, tc.ClassStats{Class: c.observed(), Leaf: c.Level == 0, SentBytes: c.bytes, SentPackets: c.packets, Lends: c.packets, BacklogPackets: c.backlog})
	}
	slices.SortFunc(s.Classes, func(a, b tc.ClassStats) int { return cmp.Compare(a.Class.ID, b.Class.ID) })
	return s, nil
}

// Close ends all watches.
func (k *Kernel) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for ch := range k.watchers {
		delete(k.watchers, ch)
		close(ch)
	}
	return nil
}

// Direct is the class of packets that no class takes: HTB sends them at once, unshaped (X:0).
const Direct = tc.Unspec

// Classify is htb_classify for a packet from the network header on: the class it goes to, Direct for none.
func (k *Kernel) Classify(packet []byte, protocol tc.Protocol) tc.Handle {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.classify(packet, protocol, 0)
}

// classify also counts so many packets at the filter that takes them.
func (k *Kernel) classify(packet []byte, protocol tc.Protocol, packets uint64) tc.Handle {
	if k.root.Kind != tc.KindHTB {
		return Direct
	}
	result := u32.Classify(k.filters(true), packet, protocol)
	if result.Matched {
		if n := k.find(result.Filter.Handle); n != nil && k.counts {
			n.hits += packets
		}
		if result.ClassID == k.root.Handle {
			return Direct
		}
		if c, ok := k.classes[result.ClassID]; ok && c.Level == 0 {
			return c.ID
		}
	}
	// Also for a filter's class that is missing or inner.
	if c, ok := k.classes[tc.MakeHandle(k.root.Handle.Major(), uint16(k.root.HTB.Default))]; ok && c.Level == 0 {
		return c.ID
	}
	return Direct
}

// Send counts packets small UDP packets to dst, and tells where they went.
func (k *Kernel) Send(dst netip.Addr, packets uint64) tc.Handle {
	k.mu.Lock()
	defer k.mu.Unlock()
	packet, protocol := u32.Packet(dst)
	id := k.classify(packet, protocol, packets)
	if id == Direct {
		k.direct += packets
		return id
	}
	for c := k.classes[id]; c != nil; c = c.parent {
		c.packets += packets
		c.bytes += packets * uint64(len(packet)+14)
	}
	return id
}
