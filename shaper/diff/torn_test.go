package diff_test

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/fakekernel"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/u32"
)

// A packet is classified while filters are changed: each message of ours is one pointer store, and what a packet that is under way has
// passed it does not see again. So it may see an early part of the lists as they were and a later part as they are some messages after,
// but never the other way round. A barrier waits until all packets under way are through, and a hash table is deleted only when no packet
// can be in it.
//
// On a real kernel that is hard to see: the window is a few microseconds, and for filters with a class the kernel itself waits for packets
// (tcf_bind_filter takes the qdisc's lock). Here every way in which a packet could be torn is tried.

// moments are the filters after each operation between two barriers, by place.
type moments struct {
	at   []map[spot][]tc.Filter
	root []map[uint16]uint32 // the id of each pref's root table
	// protocols are those of the prefs.
	protocols map[uint16]tc.Protocol
}

// spot is a bucket.
type spot struct{ table, bucket uint32 }

func (m *moments) add(s tc.State) {
	buckets := map[spot][]tc.Filter{}
	if m.protocols == nil {
		m.protocols = map[uint16]tc.Protocol{}
	}
	for _, f := range s.Filters {
		m.protocols[f.Pref] = f.Protocol
		if f.IsNode() {
			p := spot{f.Handle.Table(), f.Handle.Bucket()}
			buckets[p] = append(buckets[p], f)
		}
	}
	for _, nodes := range buckets {
		slices.SortStableFunc(nodes, func(a, b tc.Filter) int { return int(a.Handle.Node()) - int(b.Handle.Node()) })
	}
	m.at, m.root = append(m.at, buckets), append(m.root, u32.RootTables(s.Filters))
}

// walk is a packet on its way: where it is in the buckets that it has come through, the innermost last.
type walk struct {
	now   int // moment
	stack []step
}

type step struct {
	spot
	passed uint32 // node
}

// torn is all classes that a packet to a may get, with 0 for none.
func (m *moments) torn(a netip.Addr, protocol tc.Protocol) map[tc.Handle]bool {
	packet, _ := u32.Packet(a)
	found := map[tc.Handle]bool{}
	prefs := map[uint16]bool{}
	for _, roots := range m.root {
		for pref := range roots {
			if m.protocols[pref] == protocol {
				prefs[pref] = true
			}
		}
	}
	var order []uint16
	for pref := range prefs {
		order = append(order, pref)
	}
	slices.Sort(order)
	seen := map[string]bool{}
	var search func(w walk, next int)
	search = func(w walk, next int) {
		if key := fmt.Sprint(w, next); seen[key] {
			return
		} else {
			seen[key] = true
		}
		if len(w.stack) == 0 {
			if next == len(order) {
				found[0] = true
				return
			}
			for now := w.now; now < len(m.at); now++ {
				if root, ok := m.root[now][order[next]]; ok {
					search(walk{now, []step{{spot: spot{table: root}}}}, next+1)
					return // the id of a root table does not change
				}
			}
			search(w, next+1)
			return
		}
		top := w.stack[len(w.stack)-1]
		outer := w.stack[:len(w.stack)-1]
		met := map[string]bool{}
		for now := w.now; now < len(m.at); now++ {
			// What it meets next, seen at this moment; of moments that show the same the first leaves most open.
			nodes := m.at[now][top.spot]
			i := slices.IndexFunc(nodes, func(f tc.Filter) bool { return f.Handle.Node() > top.passed })
			if i < 0 {
				if !met["end"] {
					met["end"] = true
					search(walk{now, outer}, next)
				}
				continue
			}
			f := nodes[i]
			if key := fmt.Sprint(f); met[key] {
				continue
			} else {
				met[key] = true
			}
			here := append(slices.Clone(outer), step{top.spot, f.Handle.Node()})
			switch {
			case !matches(f, packet):
				search(walk{now, here}, next)
			case f.Link != 0:
				word := binary.BigEndian.Uint32(packet[f.Sel.HOff:]) & f.Sel.HMask >> bits.TrailingZeros32(f.Sel.HMask)
				search(walk{now, append(here, step{spot: spot{f.Link.Table(), word}})}, next)
			default:
				found[f.ClassID] = true
			}
		}
	}
	search(walk{}, 0)
	return found
}

// matches tells whether f has no key that packet does not have.
func matches(f tc.Filter, packet []byte) bool {
	for _, k := range f.Sel.Keys {
		if int(k.Off)+4 > len(packet) || binary.BigEndian.Uint32(packet[k.Off:])&k.Mask != k.Value {
			return false
		}
	}
	return true
}

// TestPacketsUnderWay: from plan to plan, layouts among them, no packet that is under way while filters change gets what neither plan says.
func TestPacketsUnderWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := fakekernel.New(link)
		apply(t, k, install(t, hashPlans().Draw(t, "old").plan(t)))
		checkUnderWay(t, k, hashPlans().Draw(t, "new").plan(t), diff.Options{})
	})
}

// checkUnderWay brings k to p in place, and tries all ways in which packets under way could be torn.
func checkUnderWay(t *rapid.T, k *fakekernel.Kernel, p *plan.Plan, opts diff.Options) {
	c, err := diff.Compute(observe(t, k), p, opts)
	if err != nil {
		t.Fatal(err)
	}
	if c.Rebuild != "" {
		return
	}
	probes := probesOf(t)
	before, taggedBefore := map[netip.Addr]tc.Handle{}, map[netip.Addr]tc.Handle{}
	for _, a := range probes {
		before[a], taggedBefore[a] = verdict(k, a), tagged(k, a)
	}
	m := &moments{}
	m.add(observe(t, k))
	judge := func(n int) {
		check := func(a netip.Addr, protocol tc.Protocol, old, wanted tc.Handle) {
			for class := range m.torn(a, protocol) {
				if class == 0 {
					class = p.Default().Class.ID
				}
				if class != old && class != wanted {
					t.Fatalf("a packet to %s (%s) that is under way before operation %d may get %s; the old plan says %s, the new one %s\n%s",
						a, protocol, n, class, old, wanted, text(c.Ops))
				}
			}
		}
		for i, a := range probes {
			_, protocol := u32.Packet(a)
			check(a, protocol, before[a], wantedVerdict(p, a))
			if i < 3 {
				check(a, tc.ProtocolVLAN, taggedBefore[a], wantedBehindTag(p, a))
			}
		}
	}
	for n, op := range c.Ops {
		f, isFilter := op.Object.(tc.Filter)
		if op.Barrier || isFilter && op.Verb == tc.Delete && f.Divisor != 0 {
			judge(n)
			m = &moments{}
		}
		apply(t, k, []tc.Op{op})
		m.add(observe(t, k))
	}
	judge(len(c.Ops))
}
