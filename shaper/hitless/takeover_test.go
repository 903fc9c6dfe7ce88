package hitless

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"bulkshaper/shaper"
	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
)

// styles are the ways in which people write filters: each at the pref that the kernel chooses, far behind ours; at prefs of their own ahead
// of ours; all in one list; the hosts in a hash table.
func styles() []string { return []string{"the kernel's prefs", "low prefs", "one list", "hash table"} }

// byHand is what somebody's tc script makes that wants what w wants: classes without leaves, or with such as tc numbers them, and a filter a
// destination, longer prefixes first.
func byHand(r *rand.Rand, w wanted, style string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("qdisc add dev eth1 root handle 1: htb default 100")
	classes := map[string]tc.Handle{}
	for i, c := range w.Plan.Classes {
		if c.Class.ID == tc.ControlClass {
			continue
		}
		classes[c.Name] = c.Class.ID
		line("class add dev eth1 parent 1: classid %s htb rate 9gbit burst 100k cburst 100k", c.Class.ID)
		if r.IntN(3) == 0 {
			line("qdisc add dev eth1 parent %s handle %x: pfifo limit 500", c.Class.ID, 0x8001+i) // from where the kernel numbers them, which may be anywhere by now
		}
	}
	destinations := slices.Clone(w.Plan.Destinations)
	slices.SortFunc(destinations, func(x, y policy.Destination) int { return y.Prefix.Bits() - x.Prefix.Bits() })
	if style == "the kernel's prefs" {
		slices.Reverse(destinations) // each comes ahead of those that are there
	}
	if style == "hash table" {
		line("filter add dev eth1 parent 1: protocol ip pref 10 handle 2: u32 divisor 256")
		line("filter add dev eth1 parent 1: protocol ip pref 10 u32 match ip dst 10.0.0.0/8 hashkey mask 0xff at 16 link 2:")
	}
	for i, d := range destinations {
		protocol, match, place := "ip", "ip", ""
		if d.Prefix.Addr().Is6() {
			protocol, match = "ipv6", "ip6"
		}
		family := b2i(d.Prefix.Addr().Is6())
		switch style {
		case "low prefs":
			place = fmt.Sprintf("pref %d ", 1+i)
		case "one list":
			place = fmt.Sprintf("pref %d ", 20+family)
		case "hash table":
			place = fmt.Sprintf("pref %d ", 10+family)
		}
		table := ""
		if inTable := netip.MustParsePrefix("10.0.0.0/8").Contains(d.Prefix.Addr()) && d.Prefix.IsSingleIP(); inTable && style == "hash table" {
			table = fmt.Sprintf("ht 2:%x: ", d.Prefix.Addr().As4()[3])
		}
		line("filter add dev eth1 parent 1: protocol %s %su32 %smatch %s dst %s flowid %s", protocol, place, table, match, d.Prefix, classes[d.Class])
	}
	return b.String()
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// handMade puts a tree made by hand in the place of whatever stands, while nothing is sent, and counts from there.
func (b *bed) handMade(script string) {
	b.t.Helper()
	_, _ = b.n.TryTC("qdisc", "del", "dev", "eth1", "root") // there may be none
	if err := b.n.TCBatch(script); err != nil {
		b.t.Fatal(err)
	}
	b.before = b.read()
}

// PROMISES.md: Somebody shapes the interface by hand-written tc
// PROMISES.md: A takeover of such a tree is cut off
//
// TestTakeover: under steady packets a tree that tc made by hand is taken over, for an inventory that is not quite what its filters say.
// Each packet is in the class of the one or the other, and the counters of the classes go on. Cut off after any operation, the next
// takeover goes on.
func TestTakeover(t *testing.T) {
	for i, style := range styles() {
		t.Run(style, func(t *testing.T) {
			r, _ := seeded(t)
			b := newBed(t)
			var c *cluster
			var old, w wanted
			var script string
			for tries := 0; ; tries++ {
				c = newCluster(r, 100)
				c.layout = []string{"hash", "list"}[(i+r.IntN(2))%2]
				old = b.want(c)
				script = byHand(r, old, style)
				b.handMade(script)
				for range max(1, 15-tries) {
					c.one([]string{"move", "role", "add", "remove", "address", "nest", "unnest"}[r.IntN(7)])
				}
				w = b.want(c)
				// A small class may have lost all that it had, the likelier the more is edited: then the tree is not taken over in place, which TestTakeoverNotInPlace of shaper/diff is about.
				changes, err := diff.Compute(b.observe(), w.Plan, diff.Options{Takeover: true})
				if err == nil && changes.Rebuild == "" {
					break
				}
				if err != nil || !strings.Contains(changes.Rebuild, "has been something else") || tries == 40 {
					t.Fatalf("not in place: %q, %v", changes.Rebuild, err)
				}
			}
			b.startSender(t, c.targets)
			b.pause(func() { b.judge("by hand", old) })
			cuts := 0
			for n, whole := r.IntN(cutStride), false; !whole; n += cutStride {
				b.pause(func() {
					b.judge("before", old, w)
					b.handMade(script)
				})
				what := fmt.Sprintf("cut after %d operations", n)
				whole = b.takeOver(&cutKernel{b.k, n}, w, n)
				b.pause(func() { b.judge(what, old, w) })
				b.restart()
				b.takeOver(b.k, w, -1)
				b.pause(func() {
					b.judge(what+", started again", old, w)
					b.round()
					b.judge(what+", afterwards", w)
				})
				if n := b.converge(w); n > 0 {
					t.Fatalf("%d operations afterwards, without leave to take over", n)
				}
				cuts++
			}
			b.arrived(w)
			t.Logf("layout %s, %d filters by hand, %d cuts, %d packets", c.layout, strings.Count(script, "filter"), cuts, b.packets)
		})
	}
}

// takeOver is one takeover, in place, to its end or to that of k after n operations; it tells whether it got to its end.
func (b *bed) takeOver(k shaper.Kernel, w wanted, n int) bool {
	b.t.Helper()
	state := b.observe()
	if owner := diff.Ownership(state); owner.Kind == diff.Foreign {
		changes, err := diff.Compute(state, w.Plan, diff.Options{Takeover: true})
		if err != nil || changes.Takeover == "" || changes.Rebuild != "" {
			b.t.Fatalf("not in place: %q, %v", changes.Rebuild, err)
		}
	}
	_, done, err := shaper.Bring(b.t.Context(), k, state, w.Plan, diff.Options{Takeover: true})
	if err != nil && (n < 0 || done < n) {
		b.t.Fatalf("after %d operations: %v", done, err)
	}
	if n < 0 {
		for _, f := range b.observe().Filters {
			if _, own := plan.OwnPref(f.Pref); !own {
				b.t.Fatalf("%s is left", f.Ident())
			}
		}
	}
	return err == nil
}
