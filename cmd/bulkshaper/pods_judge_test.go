package main

import (
	"strings"
	"testing"
	"time"

	"bulkshaper/shaper/kernel/lab"
	"bulkshaper/shaper/kernel/lab/traffic"
)

// askedAsClaimed is what is claimed of the services.
func askedAsClaimed(shaped, wrong bool) podAsked {
	a := podAsked{Shaped: shaped, Load: storyLoad{demoLoad{0.5, 0.001}, 0.001}}
	for _, kind := range podKinds() {
		s := storyService{Name: kind.Name, Requests: 100}
		if !shaped || wrong && !kind.MustBreak {
			s.Late = 90
		}
		a.Services = append(a.Services, s)
	}
	return a
}

// TestPodJudge: what is measured and wrong fails, also where something else could not be measured; what could not is not measurable.
func TestPodJudge(t *testing.T) {
	const rpc, dns, bulkAsks, bulkDNS = 0, 1, 2, 3
	late := func(service, late int) func(*podAsked) { return func(a *podAsked) { a.Services[service].Late = late } }
	busy := func(change func(*podAsked)) func(*podAsked) {
		return func(a *podAsked) { change(a); a.Load.Busy = 0.95 }
	}
	nothing := func(*podAsked) {}
	for name, c := range map[string]struct {
		shaped, wrong bool
		change        func(*podAsked)
		verdict, want string
	}{
		"unshaped, broken":                   {false, false, nothing, verdictPassed, ""},
		"unshaped, RPC works":                {false, false, late(rpc, 49), verdictFailed, "unshaped, late RPC, fresh: 49.0 %, claimed at least 50.0 %"},
		"unshaped, DNS works":                {false, false, late(dns, 0), verdictFailed, "unshaped, late DNS: 0.0 %"},
		"unshaped, a bulk node asks":         {false, false, late(bulkAsks, 0), verdictPassed, ""},
		"unshaped, broken, and busy":         {false, false, busy(nothing), verdictNotMeasurable, "services unshaped: the machine was too busy"},
		"unshaped, works, and busy":          {false, false, busy(late(dns, 0)), verdictNotMeasurable, "services unshaped"},
		"shaped":                             {true, false, nothing, verdictPassed, ""},
		"shaped, one late":                   {true, false, late(dns, 1), verdictFailed, "shaped, late DNS: 1 of 100, claimed none"},
		"shaped, one of a bulk node late":    {true, false, late(bulkDNS, 1), verdictFailed, "DNS of a bulk node: 1 of 100"},
		"shaped, one late, and busy":         {true, false, busy(late(rpc, 1)), verdictNotMeasurable, "services shaped"},
		"shaped, none late, and busy":        {true, false, busy(nothing), verdictPassed, ""},
		"shaped, one late, after a stall":    {true, false, func(a *podAsked) { a.Services[dns].Late, a.Load.StallSeconds = 1, 0.03 }, verdictNotMeasurable, "longest stall 30 ms"},
		"shaped, nothing was asked":          {true, false, func(a *podAsked) { a.Services[rpc].Requests = 0 }, verdictFailed, "0 of 0"},
		"wrong inventory":                    {true, true, nothing, verdictPassed, ""},
		"wrong inventory, services late":     {true, true, late(rpc, 1), verdictFailed, "late RPC, fresh: 1 of 100"},
		"wrong inventory, and nobody has it": {true, true, late(bulkAsks, 10), verdictFailed, "late RPC of a bulk node: 10.0 %, claimed at least 50.0 %"},
		"wrong inventory, and busy":          {true, true, busy(nothing), verdictNotMeasurable, "services shaped"},
	} {
		a := askedAsClaimed(c.shaped, c.wrong)
		c.change(&a)
		a.judge(c.wrong)
		run := newPodRun("VXLAN")
		run.Asked = append(run.Asked, a)
		r := podReport{Runs: []podRun{run}}
		err := r.judge()
		if r.Verdict != c.verdict || (err == nil) != (c.verdict == verdictPassed) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %s, %v; want %s, %q", name, r.Verdict, err, c.verdict, c.want)
		}
		if text := r.text(); c.verdict == verdictFailed && !strings.Contains(text, "NOT AS IT SHOULD BE: "+a.when()) || c.verdict == verdictNotMeasurable && !strings.Contains(text, "not measurable: services") {
			t.Errorf("%s: it is not said:\n%s", name, text)
		}
	}
}

// TestPodRates: what a class carried too little of is wrong, or not measurable, and what is wrong anyway outweighs that.
func TestPodRates(t *testing.T) {
	for _, c := range []struct {
		busy  float64
		wrong []string
		want  string
	}{{0.5, nil, verdictFailed}, {0.95, nil, verdictNotMeasurable}, {0.95, []string{"counted elsewhere"}, verdictFailed}} {
		run := newPodRun("VXLAN")
		run.Slow, run.Wrong, run.Load.Busy = []string{"class default carried little"}, c.wrong, c.busy
		r := podReport{Runs: []podRun{run}}
		if err := r.judge(); r.Verdict != c.want || err == nil {
			t.Errorf("%+v: %s, %v", c, r.Verdict, err)
		}
	}
}

// TestPodServices: each service is counted as the kind that it is, in pods where there are some.
func TestPodServices(t *testing.T) {
	for network, want := range map[lab.PodNetwork][2]string{lab.NoPods: {"hadoop02", "app02"}, lab.Routed: {"hadoop02-pod", "app02-pod"}} {
		b := &podBed{network: podNetwork{kind: network}}
		services := b.services()
		requests := make([]traffic.Request, len(services))
		for i, s := range services {
			kind := podKinds()[podKindOf(i)]
			if ofBulk := s.From == want[0]; ofBulk == kind.MustBreak || (s.Kind == traffic.Query) != strings.HasPrefix(kind.Name, "DNS") || ofBulk && s.To != want[1] {
				t.Errorf("%+v counts as %q", s, kind.Name)
			}
			requests[i] = traffic.Request{Service: i, Latency: 60 * time.Millisecond, Answered: true}
		}
		for i, s := range countServices(podKinds(), podKindOf, requests) {
			if each := []int{2, 2, 1, 1}[i]; s.Requests != each || s.Late != each*(i%2) { // of DNS 60 ms is late
				t.Errorf("%s: %d requests, %d late", s.Name, s.Requests, s.Late)
			}
		}
	}
}
