package shaper

import (
	"cmp"
	"net/netip"
	"time"

	"bulkshaper/shaper/config"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/policy"
	"bulkshaper/shaper/tc"
)

// DefaultRule stands for destinations that no rule matches: their class is the default one. A rule that is called so is counted
// together with them.
const DefaultRule = "default"

// AckRule stands for the filters of ack_class, which are ahead of all rules. A rule that is called so is counted together with them.
const AckRule = "ack_class"

// RuleMatch is how many packets the filters of a rule matched.
type RuleMatch struct {
	Rule    string
	Packets uint64
}

// hits adds up what the kernel counts for each filter, by the rule that the filter is there for. The sums never fall: not when a
// filter or the whole tree is made again, nor when a destination moves to another rule. What a filter counts between the last
// reading and its end is lost.
//
// They begin at 0 with the process: if filters that it finds came with what they had counted, then the sum after a restart, which
// lacks those that are gone, would look to Prometheus like all of it sent once more.
type hits struct {
	last    tc.State   // the last reading
	plan    *plan.Plan // that wanted is of
	wanted  map[netip.Prefix]*policy.Destination
	packets map[string]uint64 // by rule
	counted bool              // the kernel was seen to count
	top     ranking
}

// filterKey tells filters apart over time: another prefix under the same handle is another filter. Those for acknowledgements, to
// whomever they are, have no destination.
type filterKey struct {
	handle      tc.U32Handle
	destination netip.Prefix
}

// follow makes p say from now on which rule a filter is there for.
func (h *hits) follow(p *plan.Plan) {
	if p == h.plan {
		return
	}
	h.plan, h.wanted = p, nil
}

// index makes wanted of the plan; it is not needed where the kernel does not count.
func (h *hits) index() {
	if h.plan == nil || h.wanted != nil {
		return
	}
	h.wanted = make(map[netip.Prefix]*policy.Destination, len(h.plan.Destinations))
	for i := range h.plan.Destinations {
		h.wanted[h.plan.Destinations[i].Prefix] = &h.plan.Destinations[i]
	}
}

// add takes in a reading, by the rules of the plan that was in force until then.
func (h *hits) add(state tc.State) { h.addAt(state, time.Now()) }

func (h *hits) addAt(state tc.State, at time.Time) {
	last := h.last
	h.last = tc.State{Link: tc.Link{Index: state.Link.Index}, Filters: state.Filters, Hits: state.Hits}
	first := last.Link.Index != state.Link.Index
	h.top.begin()
	defer h.top.end(at, first)
	if !first && len(state.Hits) > 0 && len(last.Hits) == len(state.Hits) && &last.Filters[0] == &state.Filters[0] {
		// The very list of the last reading: mostly a few of many filters have counted.
		for i, count := range state.Hits {
			if count != last.Hits[i] {
				if key, ok := keyOf(state.Filters[i]); ok {
					h.count(key, last.Hits[i], count)
				}
			}
		}
		return
	}
	now, before := hitsByFilter(state), hitsByFilter(last)
	h.counted = h.counted || len(now) > 0
	for key, count := range now {
		if !first {
			h.count(key, before[key], count)
		}
	}
}

// count adds what a filter counted from one reading to the next.
func (h *hits) count(key filterKey, before, now uint64) {
	if now >= before {
		now -= before
	} // else it is a new one in the place of the old
	if h.packets == nil {
		h.packets = map[string]uint64{}
	}
	if !key.destination.IsValid() {
		h.packets[AckRule] += now
		return
	}
	h.index()
	d := h.wanted[key.destination]
	if d == nil {
		return
	}
	h.packets[cmp.Or(d.Rule, DefaultRule)] += now
	h.top.add(d, now)
}

// keyOf is what f is known by, if it is one of ours for a destination or for acknowledgements.
func keyOf(f tc.Filter) (filterKey, bool) {
	if _, own := plan.OwnPref(f.Pref); !own || !f.IsNode() {
		return filterKey{}, false
	}
	if plan.IsAckPref(f.Pref) {
		return filterKey{handle: f.Handle}, true
	}
	destination, ok := f.Destination()
	return filterKey{f.Handle, destination}, ok
}

// hitsByFilter is what the filters of a reading counted. Of those with one key it is the sum.
func hitsByFilter(state tc.State) map[filterKey]uint64 {
	if state.Hits == nil {
		return nil
	}
	hits := make(map[filterKey]uint64, len(state.Hits))
	for i, f := range state.Filters {
		if key, ok := keyOf(f); ok {
			hits[key] += state.Hits[i]
		}
	}
	return hits
}

// matches are the sums of the filters of acknowledgements where a config has such, of its rules in their order, and of what no rule
// matches; nil where the kernel does not count.
func (h *hits) matches(cfg *config.Config) []RuleMatch {
	if !h.counted {
		return nil
	}
	var names []string
	if cfg.AckClass != "" {
		names = append(names, AckRule)
	}
	for _, r := range cfg.Rules {
		names = append(names, r.Name)
	}
	var all []RuleMatch
	seen := map[string]bool{}
	for _, name := range append(names, DefaultRule) {
		if !seen[name] {
			seen[name] = true
			all = append(all, RuleMatch{name, h.packets[name]})
		}
	}
	return all
}

// countHits adds a reading of the filters and publishes the sums.
func (l *Loop) countHits(state tc.State) {
	l.hits.add(state)
	l.publish(func(s *Snapshot) { s.RuleMatches, s.Top = l.hits.matches(l.input.Config), l.hits.top.last })
}
