package kernel

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"bulkshaper/shaper/kernel/kerneltest"
	"bulkshaper/shaper/tc"
)

// A foreign root of any kind, handle and age gives way to Replace, and to nothing else.
func TestTakeRoot(t *testing.T) {
	for name, foreign := range map[string][]string{
		"YARN's":                       {"qdisc add dev eth1 root handle 42: htb default 2", "class add dev eth1 parent 42: classid 42:1 htb rate 1gbit"},
		"htb of our handle":            {"qdisc add dev eth1 root handle 1: htb default 7", "class add dev eth1 parent 1: classid 1:10 htb rate 1mbit"},
		"other kind of our handle":     {"qdisc add dev eth1 root handle 1: tbf rate 1mbit burst 10k latency 10ms"},
		"tc without a handle":          {"qdisc add dev eth1 root pfifo limit 10"},
		"a leaf that has our handle":   {"qdisc add dev eth1 root handle 5: htb", "class add dev eth1 parent 5: classid 5:1 htb rate 1mbit", "qdisc add dev eth1 parent 5:1 handle 1: pfifo limit 5"},
		"a leaf that has our leaf's":   {"qdisc add dev eth1 root handle 5: htb", "class add dev eth1 parent 5: classid 5:1 htb rate 1mbit", "qdisc add dev eth1 parent 5:1 handle b010: pfifo limit 5"},
		"the kernel's, as it was made": {},
	} {
		t.Run(name, func(t *testing.T) {
			n := kerneltest.New(t)
			k := open(t, n)
			if err := n.TCBatch(strings.Join(foreign, "\n") + "\n"); err != nil {
				t.Fatal(err)
			}
			before := n.TC("qdisc", "show", "dev", "eth1") + n.TC("class", "show", "dev", "eth1")
			if len(foreign) > 0 {
				errs := applyErrors(t, k, tree()...)
				if !errors.Is(errs[0], unix.EEXIST) {
					t.Errorf("add over a foreign root: %v", errs[0])
				}
				for _, err := range errs[1:] {
					if !errors.Is(err, tc.ErrNotTried) {
						t.Errorf("behind it: %v", err)
					}
				}
				if after := n.TC("qdisc", "show", "dev", "eth1") + n.TC("class", "show", "dev", "eth1"); after != before {
					t.Errorf("add over a foreign root changed\n%sto\n%s", before, after)
				}
			}
			ops := tree()
			ops[0].Verb = tc.Replace
			mustApply(t, k, ops...)
			s := observe(t, k)
			if q, _ := s.RootQdisc(); q != root() || len(s.Classes) != 3 || len(s.Qdiscs) != 4 || len(nodes(s)) != 4 {
				t.Errorf("after the takeover: %+v", s)
			}
		})
	}
}

// A root with many queues has an mq of the kernel's own, which is replaced like any other of its own.
func TestMultiQueueRoot(t *testing.T) {
	n := kerneltest.New(t)
	n.Run(t, "ip", "link", "add", "many", "numtxqueues", "4", "type", "ifb")
	n.Run(t, "ip", "link", "set", "many", "up")
	if got := n.TC("qdisc", "show", "dev", "many"); !strings.Contains(got, "qdisc mq 0: root") {
		t.Fatalf("no mq here: %s", got)
	}
	k, err := Open(Options{Namespace: n.FD(), Interface: "many"})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	s := observe(t, k)
	if q, ok := s.RootQdisc(); !ok || q.Kind != "mq" || q.Handle != tc.Unspec || len(s.Qdiscs) != 1 || s.Link.TxQueues != 4 {
		t.Errorf("got %+v", s)
	}
	mustApply(t, k, tree()...)
	if s := observe(t, k); len(s.Qdiscs) != 4 || len(s.Classes) != 3 {
		t.Errorf("got %+v", s)
	}
	mustApply(t, k, remove(root()))
	if q, _ := observe(t, k).RootQdisc(); q.Kind != "mq" {
		t.Errorf("after clear: %+v", q)
	}
}

// What was made of a foundation that fails is taken back.
func TestFoundationIsTakenBack(t *testing.T) {
	badClass := class(0x10, mbit)
	badClass.Rate = 0 // EINVAL
	badLeaf := leaf(0x10)
	badLeaf.Kind, badLeaf.Limit = "no_such_kind", 0
	for name, c := range map[string]struct {
		before []string
		ops    []tc.Op
		failed int
		want   string // what root stands afterwards
	}{
		"class fails":             {nil, []tc.Op{add(root()), add(badClass), add(leaf(0x10))}, 1, "noqueue 0:"},
		"leaf fails":              {nil, []tc.Op{add(root()), add(class(0x10, mbit)), add(badLeaf)}, 2, "noqueue 0:"},
		"leaf fails at takeover":  {[]string{"qdisc add dev eth1 root handle 42: htb"}, []tc.Op{replace(root()), add(class(0x10, mbit)), add(badLeaf)}, 2, "noqueue 0:"},
		"leaf fails at a rebuild": {[]string{"qdisc add dev eth1 root handle 1: htb"}, []tc.Op{remove(root()), add(root()), add(class(0x10, mbit)), add(badLeaf)}, 3, "noqueue 0:"},
		// Somebody was faster and made a root in which our class and leaf would go.
		"root fails": {[]string{"qdisc add dev eth1 root handle 1: htb"}, []tc.Op{add(root()), add(class(0x10, mbit)), add(leaf(0x10))}, 0, "htb 1:"},
		// The one that is to be deleted is not there any more, but another one.
		"root replaced meanwhile": {[]string{"qdisc add dev eth1 root handle 42: htb"}, []tc.Op{remove(root()), add(root()), add(class(0x10, mbit)), add(leaf(0x10))}, 1, "htb 42:"},
	} {
		t.Run(name, func(t *testing.T) {
			n := kerneltest.New(t)
			k := open(t, n)
			if err := n.TCBatch(strings.Join(c.before, "\n") + "\n"); err != nil {
				t.Fatal(err)
			}
			errs := applyErrors(t, k, c.ops...)
			for i, err := range errs {
				switch {
				case i == c.failed && (err == nil || errors.Is(err, tc.ErrNotTried)):
					t.Errorf("%s: %v", c.ops[i], err)
				case i != c.failed && c.ops[i].Verb != tc.Delete && !errors.Is(err, tc.ErrNotTried) && !errors.Is(err, unix.EEXIST):
					t.Errorf("%s: %v", c.ops[i], err)
				}
			}
			if got := n.TC("qdisc", "show", "dev", "eth1"); !strings.HasPrefix(got, "qdisc "+c.want+" root") || strings.Count(got, "\n") != 1 {
				t.Errorf("tc shows\n%s", got)
			}
			if got := n.TC("class", "show", "dev", "eth1"); got != "" {
				t.Errorf("tc shows\n%s", got)
			}
		})
	}
}
