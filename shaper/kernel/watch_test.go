package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"bulkshaper/shaper/kernel/kerneltest"
	"bulkshaper/shaper/kernel/wire"
	"bulkshaper/shaper/tc"
)

// eventWait is over what the slowest machine needs for an event that does come.
const eventWait = 10 * time.Second

func watch(t *testing.T, k *Kernel) <-chan tc.Event {
	t.Helper()
	events, err := k.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// wait takes events until one of the kind comes, and returns all of them.
func wait(t *testing.T, events <-chan tc.Event, kind tc.EventKind) []tc.Event {
	t.Helper()
	var got []tc.Event
	timeout := time.After(eventWait)
	for {
		select {
		case e, ok := <-events:
			if !ok {
				t.Fatalf("the channel was closed; wanted %s, had %v", kind, got)
			}
			got = append(got, e)
			if e.Kind == kind {
				return got
			}
		case <-timeout:
			t.Fatalf("no event of kind %s, had %v", kind, got)
		}
	}
}

// waitAny takes events until one of one of the kinds comes.
func waitAny(t *testing.T, events <-chan tc.Event, kinds ...tc.EventKind) {
	t.Helper()
	timeout := time.After(eventWait)
	for {
		select {
		case e := <-events:
			if slices.Contains(kinds, e.Kind) {
				return
			}
		case <-timeout:
			t.Fatalf("no event of the kinds %v", kinds)
		}
	}
}

// flush makes foreign address events and takes all events up to them: those of what was done before. It is two since the kernel may tell
// late of an address that the interface had from the start.
func flush(t *testing.T, n *kerneltest.Namespace, events <-chan tc.Event) []tc.Event {
	t.Helper()
	n.Run(t, "ip", "addr", "add", "198.51.100.1/32", "dev", "eth1")
	got := wait(t, events, tc.EventAddress)
	n.Run(t, "ip", "addr", "del", "198.51.100.1/32", "dev", "eth1")
	got = append(got, wait(t, events, tc.EventAddress)...)
	return slices.DeleteFunc(got, func(e tc.Event) bool { return e.Kind == tc.EventAddress })
}

func TestWatchTellsOwnFromForeign(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	events := watch(t, k)
	own := func(what string, got []tc.Event, want bool, kinds ...tc.EventKind) {
		t.Helper()
		for _, kind := range kinds {
			if !slices.ContainsFunc(got, func(e tc.Event) bool { return e.Kind == kind }) {
				t.Errorf("%s: no event of kind %s in %v", what, kind, got)
			}
		}
		for _, e := range got {
			// The kernel tells late that a new link has its carrier.
			if e.Kind != tc.EventLink && e.Own != want {
				t.Errorf("%s: %v", what, e)
			}
		}
	}
	mustApply(t, k, tree()...)
	own("installation", flush(t, n, events), true, tc.EventQdisc, tc.EventClass, tc.EventFilter)
	faster := class(0x10, 100*mbit)
	mustApply(t, k, change(faster))
	own("class change", flush(t, n, events), true, tc.EventClass)
	n.TC("class", "change", "dev", "eth1", "classid", "1:10", "htb", "rate", "5mbit")
	got := flush(t, n, events)
	own("tc's class change", got, false, tc.EventClass)
	if i := slices.IndexFunc(got, func(e tc.Event) bool { return e.Kind == tc.EventClass }); i >= 0 && !strings.HasPrefix(got[i].By, "process ") {
		t.Errorf("tc is named as %q", got[i].By)
	}
	n.TC("filter", "del", "dev", "eth1", "parent", "1:", "pref", "12000")
	own("tc's filter deletion", flush(t, n, events), false, tc.EventFilter)
	n.TC("qdisc", "del", "dev", "eth1", "root")
	own("tc's qdisc deletion", flush(t, n, events), false, tc.EventQdisc)
}

// An own event and a foreign one that wait together are a foreign one.
func TestEventsArePutTogether(t *testing.T) {
	w := &watcher{ready: make(chan struct{}, 1)}
	w.add(tc.EventClass, true, "")
	w.add(tc.EventFilter, true, "")
	w.add(tc.EventClass, false, "process 7")
	w.add(tc.EventClass, true, "")
	w.add(tc.EventFilter, true, "")
	want := []tc.Event{{Kind: tc.EventClass, By: "process 7"}, {Kind: tc.EventFilter, Own: true}}
	if !slices.Equal(w.pending, want) {
		t.Errorf("got %v, want %v", w.pending, want)
	}
}

// link is a notification about a link of this index and name, in this family.
func link(typ uint16, family byte, index uint32, name string) wire.Message {
	b := make([]byte, unix.SizeofIfInfomsg)
	b[0] = family
	binary.NativeEndian.PutUint32(b[4:], index)
	b = binary.NativeEndian.AppendUint16(b, uint16(4+len(name)+1))
	b = binary.NativeEndian.AppendUint16(b, unix.IFLA_IFNAME)
	b = append(append(b, name...), 0)
	return wire.Message{Header: wire.Header{Type: typ}, Payload: append(b, make([]byte, -len(b)&3)...)}
}

func TestLinkNotifications(t *testing.T) {
	for _, c := range []struct {
		what  string
		m     wire.Message
		event bool
		index int // afterwards
	}{
		{"another link", link(unix.RTM_NEWLINK, 0, 3, "ifb1"), false, 2},
		{"another link goes", link(unix.RTM_DELLINK, 0, 3, "ifb1"), false, 2},
		{"ours changes", link(unix.RTM_NEWLINK, 0, 2, "eth1"), true, 2},
		{"ours goes", link(unix.RTM_DELLINK, 0, 2, "eth1"), true, 0},
		{"ours leaves a bridge", link(unix.RTM_DELLINK, unix.AF_BRIDGE, 2, "eth1"), true, 2},
		{"ours is renamed", link(unix.RTM_NEWLINK, 0, 2, "away"), true, 0},
		{"another gets our name", link(unix.RTM_NEWLINK, 0, 3, "eth1"), true, 3},
		{"one goes that had our name", link(unix.RTM_DELLINK, 0, 3, "eth1"), false, 2},
	} {
		w := &watcher{name: "eth1", index: 2, ready: make(chan struct{}, 1)}
		w.notice(c.m)
		if got := len(w.pending) == 1; got != c.event || w.index != c.index {
			t.Errorf("%s: events %v, index %d", c.what, w.pending, w.index)
		}
	}
	w := &watcher{name: "eth1", index: 2, ready: make(chan struct{}, 1)}
	w.notice(wire.Message{Header: wire.Header{Type: unix.RTM_NEWLINK}, Payload: []byte{1, 2}})
	if !slices.Equal(w.pending, []tc.Event{{Kind: tc.EventLost}}) {
		t.Errorf("a notification cut short: %v", w.pending)
	}
}

// Nobody takes the events of a burst: they become one a kind.
func TestWatchDoesNotGrow(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	events := watch(t, k)
	var ops []tc.Op
	for i := range 2000 {
		ops = append(ops, add(filter(uint32(i+1), fmt.Sprintf("10.1.%d.%d/32", i/256, i%256), 0x10)))
	}
	mustApply(t, k, tree()[:7]...)
	mustApply(t, k, ops...)
	if got := flush(t, n, events); len(got) > len(ops)/4 {
		t.Errorf("%d events of %d operations", len(got), len(ops))
	}
}

func TestWatchHearsOnlyItsInterface(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	n.Run(t, "ip", "link", "add", "ifb1", "type", "ifb")
	n.Run(t, "ip", "link", "set", "ifb1", "up")
	events := watch(t, k)
	n.TC("qdisc", "add", "dev", "ifb1", "root", "handle", "1:", "htb")
	n.TC("class", "add", "dev", "ifb1", "parent", "1:", "classid", "1:1", "htb", "rate", "1mbit")
	n.Run(t, "ip", "addr", "add", "198.51.100.7/32", "dev", "ifb1")
	n.Run(t, "ip", "link", "set", "ifb1", "down")
	n.Run(t, "ip", "link", "del", "ifb1")
	for _, e := range flush(t, n, events) {
		if e.Kind != tc.EventLink { // late news of eth1's own carrier
			t.Errorf("got %v", e)
		}
	}
}

func TestWatchFollowsTheInterface(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	events := watch(t, k)
	for _, state := range []string{"down", "up"} {
		n.Run(t, "ip", "link", "set", "eth1", state)
		wait(t, events, tc.EventLink)
	}
	before := observe(t, k).Link.Index
	n.Disconnect()
	wait(t, events, tc.EventLink)
	n.Connect()
	wait(t, events, tc.EventLink)
	if observe(t, k).Link.Index == before {
		t.Error("the interface has its old index: the test proves nothing")
	}
	flush(t, n, events)
	n.TC("qdisc", "add", "dev", "eth1", "root", "handle", "1:", "htb")
	wait(t, events, tc.EventQdisc)

	// While it has another name it is another interface.
	n.Run(t, "ip", "link", "set", "eth1", "down")
	n.Run(t, "ip", "link", "set", "eth1", "name", "away")
	n.TC("class", "add", "dev", "away", "parent", "1:", "classid", "1:1", "htb", "rate", "1mbit")
	n.Run(t, "ip", "link", "set", "away", "name", "eth1")
	n.TC("qdisc", "del", "dev", "eth1", "root")
	for _, e := range wait(t, events, tc.EventQdisc) {
		if e.Kind == tc.EventClass {
			t.Errorf("heard of an interface that was renamed away: %v", e)
		}
	}
}

func TestWatchBeforeTheInterfaceExists(t *testing.T) {
	n := kerneltest.New(t)
	n.Disconnect()
	k := open(t, n)
	events := watch(t, k)
	n.Connect()
	wait(t, events, tc.EventLink)
	mustApply(t, k, tree()...)
	wait(t, events, tc.EventQdisc)
}

func TestWatchByAlternativeName(t *testing.T) {
	n := kerneltest.New(t)
	n.Run(t, "ip", "link", "property", "add", "dev", "eth1", "altname", "thebulkinterfaceofthenode")
	k, err := Open(Options{Namespace: n.FD(), Interface: "thebulkinterfaceofthenode"})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if got := observe(t, k).Link.Name; got != "eth1" {
		t.Errorf("name is %s", got)
	}
	events := watch(t, k)
	n.Run(t, "ip", "link", "set", "eth1", "down")
	wait(t, events, tc.EventLink)
	mustApply(t, k, tree()...)
	wait(t, events, tc.EventQdisc)
}

// A burst that the socket cannot hold is told as lost, and the watch goes on; also if what got lost was that the interface
// is another one.
func TestWatchTellsOfLoss(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	socket, err := k.subscribe()
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptInt(socket.GetFd(), unix.SOL_SOCKET, unix.SO_RCVBUF, 1); err != nil {
		t.Fatal(err)
	}
	mustApply(t, k, tree()...) // nobody reads yet
	events := k.follow(t.Context(), socket, 4711)
	wait(t, events, tc.EventLost)
	// The socket still holds next to nothing: of changes that follow one another some are lost again, and that is told.
	for _, change := range []string{"add", "del"} {
		n.Run(t, "ip", "addr", change, "198.51.100.1/32", "dev", "eth1")
		waitAny(t, events, tc.EventAddress, tc.EventLost)
	}
}

// Between a loss and the moment at which the socket was read empty the kernel drops what happens and does not say so: the loss is told
// again at the end of it, for whoever read the state at the first word.
func TestWatchTellsOfLossUntilTheSocketIsEmpty(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	socket, err := k.subscribe()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if err := unix.SetsockoptInt(socket.GetFd(), unix.SOL_SOCKET, unix.SO_RCVBUF, 1); err != nil {
		t.Fatal(err)
	}
	mustApply(t, k, tree()...)
	w := &watcher{name: "eth1", index: observe(t, k).Link.Index, find: k.index, ports: k.ports, ready: make(chan struct{}, 1)}
	next := func() (got []tc.EventKind) {
		w.receiveOnce(socket)
		for e, ok := w.take(); ok; e, ok = w.take() {
			got = append(got, e.Kind)
		}
		return got
	}
	if got := next(); !slices.Equal(got, []tc.EventKind{tc.EventLost}) {
		t.Fatalf("the first reading tells %v", got)
	}
	n.Run(t, "ip", "addr", "add", "198.51.100.1/32", "dev", "eth1")
	var got []tc.EventKind
	for !drained(socket) {
		got = append(got, next()...)
	}
	if slices.Contains(got, tc.EventAddress) {
		t.Errorf("the kernel kept the address in %v: the test proves nothing", got)
	}
	if len(got) < 2 || got[len(got)-1] != tc.EventLost {
		t.Errorf("what was read after the loss tells %v, want a loss at its end", got)
	}
	n.Run(t, "ip", "addr", "del", "198.51.100.1/32", "dev", "eth1")
	if got := next(); !slices.Equal(got, []tc.EventKind{tc.EventAddress}) {
		t.Errorf("once the socket was empty a change tells %v", got)
	}
}

func TestWatchEnds(t *testing.T) {
	n := kerneltest.New(t)
	idle := goleak.IgnoreCurrent()
	k := open(t, n)
	closed := func(events <-chan tc.Event) {
		t.Helper()
		select {
		case _, ok := <-events:
			if ok {
				t.Error("an event instead of the end")
			}
		case <-time.After(eventWait):
			t.Fatal("the channel is not closed")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	first, err := k.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	second := watch(t, k)
	cancel()
	closed(first)
	mustApply(t, k, tree()...)
	wait(t, second, tc.EventQdisc)
	third := watch(t, k)
	k.Close()
	closed(third)
	goleak.VerifyNone(t, idle)
}

// All methods at once, on one Kernel: nothing blocks, and no answer goes astray.
func TestConcurrentUse(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	mustApply(t, k, tree()...)
	link := observe(t, k).Link
	ctx, cancel := context.WithCancel(t.Context())
	events, err := k.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var workers, watcher sync.WaitGroup
	watcher.Go(func() {
		for range events {
		}
	})
	for range 2 {
		workers.Go(func() {
			for range 50 {
				if s, err := k.Stats(t.Context()); err != nil || len(s.Classes) != 3 {
					t.Errorf("stats: %v, %d classes", err, len(s.Classes))
				}
			}
		})
		workers.Go(func() {
			for i := range 50 {
				for _, r := range k.Apply(t.Context(), link, []tc.Op{change(class(0x10, tc.BitRate(i+1)*mbit)), replace(leaf(0x10))}) {
					if r.Err != nil {
						t.Errorf("%s: %v", r.Op, r.Err)
					}
				}
			}
		})
		workers.Go(func() {
			for range 20 {
				if _, err := k.Observe(t.Context()); err != nil && !errors.Is(err, errTorn) {
					t.Errorf("observe: %v", err)
				}
			}
		})
	}
	workers.Wait()
	cancel()
	watcher.Wait()
}

// TestFurtherSocketsAreNamed by who has them open: of two sockets of a process the kernel can give one only its number for a port.
func TestFurtherSocketsAreNamed(t *testing.T) {
	want := fmt.Sprintf("process %d (", os.Getpid())
	for range 2 {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			t.Fatal(err)
		}
		bound, err := unix.Getsockname(fd)
		if err != nil {
			t.Fatal(err)
		}
		var c changers
		if got := c.name(bound.(*unix.SockaddrNetlink).Pid); !strings.HasPrefix(got, want) {
			t.Errorf("port %d: %q, want %q...", bound.(*unix.SockaddrNetlink).Pid, got, want)
		}
	}
}

// TestChangersAreNamed by the number of their process and its program, where the port is one.
func TestChangersAreNamed(t *testing.T) {
	var c changers
	program, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	for port, want := range map[uint32]string{
		0: "", uint32(os.Getpid()): fmt.Sprintf("process %d (%s)", os.Getpid(), strings.TrimSpace(string(program))),
		4_059_467_257: "a program with several netlink sockets (perhaps another bulkshaper: `pgrep -a bulkshaper`; port 4059467257)", maxPID: fmt.Sprintf("process %d", maxPID),
	} {
		for range 2 {
			if got := c.name(port); got != want {
				t.Errorf("port %d: %q, want %q", port, got, want)
			}
		}
	}
}
