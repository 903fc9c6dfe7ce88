package u32

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"bulkshaper/shaper/tc"
)

// Result is what the filters of a qdisc do with a packet.
type Result struct {
	// Matched tells whether a filter took the packet; if none did, the qdisc decides (htb: its default class).
	Matched bool
	// ClassID is where the packet goes, and Filter the node that says so.
	ClassID tc.Handle
	Filter  tc.Filter
	// Unknown names a filter of another kind, or a node with an action and the like (Selector.Extra), that the packet meets on
	// the way. What that one does is not modelled: the rest holds only if it makes no difference.
	Unknown string
	// Depth is the longest chain of links that was followed, Comparisons the number of nodes that the packet was held against.
	Depth, Comparisons int
}

// maxDepth is TC_U32_MAXDEPTH: a longer chain of links ends the search in the pref.
const maxDepth = 8

// Classifier is the filters of a qdisc, made ready to be asked about many packets. It is never changed after it was made.
type Classifier struct {
	tables map[uint32]*table
	prefs  []*pref
}

// NewClassifier makes ready filters, which may be read from the kernel or wanted ones, whose table 0 is the root table of their pref.
// Their order does not matter; their handles do, and for two with one handle the first in filters counts.
func NewClassifier(filters []tc.Filter) *Classifier {
	c := &Classifier{tables: map[uint32]*table{}}
	c.prefs = c.load(filters)
	return c
}

// Classify is NewClassifier for one packet.
func Classify(filters []tc.Filter, packet []byte, protocol tc.Protocol) Result {
	return NewClassifier(filters).Classify(packet, protocol)
}

// Classify holds packet, which begins at the network header, against the filters as tcf_classify and u32_classify do.
func (c *Classifier) Classify(packet []byte, protocol tc.Protocol) Result {
	s := search{tables: c.tables, packet: packet}
	for _, pref := range c.prefs {
		if pref.protocol != protocol && pref.protocol != tc.ProtocolAll {
			continue
		}
		if pref.kind != tc.KindU32 {
			if s.result.Unknown == "" {
				s.result.Unknown = fmt.Sprintf("%s filter at pref %d", pref.kind, pref.number)
			}
			continue
		}
		if s.run(pref.root) {
			break
		}
	}
	return s.result
}

type pref struct {
	number   uint16
	protocol tc.Protocol
	kind     string
	root     *table
}

type table struct {
	divisor uint32
	buckets map[uint32][]tc.Filter
}

type search struct {
	tables map[uint32]*table
	packet []byte
	result Result
}

// load sorts filters into prefs, in the order in which a packet meets them, and tables, which are shared by all prefs.
func (c *Classifier) load(filters []tc.Filter) []*pref {
	byNumber, roots := map[uint16]*pref{}, RootTables(filters)
	for _, f := range filters {
		p, ok := byNumber[f.Pref]
		if !ok {
			p = &pref{number: f.Pref, protocol: f.Protocol, kind: f.Kind, root: newTable()}
			byNumber[f.Pref] = p
		}
		id := f.Handle.Table()
		if f.Kind != tc.KindU32 || f.Divisor == 0 && f.Handle.Node() == 0 {
			continue // another kind, or the entry of the pref itself
		}
		t := p.root
		if id != 0 && id != roots[f.Pref] {
			if t, ok = c.tables[id]; !ok {
				t = newTable()
				c.tables[id] = t
			}
		}
		if f.Divisor != 0 {
			t.divisor = f.Divisor
			continue
		}
		t.buckets[f.Handle.Bucket()] = append(t.buckets[f.Handle.Bucket()], f)
	}
	for _, t := range c.tables {
		t.sort()
	}
	prefs := make([]*pref, 0, len(byNumber))
	for _, p := range byNumber {
		p.root.sort()
		prefs = append(prefs, p)
	}
	slices.SortFunc(prefs, func(a, b *pref) int { return cmp.Compare(a.number, b.number) })
	return prefs
}

func newTable() *table { return &table{divisor: 1, buckets: map[uint32][]tc.Filter{}} }

// firstRoot is the id of the first root table; ids from there on are chosen by the kernel, those below by whoever made the table.
const firstRoot = 0x800

// RootTables finds the root table of each u32 pref in what was read from the kernel: the lowest of the ids chosen by the kernel
// that nothing links to (nothing can link to a root). A pref without one is missing.
func RootTables(filters []tc.Filter) map[uint16]uint32 {
	linked := map[uint32]bool{}
	for _, f := range filters {
		if f.Kind == tc.KindU32 && f.Link != 0 {
			linked[f.Link.Table()] = true
		}
	}
	roots := map[uint16]uint32{}
	for _, f := range filters {
		id := f.Handle.Table()
		if f.Kind != tc.KindU32 || id < firstRoot || linked[id] {
			continue
		}
		if old, ok := roots[f.Pref]; !ok || id < old {
			roots[f.Pref] = id
		}
	}
	return roots
}

