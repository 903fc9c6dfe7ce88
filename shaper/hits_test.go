package shaper

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"bulkshaper/shaper/config"
	"bulkshaper/shaper/fakekernel"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
)

func host(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 32)
}

// counted is a filter with what it has matched.
type counted struct {
	tc.Filter
	packets uint64
}

// counting is a node of layout list that has counted.
func counting(node uint32, destination netip.Prefix, packets uint64) counted {
	return counted{tc.Filter{Parent: tc.MakeHandle(1, 0), Pref: plan.DestinationPref(destination), Protocol: tc.ProtocolIP, Kind: tc.KindU32,
		Handle: tc.MakeU32Handle(0x800, 0, node), Sel: tc.MatchDestination(destination)}, packets}
}

// acknowledging is a filter of ack_class that has counted.
func acknowledging(node uint32, pref uint16, packets uint64) counted {
	f := counting(node, host(0), packets)
	f.Pref, f.Sel = pref, tc.Selector{Flags: tc.U32Terminal, Keys: []tc.Key{{Mask: 0x00ff0000, Value: 6 << 16, Off: 8}}}
	return f
}

// ruled is a plan that gives destinations to rules.
func ruled(rules ...string) *plan.Plan {
	p := &plan.Plan{}
	for i, rule := range rules {
		p.Destinations = append(p.Destinations, policy.Destination{Prefix: host(i), Rule: rule})
	}
	return p
}

func reading(link int, filters ...counted) tc.State {
	state := tc.State{Link: tc.Link{Index: link}}
	for _, f := range filters {
		state.Filters, state.Hits = append(state.Filters, f.Filter), append(state.Hits, f.packets)
	}
	return state
}

