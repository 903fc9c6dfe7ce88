package shaper

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bulkshaper/inventory"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/tc"
)

func TestLoopShapesAndSaysSoOnce(t *testing.T) {
	run(t, nil, func(b *bench) {
		b.shaped()
		if b.notes.times("READY") != 1 || len(b.notes.list()) != 2 {
			t.Errorf("told: %q", b.notes.list())
		}
		b.wait(10 * time.Minute)
		if lines := b.messages(); len(lines) != 1 || lines[0] != "shaping changed" {
			t.Errorf("log after ten minutes without an event: %q", lines)
		}
		if n := b.counts.get("applied"); n != 1 {
			t.Errorf("%d runs of operations", n)
		}
		if age := time.Since(b.Heartbeat()); age > 2*beat {
			t.Errorf("the loop came around %s ago", age)
		}
	})
}

func TestLoopFollowsAnEdit(t *testing.T) {
	run(t, nil, func(b *bench) {
		next := benchInput(map[string]string{"hadoop02": "b1"})
		b.inputs.set(next, nil)
		b.files <- struct{}{}
		b.wait(0)
		b.shaped()
		if n := b.counts.get("change filter done"); n != 1 {
			t.Errorf("%d filters changed for one server", n)
		}
		if lines := b.messages(); len(lines) != 2 {
			t.Errorf("log: %q", lines)
		}
		if r := b.Snapshot().LastReload; r.Result != ReloadSuccess || r.Operations != 1 {
			t.Errorf("last reload: %+v", r)
		}
		b.files <- struct{}{}
		b.wait(0)
		if b.counts.get("reload unchanged") != 1 || len(b.messages()) != 2 {
			t.Errorf("a reload without a change: %v, log %q", b.counts.n, b.messages())
		}
	})
}

func TestLoopKeepsTheLastGoodInput(t *testing.T) {
	lost := benchInput(nil)
	lost.Inventory = inventory.New(lost.Inventory.Servers[:2], lost.Inventory.Roles)
	strange := benchInput(nil)
	strange.Inventory = inventory.New(append(strange.Inventory.Servers[:1:1], strange.Inventory.Servers[2:]...), strange.Inventory.Roles)
	moved := benchInput(nil)
	moved.Config.Interface = "eth2"
	for name, c := range map[string]struct {
		input Input
		err   error
		says  string
	}{
		"broken":          {Input{}, errBroken, "roles.json:3: no value; write one"},
		"shrunk":          {lost, nil, "max_shrink"},
		"node unknown":    {strange, nil, "hadoop01"},
		"other interface": {moved, nil, "restart"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, nil, func(b *bench) {
				good := b.inputs.input
				b.inputs.set(c.input, c.err)
				for range 3 { // the same problem again is not news
					b.files <- struct{}{}
					b.wait(time.Minute)
				}
				if s := b.Snapshot(); !s.InSync || s.LastReload.Result != ReloadFailure || !strings.Contains(strings.Join(s.LastReload.Problems, "\n"), c.says) {
					t.Errorf("in sync %v, last reload %+v", s.InSync, s.LastReload)
				}
				if b.counts.get("applied") != 1 || b.counts.get("reload failure") != 3 {
					t.Errorf("counted %v", b.counts.n)
				}
				if lines := b.messages(); len(lines) != 2 {
					t.Errorf("log: %q", lines)
				}
				b.inputs.set(good, nil)
				b.files <- struct{}{}
				b.wait(0)
				b.shaped()
				if s := b.Snapshot(); s.LastReload.Result != ReloadSuccess {
					t.Errorf("last reload %+v", s.LastReload)
				}
			})
		})
	}
}

func TestLoopReloadsOnRequestInOrder(t *testing.T) {
	run(t, nil, func(b *bench) {
		b.inputs.takes = time.Second
		b.hup <- struct{}{}
		b.wait(500 * time.Millisecond)
		b.hup <- struct{}{} // during the first
		b.wait(5 * time.Second)
		if n := b.logs.FilterMessageSnippet("SIGHUP").Len(); n != 1 {
			t.Errorf("that nothing changed was said %d times", n)
		}
		said := b.notes.list()[1:]
		if b.inputs.loads != 2 || said[len(said)-1] != "READY" || b.notes.times("RELOADING") != 2 {
			t.Errorf("%d readings, told %q", b.inputs.loads, said)
		}
	})
}

