package diff

import (
	"cmp"
	"fmt"
	"slices"

	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
)

// OwnerKind says whose the root qdisc is.
type OwnerKind int

const (
	// None: there is no root qdisc to be seen.
	None OwnerKind = iota
	// Kernel: the kernel made the root itself (handle 0:); it may be replaced.
	Kernel
	// Ours: htb 1: with a class 1:N whose leaf has the handle that we give it.
	Ours
	// Foreign: somebody else's.
	Foreign
)

// String is the kind in a word.
func (k OwnerKind) String() string {
	return [...]string{"none", "kernel", "ours", "foreign"}[k]
}

// Owner is whose the root qdisc is, and of a foreign one who probably made it.
type Owner struct {
	Kind OwnerKind
	Root tc.Qdisc
	// Maker is a guess, in words, "" unless Kind is Foreign.
	Maker string
}

// Ownership finds the owner of the root in the observed tree alone, so that it holds across restarts, namespaces and lost files.
func Ownership(have tc.State) Owner {
	root, ok := have.RootQdisc()
	switch {
	case !ok:
		return Owner{Kind: None}
	case root.Handle == tc.Unspec:
		return Owner{Kind: Kernel, Root: root}
	case root.Kind == tc.KindHTB && root.Handle == ourRoot:
		if ours(have) {
			return Owner{Kind: Ours, Root: root}
		}
	}
	return Owner{Kind: Foreign, Root: root, Maker: maker(root, have)}
}

// ours tells whether a root htb 1: has our mark. One leaf with our handle may be chance: the kernel numbers those for which no handle is
// given from 8000: on, all those of the machine one after the other, and so comes by. It proves something together with a second one or
// with a filter at a pref of ours, and that of the control class, which is the first that we make and nobody else has, by itself.
func ours(have tc.State) bool {
	leaves := leavesOf(have)
	marks := 0
	for _, c := range have.Classes {
		if marked(c, leaves) {
			if marks++; marks > 1 || c.ID == tc.ControlClass {
				return true
			}
		}
	}
	return marks > 0 && slices.ContainsFunc(have.Filters, func(f tc.Filter) bool { return fitsOwnPref(&f) })
}

// ourRoot is the handle of our root, 1:.
const ourRoot = tc.Handle(tc.Major << 16)

// leavesOf is the qdiscs by the class above; those that the kernel made itself are none.
func leavesOf(s tc.State) map[tc.Handle]tc.Qdisc {
	leaves := map[tc.Handle]tc.Qdisc{}
	for _, q := range s.Qdiscs {
		if q.Parent != tc.Root && q.Handle != tc.Unspec {
			leaves[q.Parent] = q
		}
	}
	return leaves
}

// marked tells whether the leaf of c has the handle that only we give it. A reserved minor has no such handle.
func marked(c tc.Class, leaves map[tc.Handle]tc.Qdisc) bool {
	minor := c.ID.Minor()
	if c.ID.Major() != tc.Major || tc.ReservedMinor(minor) && minor != tc.ControlMinor {
		return false
	}
	return c.Leaf == tc.LeafHandle(minor) || leaves[c.ID].Handle == tc.LeafHandle(minor)
}

// maker guesses who puts such a root there.
func maker(root tc.Qdisc, have tc.State) string {
	major := root.Handle.Major()
	switch {
	case root.Handle == ourRoot && slices.ContainsFunc(have.Filters, func(f tc.Filter) bool { return f.Pref == plan.PrefARP && f.ClassID == tc.ControlClass }):
		return "tc rules written by hand, and a takeover that was cut off and goes on with --takeover"
	case yarn(root):
		return "YARN's TrafficController, which wipes the root at each start of the node manager"
	case root.Kind == tc.KindHTB && major == tc.Major:
		return "tc rules written by hand, wondershaper, FireQOS or the like"
	case root.Kind == "tbf":
		return "a bandwidth limit by CNI plugins, systemd or by hand"
	case root.Kind == "cake", root.Kind == "hfsc":
		return "sqm-scripts, systemd-networkd or another shaper"
	case multiQueue(root.Kind):
		return "a driver's setup script, NetworkManager or tc by hand"
	case major >= 0x8000:
		return "tc or NetworkManager, without a handle given"
	}
	return "another program, or tc by hand"
}

