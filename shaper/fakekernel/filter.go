package fakekernel

import (
	"cmp"
	"maps"
	"slices"
	"syscall"

	"bulkshaper/shaper/tc"
)

// pref is a classifier instance (struct tcf_proto): one pref, one protocol, one kind.
type pref struct {
	number   uint16
	protocol tc.Protocol
	kind     string
	root     *table      // of kind u32
	others   []tc.Filter // of another kind, not understood
}

// table is struct tc_u_hnode. All u32 prefs of the qdisc share the tables.
type table struct {
	id      uint32
	pref    uint16 // it is dumped under this number
	divisor uint32
	root    bool
	links   int
	busy    int     // until this operation
	nodes   []*node // by bucket and node id
}

type node struct {
	tc.Filter
	bound *class
	hits  uint64
}

const rootTable = 0x800 // id of the first root

func (k *Kernel) clearFilters() {
	k.prefs, k.tables, k.nextRoot = map[uint16]*pref{}, map[uint32]*table{}, 0
}

// filters is the dump: by pref, tables before their nodes. Tables whose pref was deleted are in it only if hidden is true: the
// kernel still uses them, and shows them to nobody.
func (k *Kernel) filters(hidden bool) []tc.Filter {
	var dump []tc.Filter
	for _, p := range k.prefs {
		dump = append(dump, p.others...)
	}
	for _, t := range k.tables {
		p, ok := k.prefs[t.pref]
		if !ok && !hidden {
			continue
		}
		entry := tc.Filter{Parent: k.root.Handle, Pref: t.pref, Kind: tc.KindU32, Handle: tc.MakeU32Handle(t.id, 0, 0), Divisor: t.divisor}
		if ok {
			entry.Protocol = p.protocol
		}
		dump = append(dump, entry)
		for _, n := range t.nodes {
			f := n.Filter
			f.Pref, f.Protocol = t.pref, entry.Protocol
			f.Sel.Keys = slices.Clone(f.Sel.Keys)
			dump = append(dump, f)
		}
	}
	slices.SortStableFunc(dump, func(a, b tc.Filter) int { return cmp.Or(cmp.Compare(a.Pref, b.Pref), cmp.Compare(a.Handle, b.Handle)) })
	return dump
}

// filter is tc_new_tfilter and tc_del_tfilter: Add has the flags CREATE and EXCL, Change none and only the class and the link.
func (k *Kernel) filter(verb tc.Verb, f tc.Filter) error {
	if k.root.Kind != tc.KindHTB || f.Parent != k.root.Handle {
		return refused(syscall.EINVAL, "Parent Qdisc doesn't exists")
	}
	p, exists := k.prefs[f.Pref]
	if exists && p.protocol != f.Protocol {
		return refused(syscall.EINVAL, "Protocol mismatch for filter with specified priority")
	}
	if exists && f.Kind != p.kind {
		return refused(syscall.EINVAL, "Specified filter kind does not match existing one")
	}
	if verb == tc.Delete {
		if !exists {
			return refused(syscall.ENOENT, "Filter with specified priority/protocol not found")
		}
		return k.deleteFilter(p, f)
	}
	if !exists {
		if verb == tc.Change {
			return refused(syscall.ENOENT, "Need both RTM_NEWTFILTER and NLM_F_CREATE to create a new filter")
		}
		p = &pref{number: f.Pref, protocol: f.Protocol, kind: f.Kind}
	}
	if f.Kind != tc.KindU32 {
		p.others = append(p.others, f)
		k.prefs[f.Pref] = p
		return nil
	}
	if !exists {
		p.root = k.newRoot(f.Pref)
		k.prefs[f.Pref] = p
	}
	err := k.setFilter(verb, p, f)
	if err != nil && !exists {
		k.deletePref(p)
	}
	return err
}

// newRoot is gen_new_htid: 800 first, then on and on, until no u32 pref is left.
func (k *Kernel) newRoot(pref uint16) *table {
	const ids = rootTable
	for k.tables[rootTable|k.nextRoot] != nil {
		k.nextRoot = max(1, (k.nextRoot+1)%ids)
	}
	t := &table{id: rootTable | k.nextRoot, pref: pref, divisor: 1, root: true}
	k.nextRoot = max(1, (k.nextRoot+1)%ids)
	k.tables[t.id] = t
	return t
}

func (k *Kernel) setFilter(verb tc.Verb, p *pref, f tc.Filter) error {
	id := f.Handle.Table()
	old := k.find(f.Handle)
	isTable := f.Handle.Node() == 0 && f.Handle.Bucket() == 0 && k.tables[id] != nil
	switch {
	case (old != nil || isTable) && verb == tc.Add:
		return refused(syscall.EEXIST, "Filter already exists")
	case old == nil && verb != tc.Add && !isTable:
		return refused(syscall.ENOENT, "Need both RTM_NEWTFILTER and NLM_F_CREATE to create a new filter")
	case old == nil && verb != tc.Add:
		return refused(syscall.EINVAL, "Key node id cannot be zero")
	case verb != tc.Add:
		return k.changeNode(old, f)
	case f.Divisor != 0:
		return k.addTable(p, f)
	}
	t := p.root
	if id == 0 {
		f.Handle = tc.MakeU32Handle(0, 0, f.Handle.Node()) // of a handle without a table, only the node counts
	} else {
		if t = k.tables[id]; t == nil {
			return refused(syscall.EINVAL, "Specified hash table not found")
		}
	}
	if f.Handle.Bucket() >= t.divisor {
		return refused(syscall.EINVAL, "Specified hash table buckets exceed configured value")
	}
	n := &node{Filter: f}
	n.Handle = tc.MakeU32Handle(t.id, f.Handle.Bucket(), f.Handle.Node())
	n.ClassID, n.Link = 0, 0
	switch taken := slices.ContainsFunc(t.nodes, func(o *node) bool { return o.Handle == n.Handle }); {
	case f.Handle.Node() == 0:
		return refused(syscall.EINVAL, "fakekernel has no automatic handles")
	case taken:
		return refused(syscall.ENOSPC, "")
	}
	if err := k.point(n, f.ClassID, f.Link); err != nil {
		return err
	}
	t.insert(n)
	return nil
}