func TestLoopRepairsAtOnce(t *testing.T) {
	for name, meddle := range map[string]func(*bench) tc.Op{
		"class changed": func(b *bench) tc.Op {
			c := b.desired.Plan.Classes[0].Class
			c.Rate /= 2
			return tc.Op{Verb: tc.Change, Object: c}
		},
		"root gone": func(b *bench) tc.Op { return tc.Op{Verb: tc.Delete, Object: b.desired.Plan.Root} },
		"filter gone": func(b *bench) tc.Op {
			state, err := b.kernel.Observe(b.t.Context())
			if err != nil {
				b.t.Fatal(err)
			}
			for _, f := range state.Filters {
				if d, ok := f.Destination(); ok && f.IsNode() && d == netip.MustParsePrefix("10.0.0.3/32") {
					return tc.Op{Verb: tc.Delete, Object: f}
				}
			}
			b.t.Fatal("no filter for 10.0.0.3")
			return tc.Op{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, nil, func(b *bench) {
				for _, r := range b.kernel.Meddle(meddle(b)) {
					if r.Err != nil {
						t.Fatal(r.Err)
					}
				}
				b.wait(20 * time.Millisecond)
				b.shaped()
				if len(b.counts.repairs()) != 1 || b.Snapshot().Contended {
					t.Errorf("repairs %v, contended %v", b.counts.n, b.Snapshot().Contended)
				}
			})
		})
	}
}

// A rebuild is a root made anew on a link that was shaped: a wish that the kernel cannot fulfil in place, or another hand. The first
// installation is none, nor is that on a new link, nor one that did not succeed.
func TestLoopCountsRebuilds(t *testing.T) {
	run(t, nil, func(b *bench) {
		want := func(step string, n int) {
			b.t.Helper()
			b.wait(time.Hour)
			b.shaped()
			if got := b.counts.get("rebuilt"); got != n {
				b.t.Errorf("%s: %d rebuilds, want %d", step, got, n)
			}
		}
		want("installed", 0)
		b.kernel.Meddle(tc.Op{Verb: tc.Delete, Object: b.desired.Plan.Root})
		want("root deleted by another hand", 1)
		b.kernel.TakeRoot(tc.Qdisc{Kind: "pfifo", Handle: tc.MakeHandle(0x8001, 0)})
		want("root taken", 2)
		b.kernel.Meddle(tc.Op{Verb: tc.Delete, Object: b.desired.Plan.Root})
		b.kernel.Fail(0, unix.ENOMEM)
		want("root deleted, and the kernel does not make it at once", 3)
		other := benchInput(nil)
		other.Config.DefaultClass = "same-cabinet"
		b.inputs.set(other, nil)
		b.files <- struct{}{}
		want("another default class", 4)
		link := testLink()
		link.Index = 9
		b.kernel.RemoveLink()
		b.wait(time.Second)
		b.kernel.SetLink(link)
		want("another link", 4)
	})
}

func TestLoopSpacesOutContendedRepairs(t *testing.T) {
	run(t, nil, func(b *bench) {
		began := time.Now()
		for range 200 { // a root taken every second
			b.kernel.TakeRoot(tc.Qdisc{Handle: tc.MakeHandle(0x42, 0), Parent: tc.Root, Kind: tc.KindHTB})
			b.wait(time.Second)
		}
		n := len(b.counts.repairs())
		if n < 6 || n > 12 {
			t.Errorf("%d repairs in 200 s", n)
		}
		gaps := b.counts.repairs()
		if first, last := gaps[1].Sub(gaps[0]), gaps[n-1].Sub(gaps[n-2]); first > 2*time.Second || last < 30*time.Second {
			t.Errorf("first gap %s, last %s", first, last)
		}
		if fifth := gaps[4].Sub(gaps[3]); fifth < time.Second || fifth > 3*time.Second {
			t.Errorf("the first spaced repair came after %s", fifth)
		}
		if !b.Snapshot().Contended {
			t.Error("not contended")
		}
		if lines := b.messages(); len(lines) > 30 {
			t.Errorf("%d lines in the log for %s of it", len(lines), time.Since(began))
		}
		b.wait(5 * time.Minute)
		b.shaped()
		if b.Snapshot().Contended {
			t.Error("contended for ever")
		}
	})
}