// ForeignRootError says that somebody else shapes the interface.
type ForeignRootError struct {
	Interface string
	Root      tc.Qdisc
	Maker     string
	// Clearing says that it was to be removed, and not taken over.
	Clearing bool
}

// Error says what stands, who probably made it and what to do.
func (e *ForeignRootError) Error() string {
	if e.Clearing {
		return fmt.Sprintf("clear %s: the root qdisc is %s, which is not ours (probably %s), and only ours is removed: nothing of ours stands on %s; if that one is to go, %s; "+
			"then remove it with \"tc qdisc del dev %s root\"", e.Interface, rootText(e.Root), e.Maker, e.Interface, e.stop(), e.Interface)
	}
	return fmt.Sprintf("shape %s: the root qdisc is %s, which is not ours (probably %s): %s; then remove it with "+
		"\"tc qdisc del dev %s root\", or take it over with --takeover (takeover: true); \"bulkshaper plan --takeover\" shows what that does",
		e.Interface, rootText(e.Root), e.Maker, e.stop(), e.Interface)
}

// stop is how to end what made the root.
func (e *ForeignRootError) stop() string {
	return cmp.Or(Owner{Kind: Foreign, Root: e.Root}.Stop(), "stop what made it")
}

// Stop is how to end what made a foreign root, "" where that is not known.
func (o Owner) Stop() string {
	switch {
	case o.Kind != Foreign:
	case yarn(o.Root):
		return endYARN
	case multiQueue(o.Root.Kind):
		return endMultiQueue + " (of the kernel's own, which then takes its place and has none, ours takes the place without more)"
	}
	return ""
}

// advice is who made a foreign root that has to go and what to do, so that it does not come back.
func (o Owner) advice() string {
	do := "see to it that it does not do so again"
	switch {
	case yarn(o.Root):
		do = endYARN
	case multiQueue(o.Root.Kind):
		do = endMultiQueue + ", or ours is replaced again"
	}
	return fmt.Sprintf("%s was probably made by %s: %s", rootText(o.Root), o.Maker, do)
}

// What ends the making of a root, in the same words wherever that is told.
const (
	endYARN       = "set yarn.nodemanager.resource.network.enabled to false and restart the node manager, or it wipes ours as well"
	endMultiQueue = "stop what gives it a handle"
)

// yarnMajor is that of the root which YARN's TrafficController makes.
const yarnMajor = 0x42

func yarn(root tc.Qdisc) bool { return root.Kind == tc.KindHTB && root.Handle.Major() == yarnMajor }

func multiQueue(kind string) bool {
	return kind == "mq" || kind == "mqprio" || kind == "multiq" || kind == "taprio"
}

func rootText(q tc.Qdisc) string { return q.Kind + " " + q.Handle.String() }

// ForeignFilterError says that a filter that we cannot change stands at one of our prefs.
type ForeignFilterError struct {
	Interface string
	Filter    tc.Filter
	// Protocol is that of our filters at the pref.
	Protocol tc.Protocol
}

// Error says what stands where and what to do.
func (e *ForeignFilterError) Error() string {
	return fmt.Sprintf("shape %s: pref %d is ours, for u32 filters of protocol %s, and a %s filter of protocol %s stands there: remove it with "+
		"\"tc filter del dev %s parent %s protocol %s pref %d\"", e.Interface, e.Filter.Pref, e.Protocol, e.Filter.Kind, e.Filter.Protocol,
		e.Interface, e.Filter.Parent, e.Filter.Protocol, e.Filter.Pref)
}

// ForeignObjectsError says that the root has to be set up again, and that somebody else's classes or filters hang on it.
type ForeignObjectsError struct {
	Interface string
	// Rebuild is why the root has to be set up again, Objects what would be lost.
	Rebuild string
	Objects []string
}

// Error says what would be lost, why, and what to do.
func (e *ForeignObjectsError) Error() string {
	return fmt.Sprintf("shape %s: the root qdisc has to be set up again, since %s, and that would remove what is not ours: %s; "+
		"remove it yourself, or allow that with --takeover (takeover: true)", e.Interface, e.Rebuild, join(e.Objects))
}