// insert puts n behind all nodes of the same or a lower handle.
func (t *table) insert(n *node) {
	i, _ := slices.BinarySearchFunc(t.nodes, n.Handle+1, func(o *node, h tc.U32Handle) int { return cmp.Compare(o.Handle, h) })
	t.nodes = slices.Insert(t.nodes, i, n)
}

// find is u32_get for a node, by its full handle.
func (k *Kernel) find(h tc.U32Handle) *node {
	t := k.tables[h.Table()]
	if t == nil || h.Node() == 0 {
		return nil
	}
	i, found := slices.BinarySearchFunc(t.nodes, h, func(o *node, h tc.U32Handle) int { return cmp.Compare(o.Handle, h) })
	if !found {
		return nil
	}
	return t.nodes[i]
}

func (k *Kernel) addTable(p *pref, f tc.Filter) error {
	id := f.Handle.Table()
	switch {
	case f.Divisor > 256 || f.Divisor&(f.Divisor-1) != 0:
		return refused(syscall.EINVAL, "Divisor can only be a power of 2, up to 256")
	case f.Handle.Node() != 0 || f.Handle.Bucket() != 0:
		return refused(syscall.EINVAL, "Divisor can only be used on a hash table")
	case id == 0 || id >= rootTable:
		return refused(syscall.EINVAL, "fakekernel has only the table ids 1 to 7ff")
	}
	k.tables[id] = &table{id: id, pref: p.number, divisor: f.Divisor}
	return nil
}

// changeNode is a change in place, in which the class and the link are always sent: keys stay whatever f has.
func (k *Kernel) changeNode(n *node, f tc.Filter) error { return k.point(n, f.ClassID, f.Link) }

// point lets n lead to a class and a table. A class that does not exist is not bound, and will not be when it is made later.
func (k *Kernel) point(n *node, classID tc.Handle, link tc.U32Handle) error {
	if link != n.Link {
		to := k.tables[link.Table()]
		switch {
		case link == 0:
		case link.Node() != 0:
			return refused(syscall.EINVAL, "u32 Link handle must be a hash table")
		case to == nil:
			return refused(syscall.EINVAL, "Link hash table not found")
		case to.root:
			return refused(syscall.EINVAL, "Not linking to root node")
		}
		k.unlink(n)
		if n.Link = link; to != nil {
			to.links++
		}
	}
	if n.bound != nil {
		n.bound.bound--
		n.bound = nil
	}
	if n.ClassID = classID; k.classes[classID] != nil {
		n.bound = k.classes[classID]
		n.bound.bound++
	}
	return nil
}

func (k *Kernel) unlink(n *node) {
	if t := k.tables[n.Link.Table()]; n.Link != 0 && t != nil {
		t.links--
		t.busy = k.count + k.grace
	}
}

func (k *Kernel) deleteFilter(p *pref, f tc.Filter) error {
	if f.Handle == 0 {
		k.deletePref(p)
		return nil
	}
	if p.kind != tc.KindU32 {
		before := len(p.others)
		p.others = slices.DeleteFunc(p.others, func(o tc.Filter) bool { return o.Handle == f.Handle })
		switch {
		case len(p.others) == before:
			return refused(syscall.ENOENT, "Specified filter handle not found")
		case len(p.others) == 0:
			delete(k.prefs, p.number)
		}
		return nil
	}
	t := k.tables[f.Handle.Table()]
	n := k.find(f.Handle)
	switch {
	case t == nil, n == nil && f.Handle.Node() != 0:
		return refused(syscall.ENOENT, "Specified filter handle not found")
	case n != nil:
		t.nodes = slices.DeleteFunc(t.nodes, func(o *node) bool { return o == n })
		k.release(n)
	case t.root:
		return refused(syscall.EINVAL, "Not allowed to delete root node")
	case t.links > 0, t.busy > k.count:
		return refused(syscall.EBUSY, "Can not delete in-use filter")
	default:
		k.deleteTable(t)
	}
	// With one u32 pref left and no node, the pref goes, with all its tables.
	prefs, nodes := 0, 0
	for _, p := range k.prefs {
		if p.kind == tc.KindU32 {
			prefs++
		}
	}
	for _, t := range k.tables {
		nodes += len(t.nodes)
	}
	if prefs == 1 && nodes == 0 {
		k.deletePref(p)
	}
	return nil
}

func (k *Kernel) release(n *node) {
	k.unlink(n)
	if n.bound != nil {
		n.bound.bound--
	}
}

func (k *Kernel) deleteTable(t *table) {
	delete(k.tables, t.id)
	for _, n := range t.nodes {
		k.release(n)
	}
}

// deletePref frees the root table only; the others live on while another u32 pref does.
func (k *Kernel) deletePref(p *pref) {
	delete(k.prefs, p.number)
	if p.kind != tc.KindU32 {
		return
	}
	k.deleteTable(p.root)
	if slices.ContainsFunc(slices.Collect(maps.Values(k.prefs)), func(o *pref) bool { return o.kind == tc.KindU32 }) {
		return
	}
	for _, t := range k.tables {
		k.deleteTable(t)
	}
	k.nextRoot = 0
}
