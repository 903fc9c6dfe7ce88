package explain

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"bulkshaper/cmd/bulkshaper/view"
	"bulkshaper/shaper"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
)

// leading is what stands where filters lead prefixes to the class 1:20.
func leading(prefixes ...string) *standing {
	s := &standing{names: map[tc.Handle]string{tc.MakeHandle(1, 0x20): "cross-cabinet"}}
	for i, text := range prefixes {
		p := netip.MustParsePrefix(text)
		s.state.Filters = append(s.state.Filters, tc.Filter{Kind: tc.KindU32, Protocol: tc.ProtocolIP, Pref: plan.DestinationPref(p), Handle: tc.MakeU32Handle(0x800, 0, uint32(i+1)),
			ClassID: tc.MakeHandle(1, 0x20), Sel: tc.MatchDestination(p)})
	}
	return s
}

// TestMembersByTheDaemon: of a prefix what the daemon holds for that, and not for a longer one that begins at the same address; what it wants in
// another class; and a bound, beyond which no numbers of the class are told.
func TestMembersByTheDaemon(t *testing.T) {
	t.Parallel()
	asked := 0
	find := func(_ context.Context, dest string) (shaper.Finding, error) {
		asked++
		switch dest {
		case "10.244.0.0/16":
			return shaper.Finding{Answers: []shaper.Answer{{Address: "10.244.0.0", Server: "longer", Class: "default", ClassID: "1:100", Roles: []string{"app"}}}, Matches: []shaper.Destination{
				{Prefix: "10.244.0.0/16", Server: "whole", Rule: "cross-cabinet", Class: "cross-cabinet", ClassID: "1:20"}}}, nil
		case "10.1.0.1":
			return shaper.Finding{Answers: []shaper.Answer{{Address: dest, Server: "moved", Class: "same-cabinet", ClassID: "1:10"}}}, nil
		}
		return shaper.Finding{Answers: []shaper.Answer{{Address: dest, Server: "s" + dest, Class: "cross-cabinet", ClassID: "1:20", Rule: "cross-cabinet"}}}, nil
	}
	o := RestOptions{Find: find, Status: &shaper.Status{Classes: []shaper.ClassStatus{{ClassID: "1:20", Rate: 5}}}}
	m, err := (&Rest{leading("10.1.0.1/32", "10.1.0.2/32", "10.244.0.0/16"), o}).MembersOf(t.Context(), "1:20")
	if err != nil || len(m.Destinations) != 3 || m.Rate != 5 || m.Shared.Servers != 3 {
		t.Fatalf("%v, %+v", err, m)
	}
	if d := m.Destinations[2]; d.Server != "whole" || len(d.Roles) != 0 || d.Rule != "cross-cabinet" {
		t.Errorf("of the prefix: %+v", d)
	}
	want := view.Disagree{Address: "10.1.0.1", Server: "moved", Wanted: "same-cabinet 1:10", Kernel: "cross-cabinet 1:20"}
	if d := m.Checked.Disagree; len(d) != 1 || d[0] != want {
		t.Errorf("disagree: %+v", d)
	}
	var many []string
	for i := range mostNamed + 50 {
		many = append(many, fmt.Sprintf("10.2.%d.%d/32", i>>8, i&255))
	}
	asked = 0
	m, err = (&Rest{leading(many...), o}).MembersOf(t.Context(), "cross-cabinet")
	if err != nil || asked != mostNamed || len(m.Destinations) != mostNamed+50 || len(m.Rules) != 0 || m.Shared.Servers != 0 || !strings.Contains(m.Unplanned, "the first 200 of 250 destinations") {
		t.Errorf("%v, asked %d times, %d destinations, %q", err, asked, len(m.Destinations), m.Unplanned)
	}
}