func (t *table) sort() {
	for _, nodes := range t.buckets {
		slices.SortStableFunc(nodes, func(a, b tc.Filter) int { return cmp.Compare(a.Handle.Node(), b.Handle.Node()) })
	}
}

// word is the big endian 32 bits at off, if they lie within the packet (skb_header_pointer).
func (s *search) word(off int) (uint32, bool) {
	if off < 0 || off+4 > len(s.packet) {
		return 0, false
	}
	return binary.BigEndian.Uint32(s.packet[off:]), true
}

// frame is where the search goes on when a linked table has no match.
type frame struct {
	nodes []tc.Filter // of the bucket, from the link on
	off   int
}

// run searches one pref, from its root table; true if a node took the packet. It is u32_classify with its labels as comments.
func (s *search) run(root *table) bool {
	var stack []frame
	nodes := root.buckets[0]
	off, off2 := 0, 0
	for {
		// next_knode
		if len(nodes) == 0 {
			// POP: no match here, so the link itself decides, or what stands behind it.
			if len(stack) == 0 {
				return false
			}
			top := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			nodes, off = top.nodes, top.off
			if s.terminal(nodes[0]) {
				return true
			}
			nodes = nodes[1:]
			continue
		}
		n := nodes[0]
		s.result.Comparisons++
		matched, beyond := s.match(n.Sel.Keys, off, off2)
		switch {
		case beyond:
			return false // a key past the end of the packet ends the whole pref
		case !matched:
			nodes = nodes[1:]
			continue
		}
		if n.Sel.Extra && s.result.Unknown == "" {
			s.result.Unknown = fmt.Sprintf("u32 filter with an action or a condition of its own, %s at pref %d", n.Handle, n.Pref)
		}
		down, linked := s.tables[n.Link.Table()]
		if n.Link == 0 || !linked {
			if s.terminal(n) {
				return true
			}
			nodes = nodes[1:]
			continue
		}
		// PUSH
		if len(stack) >= maxDepth {
			return false // dead loop
		}
		stack = append(stack, frame{nodes, off})
		s.result.Depth = max(s.result.Depth, len(stack))
		bucket, ok := s.bucket(n.Sel, down.divisor, off)
		if !ok {
			return false
		}
		if off, off2, ok = s.offset(n.Sel, off, off2); !ok {
			return false
		}
		nodes = nil
		if off < len(s.packet) || n.Sel.Flags&(tc.U32VarOffset|tc.U32Offset|tc.U32Eat) == 0 {
			nodes = down.buckets[bucket]
		}
	}
}

// terminal takes the packet for n if n is terminal.
func (s *search) terminal(n tc.Filter) bool {
	if n.Sel.Flags&tc.U32Terminal == 0 {
		return false
	}
	s.result.Matched, s.result.ClassID, s.result.Filter = true, n.ClassID, n
	return true
}

func (s *search) match(keys []tc.Key, off, off2 int) (matched, beyond bool) {
	for _, k := range keys {
		word, ok := s.word(off + int(k.Off) + off2&int(k.OffMask))
		if !ok {
			return false, true
		}
		if (word^k.Value)&k.Mask != 0 {
			return false, false
		}
	}
	return true, false
}

// bucket is u32_hash_fold. A table of one bucket needs no key, and reads none.
func (s *search) bucket(sel tc.Selector, divisor uint32, off int) (uint32, bool) {
	if divisor <= 1 {
		return 0, true
	}
	word, ok := s.word(off + int(sel.HOff))
	if !ok {
		return 0, false
	}
	if sel.HMask == 0 {
		return 0, true
	}
	return word & sel.HMask >> bits.TrailingZeros32(sel.HMask) & (divisor - 1), true
}

// offset moves the start of what the linked table's keys count from.
func (s *search) offset(sel tc.Selector, off, off2 int) (int, int, bool) {
	if sel.Flags&(tc.U32Offset|tc.U32VarOffset) != 0 {
		off2 = int(sel.Off) + 3
		if sel.Flags&tc.U32VarOffset != 0 {
			at := off + int(sel.OffOff)
			if at < 0 || at+2 > len(s.packet) {
				return 0, 0, false
			}
			off2 += int(sel.OffMask & binary.BigEndian.Uint16(s.packet[at:]) >> sel.OffShift)
		}
		off2 &^= 3
	}
	if sel.Flags&tc.U32Eat != 0 {
		off, off2 = off+off2, 0
	}
	return off, off2, true
}