// PROMISES.md: An operation on the kernel fails
func TestLoopGoesOnAfterAnyFailure(t *testing.T) {
	for _, errno := range []error{unix.EBUSY, unix.ENOBUFS, unix.ENOENT, unix.ENODEV, unix.EINVAL} {
		t.Run(errno.Error(), func(t *testing.T) {
			total := 0
			run(t, nil, func(b *bench) { total = len(b.kernel.Applied()) })
			for n := range total {
				run(t, func(b *bench) { b.kernel.Fail(n, errno) }, func(b *bench) {
					b.wait(time.Minute)
					b.shaped()
				})
			}
		})
	}
}

func TestLoopEndsAtAForeignRoot(t *testing.T) {
	run(t, func(b *bench) {
		b.kernel.TakeRoot(tc.Qdisc{Handle: tc.MakeHandle(0x42, 0), Parent: tc.Root, Kind: tc.KindHTB})
	}, func(b *bench) {
		var foreign *diff.ForeignRootError
		err := <-b.done
		if !errors.As(err, &foreign) {
			t.Errorf("the loop ended with %v", err)
		}
		if len(b.kernel.Applied()) != 0 {
			t.Errorf("operations on a foreign root: %v", b.kernel.Applied())
		}
		b.done <- nil
	})
}

func TestLoopWaitsForTheInterface(t *testing.T) {
	run(t, func(b *bench) { b.kernel.RemoveLink() }, func(b *bench) {
		b.wait(time.Hour)
		if lines := b.messages(); len(lines) != 1 {
			t.Errorf("log of an hour without the interface: %q", lines)
		}
		if b.notes.times("READY") != 0 || b.Snapshot().InterfaceUp {
			t.Error("ready without an interface")
		}
		b.kernel.SetLink(testLink())
		b.wait(20 * time.Millisecond)
		b.shaped()
		if b.Snapshot().InterfaceGone {
			t.Error("gone, and shaped")
		}
		link := testLink()
		link.Index = 9
		b.kernel.RemoveLink()
		b.wait(time.Second)
		if !b.Snapshot().InterfaceGone {
			t.Error("not gone")
		}
		b.kernel.SetLink(link)
		b.wait(20 * time.Millisecond)
		b.shaped()
		if n := len(b.counts.repairs()); n != 0 || b.notes.times("READY") != 1 {
			t.Errorf("%d repairs counted for a new link, told %q", n, b.notes.list())
		}
	})
}

func TestLoopSurvivesLostEvents(t *testing.T) {
	run(t, nil, func(b *bench) {
		b.kernel.FailObserve(unix.ENOBUFS, unix.ENOBUFS)
		b.kernel.Emit(tc.Event{Kind: tc.EventLost})
		b.wait(20 * time.Millisecond)
		if b.Snapshot().InSync {
			t.Error("in sync although the kernel could not be read")
		}
		b.wait(5 * time.Second)
		b.shaped()
	})
}

func TestLoopLetsAClassDrain(t *testing.T) {
	run(t, nil, func(b *bench) {
		b.kernel.SetBacklog(tc.MakeHandle(1, 0x30), 40)
		next := benchInput(nil)
		next.Config.Classes = append(next.Config.Classes[:2:2], next.Config.Classes[3:]...)
		next.Config.Rules = append(next.Config.Rules[:1:1], next.Config.Rules[2:]...)
		b.inputs.set(next, nil)
		b.files <- struct{}{}
		b.wait(time.Second)
		if n := b.counts.get("delete class done"); n != 0 {
			t.Errorf("%d classes deleted with packets in them", n)
		}
		b.kernel.SetBacklog(tc.MakeHandle(1, 0x30), 0)
		b.wait(time.Second)
		b.shaped()
		if n := b.counts.get("delete class done"); n != 1 {
			t.Errorf("%d classes deleted", n)
		}
		if len(b.counts.repairs()) != 0 {
			t.Error("a wished deletion counted as repair")
		}
	})
}

