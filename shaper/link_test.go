package shaper

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"bulkshaper/inventory"
	"bulkshaper/shaper/tc"
)

// rateOf is the rate of a class as it stands.
func (b *bench) rateOf(name string) tc.BitRate {
	b.t.Helper()
	stats, err := b.Stats(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, c := range b.Snapshot().Classes {
		for _, s := range stats.Classes {
			if c.Name == name && s.Class.ID == c.Class.ID {
				return s.Class.Rate
			}
		}
	}
	b.t.Fatalf("class %s does not stand", name)
	return 0
}

// TestLoopFollowsTheSpeed lets a link renegotiate. A speed that is not told (vyos took that for 10 Mbit/s) leaves the last rates in
// force, and is told.
func TestLoopFollowsTheSpeed(t *testing.T) {
	prepare := func(b *bench) {
		b.input.Config.LinkRate = 0
		link := testLink()
		link.Speed = 10_000_000_000
		b.kernel.SetLink(link)
	}
	run(t, prepare, func(b *bench) {
		speed := func(s tc.BitRate) {
			link := testLink()
			link.Speed = s
			b.kernel.SetLink(link)
			b.wait(time.Second)
		}
		rate := func(want tc.BitRate) {
			t.Helper()
			if got := b.rateOf("same-cabinet"); got != want {
				t.Errorf("rate %s, want %s", got, want)
			}
		}
		rate(8_000_000_000)
		speed(1_000_000_000)
		rate(800_000_000)
		b.shaped()
		lines := len(b.messages())
		speed(0)
		b.wait(10 * time.Minute)
		rate(800_000_000)
		s := b.Snapshot()
		if s.InSync || !strings.Contains(s.Reason, "does not tell its speed") || !strings.Contains(s.Reason, "link_rate") {
			t.Errorf("without a speed: in sync %v, %q", s.InSync, s.Reason)
		}
		if more := b.messages()[lines:]; len(more) != 1 {
			t.Errorf("log about a speed that is not told: %q", more)
		}
		speed(2_500_000_000)
		rate(2_000_000_000)
		b.shaped()
		if n := b.counts.get("repaired class") + b.counts.get("rebuilt"); n != 0 {
			t.Errorf("%d repairs and rebuilds for a link that renegotiates", n)
		}
	})
}

// TestLoopFollowsTheAddress moves the interface from one server's address to another's.
func TestLoopFollowsTheAddress(t *testing.T) {
	at := func(last ...byte) tc.Link {
		link := testLink()
		for _, n := range last {
			link.Addresses = append(link.Addresses, netip.AddrFrom4([4]byte{10, 0, 0, n}))
		}
		return link
	}
	prepare := func(b *bench) {
		b.input.Config.Node = ""
		b.kernel.SetLink(at(2))
	}
	run(t, prepare, func(b *bench) {
		move := func(want string, last ...byte) {
			t.Helper()
			b.kernel.SetLink(at(last...))
			b.wait(time.Second)
			if got := b.Snapshot().Node; got != want {
				t.Errorf("with addresses %v this is %s, want %s", last, got, want)
			}
		}
		move("hadoop02", 2)
		move("hadoop03", 3)
		b.shaped()
		move("hadoop03", 3, 200)
		b.shaped()
		move("hadoop03") // no address: what was planned stays
		if s := b.Snapshot(); s.InSync || !strings.Contains(s.Reason, "cannot be told") {
			t.Errorf("without an address: in sync %v, %q", s.InSync, s.Reason)
		}
		move("hadoop03", 3, 4)
		if s := b.Snapshot(); s.InSync || !strings.Contains(s.Reason, "several servers") {
			t.Errorf("with two servers' addresses: in sync %v, %q", s.InSync, s.Reason)
		}
		move("hadoop04", 4)
		b.shaped()
		if n := b.counts.get("repaired filter"); n != 0 {
			t.Errorf("%d repairs", n)
		}
	})
}

// TestLoopFollowsTheMTU changes limits and quanta in place.
func TestLoopFollowsTheMTU(t *testing.T) {
	run(t, nil, func(b *bench) {
		for _, mtu := range []int{9000, 1500, 65521} {
			link := testLink()
			link.MTU = mtu
			before := b.counts.get("change qdisc done") + b.counts.get("change class done")
			b.kernel.SetLink(link)
			b.wait(time.Second)
			b.shaped()
			if b.counts.get("change qdisc done")+b.counts.get("change class done") == before {
				t.Errorf("nothing changed for an MTU of %d", mtu)
			}
		}
		if b.counts.get("delete qdisc done")+b.counts.get("delete class done")+b.counts.get("rebuilt") != 0 {
			t.Error("something was deleted for it")
		}
	})
}

// TestLoopRefusesAShrunkInventory keeps the servers when a reload loses too many at once, and takes it when the rest is back.
func TestLoopRefusesAShrunkInventory(t *testing.T) {
	run(t, nil, func(b *bench) {
		next := benchInput(nil)
		next.Inventory = inventory.New(next.Inventory.Servers[:2], next.Inventory.Roles)
		b.inputs.set(next, nil)
		b.files <- struct{}{}
		b.wait(0)
		s := b.Snapshot()
		if s.LastReload.Result != ReloadFailure || !strings.Contains(strings.Join(s.LastReload.Problems, "\n"), "max_shrink") {
			t.Errorf("last reload %+v", s.LastReload)
		}
		if s.Servers != 6 || !s.InSync || b.counts.get("delete filter done") != 0 {
			t.Errorf("%d servers, in sync %v, %d filters deleted", s.Servers, s.InSync, b.counts.get("delete filter done"))
		}
		next.Config.MaxShrink = 1
		b.inputs.set(next, nil)
		b.files <- struct{}{}
		b.wait(0)
		b.shaped()
		if s := b.Snapshot(); s.Servers != 2 || s.LastReload.Result != ReloadSuccess {
			t.Errorf("with 100%% allowed: %d servers, %+v", s.Servers, s.LastReload)
		}
	})
}

// TestLoopTellsWhatWaitsForTheNextStart takes a config with another log level, and says that it is used later.
func TestLoopTellsWhatWaitsForTheNextStart(t *testing.T) {
	run(t, nil, func(b *bench) {
		next := benchInput(map[string]string{"hadoop02": "b1"})
		next.Config.Log.Level, next.Config.Rescan = "debug", time.Hour
		b.inputs.set(next, nil)
		b.files <- struct{}{}
		b.wait(0)
		b.shaped()
		told := b.logs.FilterMessage("used from the next start on").All()
		if len(told) != 1 || fmt.Sprint(told[0].ContextMap()["keys"]) != "[inventory.rescan log.level]" {
			t.Errorf("told: %+v", told)
		}
	})
}

// TestLoopWaitsForWhatTheLinkTellsLate starts before the link has a speed and an address, as at boot, and shapes when it has both.
func TestLoopWaitsForWhatTheLinkTellsLate(t *testing.T) {
	prepare := func(b *bench) { b.input.Config.LinkRate, b.input.Config.Node = 0, "" }
	run(t, prepare, func(b *bench) {
		b.wait(10 * time.Minute)
		if s := b.Snapshot(); s.InSync || len(b.kernel.Applied()) != 0 || b.notes.times("READY") != 0 {
			t.Errorf("without an address: in sync %v, %d operations", s.InSync, len(b.kernel.Applied()))
		}
		link := testLink()
		link.Addresses = []netip.Addr{netip.MustParseAddr("10.0.0.1")}
		b.kernel.SetLink(link)
		b.wait(time.Minute)
		if s := b.Snapshot(); s.InSync || !strings.Contains(s.Reason, "speed") || len(b.kernel.Applied()) != 0 {
			t.Errorf("without a speed: in sync %v, %q", s.InSync, s.Reason)
		}
		link.Speed = 1_000_000_000
		b.kernel.SetLink(link)
		b.wait(time.Second)
		b.shaped()
		if lines := b.messages(); b.notes.times("READY") != 1 || len(lines) != 3 {
			t.Errorf("READY %d times, log %q", b.notes.times("READY"), lines)
		}
	})
}
