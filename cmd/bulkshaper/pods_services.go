package main

import (
	"context"
	"fmt"
	"time"

	"bulkshaper/shaper/kernel/lab/traffic"
)

// podAsker is the bulk node that asks a service, podService that service's server. What the asker copies is in other classes than what it
// asks, unless the inventory is wrong.
const (
	podAsker   = "hadoop02"
	podService = "app02"
)

// podKinds are what services ask each other for, across the uplinks, and then what a bulk node asks for.
func podKinds() []storyServiceKind {
	return []storyServiceKind{
		{Name: "RPC, fresh", Deadline: 100 * time.Millisecond, MustLive: true, MustBreak: true},
		{Name: "DNS", Deadline: 50 * time.Millisecond, MustLive: true, MustBreak: true},
		{Name: bulkRPC, Deadline: 100 * time.Millisecond, MustLive: true},
		{Name: "DNS of a bulk node", Deadline: 50 * time.Millisecond, MustLive: true},
	}
}

// services are asked all the time: RPC and DNS, from each of these to the other. They run where the copies run: in pods, if there are any.
func (b *podBed) services() []traffic.Service {
	var all []traffic.Service
	for _, way := range podWays() {
		from, to := b.pod(way[0]), b.pod(way[1])
		all = append(all,
			traffic.Service{Kind: traffic.Fresh, From: from, To: to, Every: 20 * time.Millisecond, Work: 10 * time.Millisecond, Answer: 200},
			traffic.Service{Kind: traffic.Query, From: from, To: to, Every: 20 * time.Millisecond, Work: 5 * time.Millisecond, Answer: 120})
	}
	return all
}

func podWays() [][2]string {
	return [][2]string{{"app01", podService}, {podService, "app01"}, {podAsker, podService}}
}

// podKindOf is the kind of a service of services.
func podKindOf(service int) int {
	if service/2 == len(podWays())-1 {
		return service%2 + 2
	}
	return service % 2
}

// podAsked is what became of the requests of a time.
type podAsked struct {
	Shaped     bool           `json:"shaped"`
	Services   []storyService `json:"services"`
	Load       storyLoad      `json:"machine"`
	Checks     []storyCheck   `json:"checks"`
	Measurable bool           `json:"measurable"`
}

// podWindow is a time in which requests are looked at, on the clock of the traffic, and how busy the processors were.
type podWindow struct {
	from, to time.Duration
	busy     float64
}

// ask lets requests be made for a while.
func (b *podBed) ask(ctx context.Context, window time.Duration) (w podWindow, err error) {
	before, err := readCPU()
	if err != nil {
		return w, err
	}
	w.from = traffic.Now()
	if err := pause(ctx, window); err != nil {
		return w, err
	}
	w.to = traffic.Now()
	after, err := readCPU()
	if err != nil {
		return w, err
	}
	w.busy = after.busySince(before)
	return w, nil
}

// asked waits for what has become of the requests and judges it.
func (b *podBed) asked(ctx context.Context, w podWindow, shaped bool) (podAsked, error) {
	requests, stalls, err := b.requests.Between(ctx, w.from, w.to)
	if err != nil {
		return podAsked{}, fmt.Errorf("%w%s", err, fileTail(b.log.Name()))
	}
	a := podAsked{Shaped: shaped, Services: countServices(podKinds(), podKindOf, requests), Load: loadOf(w.busy, requests, stalls)}
	a.judge(b.network.wrong)
	return a, nil
}

// unshaped measures the services while the copies run freely, and then starts the daemons. Those run already while the last answers, which
// take up to two seconds, are waited for: no deadline is open then.
func (b *podBed) unshaped(ctx context.Context) (podAsked, error) {
	if err := pause(ctx, b.story.free.settle); err != nil {
		return podAsked{}, err
	}
	w, err := b.ask(ctx, b.story.free.window)
	if err != nil {
		return podAsked{}, err
	}
	longest := time.Duration(0)
	for _, kind := range podKinds() {
		longest = max(longest, kind.Deadline)
	}
	if err := pause(ctx, longest); err != nil {
		return podAsked{}, err
	}
	if err := b.startDaemons(ctx); err != nil {
		return podAsked{}, err
	}
	return b.asked(ctx, w, false)
}

// judge claims that, without shaping, services do not reach each other across the uplink, which is full; and that with shaping all are
// live. Where the inventory is wrong the uplink is not full either, but what bulk nodes ask waits behind their copies, in the default
// class. A busy machine can only make services worse.
func (a *podAsked) judge(wrong bool) {
	hurtByLoad := a.Shaped
	a.Checks = []storyCheck{}
	for i, kind := range podKinds() {
		service, ofBulk := a.Services[i], !kind.MustBreak
		switch {
		case !a.Shaped && ofBulk: // its own port is full as well: that is no matter of the network's
		case !a.Shaped, wrong && ofBulk:
			a.Checks = append(a.Checks, service.broken())
		default:
			a.Checks = append(a.Checks, service.live())
		}
	}
	a.Measurable = a.Load.measurable(len(a.failed()) == 0, hurtByLoad && !wrong)
}

func (a *podAsked) failed() (failed []storyCheck) {
	for _, c := range a.Checks {
		if !c.OK {
			failed = append(failed, c)
		}
	}
	return failed
}

// wrongs is what is not as claimed, if that means anything.
func (a *podAsked) wrongs() (wrongs []string) {
	if !a.Measurable {
		return nil
	}
	for _, c := range a.failed() {
		wrongs = append(wrongs, fmt.Sprintf("%s, %s: %s, claimed %s", a.when(), c.What, c.Got, c.Want))
	}
	return wrongs
}

func (a *podAsked) when() string {
	if a.Shaped {
		return "shaped"
	}
	return "unshaped"
}

// asked finds what was measured of the services with shaping, or without; it is nil where that was not measured.
func (run *podRun) asked(shaped bool) *podAsked {
	for i := range run.Asked {
		if run.Asked[i].Shaped == shaped {
			return &run.Asked[i]
		}
	}
	return nil
}

// servicesText shows the services without shaping beside those with it.
func (run *podRun) servicesText() string {
	shaped, free := run.asked(true), run.asked(false)
	if shaped == nil {
		return ""
	}
	t := newTable("SERVICE", "DEADLINE", "CLASS BY EXPLAIN", "UNSHAPED: LATE", "P99", "SHAPED: LATE", "P99")
	ms := func(seconds float64) string { return fmt.Sprintf("%.1f ms", 1000*seconds) }
	for i, kind := range podKinds() {
		class, late, p99 := "-", "-", "-"
		if !kind.MustBreak {
			class = run.ServicesClass
		}
		if free != nil {
			late, p99 = percentOf(free.Services[i].lateShare()), ms(free.Services[i].P99)
		}
		with := shaped.Services[i]
		t.row(kind.Name, kind.Deadline, class, late, p99, fmt.Sprintf("%s of %d", percentOf(with.lateShare()), with.Requests), ms(with.P99))
	}
	return t.String()
}
