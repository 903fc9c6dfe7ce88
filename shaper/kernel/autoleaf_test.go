package kernel

import (
	"strings"
	"testing"

	"bulkshaper/shaper/kernel/kerneltest"
	"bulkshaper/shaper/tc"
)

// The probe tells known kinds from unknown ones and leaves no trace: over a root of the kernel's own, of ours and of
// somebody else's.
func TestProbe(t *testing.T) {
	for name, setup := range map[string]func(*kerneltest.Namespace, *Kernel){
		"the kernel's": func(*kerneltest.Namespace, *Kernel) {},
		"ours":         func(_ *kerneltest.Namespace, k *Kernel) { mustApply(t, k, tree()...) },
		"foreign": func(n *kerneltest.Namespace, _ *Kernel) {
			n.TC("qdisc", "add", "dev", "eth1", "root", "handle", "42:", "pfifo", "limit", "10")
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := kerneltest.New(t)
			k := open(t, n)
			setup(n, k)
			n.Send(t, destinations[0], 10)
			show := func() string {
				return n.TC("-s", "qdisc", "show", "dev", "eth1") + n.TC("-s", "class", "show", "dev", "eth1")
			}
			before := show()
			s := observe(t, k)
			for kind, want := range map[string]bool{"pfifo": true, "tbf": true, "htb": true, "no_such_kind": false, "fq_codel": tcKnows(t, "fq_codel")} {
				got, err := probe(k.read, s.Link.Index, freeHandle(s.Qdiscs), kind)
				if err != nil || got != want {
					t.Errorf("%s: got %t, %v, want %t", kind, got, err, want)
				}
			}
			if after := show(); after != before {
				t.Errorf("the probe changed\n%sto\n%s", before, after)
			}
		})
	}
}

// tcKnows asks the independent witness.
func tcKnows(t *testing.T, kind string) bool {
	n := kerneltest.New(t)
	_, err := n.TryTC("qdisc", "add", "dev", "eth1", "root", "handle", "1:", kind)
	if err != nil && !strings.Contains(err.Error(), "Specified qdisc kind is unknown") {
		t.Fatal(err)
	}
	return err == nil
}

func TestAutoLeaf(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	want := tc.KindPFIFO
	if tcKnows(t, tc.KindFQCodel) {
		want = tc.KindFQCodel
	}
	if got := observe(t, k).AutoLeaf; got != want {
		t.Errorf("auto is %s, want %s", got, want)
	}
	leaf := func(kind string) tc.State {
		return tc.State{Qdiscs: []tc.Qdisc{root(),
			{Handle: tc.MakeHandle(0x8001, 0), Parent: tc.MakeHandle(1, 5), Kind: "fq_codel"}, // not ours
			{Handle: tc.LeafHandle(0x10), Parent: tc.MakeHandle(1, 0x10), Kind: "bfifo"},      // ours, and chosen by hand
			{Handle: tc.LeafHandle(0x20), Parent: tc.MakeHandle(1, 0x20), Kind: kind}}}
	}
	// What stands wins, whatever the kernel knows.
	for _, kind := range []string{tc.KindPFIFO, tc.KindFQCodel} {
		if got := k.findAutoLeaf(leaf(kind)); got != kind {
			t.Errorf("with leaves of %s: %s", kind, got)
		}
	}
}