func TestHits(t *testing.T) {
	p := ruled("bulk", "bulk", "")
	type step struct {
		state tc.State
		plan  *plan.Plan
	}
	for name, c := range map[string]struct {
		steps []step
		want  string // of the rules bulk and other
	}{
		"found and not counted on":  {[]step{{reading(1, counting(1, host(0), 500)), nil}, {reading(1, counting(1, host(0), 500)), p}}, "[{bulk 0} {other 0} {default 0}]"},
		"found and counted on":      {[]step{{reading(1, counting(1, host(0), 500)), nil}, {reading(1, counting(1, host(0), 507)), p}}, "[{bulk 7} {other 0} {default 0}]"},
		"made since":                {[]step{{reading(1), nil}, {reading(1, counting(1, host(0), 5), counting(2, host(1), 6), counting(3, host(2), 7)), p}}, "[{bulk 11} {other 0} {default 7}]"},
		"made again, has less":      {[]step{{reading(1), p}, {reading(1, counting(1, host(0), 5)), p}, {reading(1, counting(1, host(0), 3)), p}}, "[{bulk 8} {other 0} {default 0}]"},
		"made again elsewhere":      {[]step{{reading(1), p}, {reading(1, counting(1, host(0), 5)), p}, {reading(1, counting(9, host(0), 6)), p}}, "[{bulk 11} {other 0} {default 0}]"},
		"gone for a while":          {[]step{{reading(1), p}, {reading(1, counting(1, host(0), 5)), p}, {reading(1), p}, {reading(1, counting(1, host(0), 6)), p}}, "[{bulk 11} {other 0} {default 0}]"},
		"node taken by another":     {[]step{{reading(1), p}, {reading(1, counting(1, host(0), 5)), p}, {reading(1, counting(1, host(2), 6)), p}}, "[{bulk 5} {other 0} {default 6}]"},
		"moved to another rule":     {[]step{{reading(1), p}, {reading(1, counting(1, host(0), 5)), p}, {reading(1, counting(1, host(0), 8)), ruled("other")}}, "[{bulk 5} {other 3} {default 0}]"},
		"no longer in the plan":     {[]step{{reading(1), p}, {reading(1, counting(1, host(2), 5)), p}, {reading(1, counting(1, host(2), 9)), ruled("other")}}, "[{bulk 0} {other 0} {default 5}]"},
		"another interface":         {[]step{{reading(1), p}, {reading(1, counting(1, host(0), 5)), p}, {reading(2, counting(1, host(0), 90)), p}, {reading(2, counting(1, host(0), 91)), p}}, "[{bulk 6} {other 0} {default 0}]"},
		"the kernel does not count": {[]step{{reading(1), p}, {tc.State{Link: tc.Link{Index: 1}, Filters: reading(1, counting(1, host(0), 5)).Filters}, p}}, "[]"},
		"acknowledgements":          {[]step{{reading(1), p}, {reading(1, acknowledging(1, plan.PrefAckIPv4, 5), acknowledging(2, plan.PrefAckIPv6, 6), acknowledging(3, plan.PrefAckTagged+1, 70), counting(4, host(0), 1)), p}}, "[{ack_class 81} {bulk 1} {other 0} {default 0}]"},
		"acks made again":           {[]step{{reading(1), p}, {reading(1, acknowledging(1, plan.PrefAckIPv4, 5)), p}, {reading(1), p}, {reading(1, acknowledging(1, plan.PrefAckIPv4, 2)), p}}, "[{ack_class 7} {bulk 0} {other 0} {default 0}]"},
		"acks of a node taken over": {[]step{{reading(1), p}, {reading(1, counting(1, host(0), 5)), p}, {reading(1, acknowledging(1, plan.PrefAckIPv4, 6)), p}}, "[{ack_class 6} {bulk 5} {other 0} {default 0}]"},
		"control is of no rule":     {[]step{{reading(1), p}, {reading(1, acknowledging(1, plan.PrefARP, 5), acknowledging(2, plan.PrefNeighbour, 5)), p}}, "[]"},
		"a stranger's filter":       {[]step{{reading(1), p}, {reading(1, func() counted { f := counting(1, host(0), 9); f.Pref = 7; return f }()), p}}, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			var h hits
			for _, s := range c.steps {
				if s.plan != nil {
					h.follow(s.plan)
				}
				h.add(s.state)
			}
			cfg := &config.Config{Rules: []config.Rule{{Name: "bulk"}, {Name: "other"}}}
			if strings.Contains(name, "ack") {
				cfg.AckClass = "acks"
			}
			if got := fmt.Sprint(h.matches(cfg)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// A rule that is called default, or one name given twice, makes no second entry.
func TestHitsNameEachRuleOnce(t *testing.T) {
	var h hits
	h.follow(ruled("default", ""))
	h.add(reading(1))
	h.add(reading(1, counting(1, host(0), 5), counting(2, host(1), 6)))
	rules := []config.Rule{{Name: "default"}, {Name: "a"}, {Name: AckRule}, {Name: "a"}}
	if got := h.matches(&config.Config{AckClass: "acks", Rules: rules}); !slices.Equal(got, []RuleMatch{{AckRule, 0}, {"default", 11}, {"a", 0}}) {
		t.Errorf("got %v", got)
	}
}

// TestHitsProperty: filters count, move between rules, are deleted and made again in any order. The sums never fall and never
// hold more than was sent; and they hold all of it where each filter that went had been read after its last packet.
func TestHitsProperty(t *testing.T) {
	const hosts = 4
	rule := rapid.SampledFrom([]string{"a", "b", ""})
	rapid.Check(t, func(t *rapid.T) {
		rules := rapid.SliceOfN(rule, hosts, hosts)
		p := ruled(rules.Draw(t, "rules")...)
		standing, next := map[int]*counted{}, uint32(1)
		sent := map[string]uint64{} // by rule
		exact := true
		var h hits
		dirty := map[int]bool{} // counted since the last reading
		before := map[string]uint64{}
		var last tc.State
		observe := func() {
			var filters []counted
			for _, i := range slices.Sorted(maps.Keys(standing)) {
				filters = append(filters, *standing[i])
			}
			state := reading(1, filters...)
			if reflect.DeepEqual(state.Filters, last.Filters) {
				state.Filters = last.Filters // as the kernel package does
			}
			last = state
			h.add(state)
			h.follow(p)
			clear(dirty)
			for name, sum := range h.packets {
				if sum < before[name] {
					t.Fatalf("the sum of %s fell from %d to %d", name, before[name], sum)
				}
				before[name] = sum
			}
		}
		observe()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			i := rapid.IntRange(0, hosts-1).Draw(t, "host")
			f := standing[i]
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				observe()
			case 1: // a packet
				if f != nil {
					n := rapid.Uint64Range(1, 9).Draw(t, "packets")
					f.packets += n
					sent[ruleOf(p, i)] += n
					dirty[i] = true
				}
			case 2: // it goes
				exact = exact && !dirty[i]
				delete(standing, i)
				delete(dirty, i)
			case 3: // it comes, under another handle
				if f == nil {
					made := counting(next, host(i), 0)
					standing[i] = &made
					next++
				}
			case 4: // another plan, which is followed from the next reading on
				p = ruled(rules.Draw(t, "rules")...)
				observe()
			}
		}
		observe()
		for name, n := range sent {
			if got := h.packets[name]; got > n || exact && got != n {
				t.Errorf("rule %s: %d, sent %d, exact %t", name, got, n, exact)
			}
		}
	})
}

func ruleOf(p *plan.Plan, i int) string {
	if p.Destinations[i].Rule == "" {
		return DefaultRule
	}
	return p.Destinations[i].Rule
}

// TestLoopCountsHits: what the fake kernel counts comes out by rule, after the next read-back, whatever happens to filter, tree and link.
func TestLoopCountsHits(t *testing.T) {
	counting := func(b *bench) {
		b.kernel = fakekernel.New(testLink(), fakekernel.WithFilterCounters())
		b.Loop.Kernel = b.kernel
	}
	run(t, counting, func(b *bench) {
		want := func(step, sums string) {
			b.t.Helper()
			b.wait(31 * time.Second)
			if got := fmt.Sprint(b.Snapshot().RuleMatches); got != sums {
				b.t.Errorf("%s: %s, want %s", step, got, sums)
			}
		}
		send := func(i int, packets uint64) { b.kernel.Send(host(i).Addr(), packets) }
		// hadoop01 is this node, in b1 with 3 and 5; 0, 2 and 4 are in b0.
		want("at the start", "[{same-cabinet 0} {priority-role 0} {cross-cabinet 0} {default 0}]")
		send(3, 10)
		send(2, 7)
		send(99, 1000) // nobody's filter
		want("counted", "[{same-cabinet 10} {priority-role 0} {cross-cabinet 7} {default 0}]")

		send(2, 1) // before the move: still of the old rule
		b.inputs.set(benchInput(map[string]string{"hadoop02": "b1"}), nil)
		b.files <- struct{}{}
		b.wait(0)
		send(2, 5)
		want("moved", "[{same-cabinet 15} {priority-role 0} {cross-cabinet 8} {default 0}]")

		b.kernel.TakeRoot(tc.Qdisc{Kind: "pfifo", Handle: tc.MakeHandle(0x8001, 0)})
		b.kernel.Emit(tc.Event{Kind: tc.EventQdisc})
		b.wait(time.Minute)
		b.shaped()
		send(2, 2)
		want("root taken back", "[{same-cabinet 17} {priority-role 0} {cross-cabinet 8} {default 0}]")

		b.kernel.RemoveLink()
		b.wait(time.Minute)
		link := testLink()
		link.Index = 9
		b.kernel.SetLink(link)
		b.wait(time.Minute)
		b.shaped()
		send(4, 3)
		want("another link", "[{same-cabinet 17} {priority-role 0} {cross-cabinet 11} {default 0}]")
	})
	run(t, nil, func(b *bench) {
		b.kernel.Send(host(3).Addr(), 10)
		b.wait(time.Minute)
		if got := b.Snapshot().RuleMatches; got != nil {
			b.t.Errorf("of a kernel that does not count: %v", got)
		}
	})
}