// TestLoopMovesABusyClass gives a class with packets in it another parent: it is not held back, since it is made again.
func TestLoopMovesABusyClass(t *testing.T) {
	run(t, nil, func(b *bench) {
		b.kernel.SetBacklog(tc.MakeHandle(1, 0x30), 40)
		next := benchInput(nil)
		classes := append([]config.Class(nil), next.Config.Classes...)
		for i := range classes {
			if classes[i].Name == "priority-role" {
				classes[i].Parent = "top"
			}
		}
		top := classes[0]
		top.Name, top.ID, top.Rate = "top", 0x5, config.Rate{Percent: 50}
		next.Config.Classes = append(classes, top)
		b.inputs.set(next, nil)
		b.files <- struct{}{}
		b.wait(time.Second)
		b.shaped()
	})
}

// TestLoopWaitsForARootThatIsBeingMade meets the root of another process of ours before that has its mark.
func TestLoopWaitsForARootThatIsBeingMade(t *testing.T) {
	run(t, func(b *bench) {
		b.kernel.TakeRoot(tc.Qdisc{Handle: tc.MakeHandle(1, 0), Parent: tc.Root, Kind: tc.KindHTB, HTB: tc.HTB{Default: 0x100, R2Q: 10}})
		go func() {
			time.Sleep(50 * time.Millisecond)
			class := tc.Class{ID: tc.ControlClass, Parent: tc.Root, Rate: 8000, Ceil: 8000, Buffer: 1000, Cbuffer: 1000, Quantum: 2000}
			b.kernel.Meddle(tc.Op{Verb: tc.Add, Object: class},
				tc.Op{Verb: tc.Add, Object: tc.Qdisc{Handle: tc.LeafHandle(tc.ControlMinor), Parent: class.ID, Kind: tc.KindPFIFO, Limit: 10}})
		}()
	}, func(b *bench) {
		b.wait(time.Second)
		b.shaped()
	})
}

// PROMISES.md: The daemon is told to stop in the middle of its work
//
// TestLoopFinishesThePassItIsIn: half of a tree would stand until the next start.
func TestLoopFinishesThePassItIsIn(t *testing.T) {
	run(t, func(b *bench) {
		b.kernel.Hook(func(op tc.Op) error {
			if op.Object.Type() == "class" {
				b.end()
			}
			return nil
		})
	}, func(b *bench) {
		if err := <-b.done; err != nil {
			t.Errorf("the loop ended with %v", err)
		}
		b.shaped()
		if lines := b.messages(); len(lines) != 1 || lines[0] != "shaping changed" {
			t.Errorf("log: %q", lines)
		}
		b.done <- nil
	})
}

// TestHeartbeatIsMonotonic, so that its age is right after the machine's clock was set: by the wall clock an hour's jump would be a loop
// that hangs, and a systemd that ends it. (The clock of a synctest bubble has no monotonic reading, so this is outside of one.)
// PROMISES.md: The machine's clock is set
func TestHeartbeatIsMonotonic(t *testing.T) {
	l := New(Options{}, benchInput(nil))
	l.heartbeat.Store(int64(time.Minute))
	if text := l.Heartbeat().String(); !strings.Contains(text, " m=+") {
		t.Errorf("the heartbeat %s has no monotonic reading", text)
	}
}

// PROMISES.md: An operation on the kernel fails
//
// TestLoopWithoutPermission ends at the first contact; one that loses its privilege while it runs says so once, and goes on trying.
func TestLoopWithoutPermission(t *testing.T) {
	refused := fmt.Errorf("%w: %w", tc.ErrPermission, unix.EPERM)
	run(t, func(b *bench) { b.kernel.Fail(0, refused) }, func(b *bench) {
		if err := <-b.done; !errors.Is(err, tc.ErrPermission) {
			t.Errorf("the loop ended with %v", err)
		}
		b.done <- nil
	})
	run(t, nil, func(b *bench) {
		b.kernel.Meddle(tc.Op{Verb: tc.Delete, Object: b.desired.Plan.Root})
		b.kernel.Hook(func(tc.Op) error { return refused })
		b.wait(10 * time.Minute)
		if s := b.Snapshot(); s.InSync || !strings.Contains(s.Reason, "CAP_NET_ADMIN") {
			t.Errorf("in sync %v, %q", s.InSync, s.Reason)
		}
		if lines := b.messages(); len(lines) != 2 {
			t.Errorf("log: %q", lines)
		}
		b.kernel.Hook(nil)
		b.wait(time.Minute)
		b.shaped()
	})
}
