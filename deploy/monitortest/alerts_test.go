//go:build system

package monitortest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fired are the alerts that have fired since, as "Alert on node"; an alert of a whole cluster is on nobody.
func (p *scraper) fired(since time.Time) (map[string]bool, error) {
	samples, err := p.ask(fmt.Sprintf(`max by (alertname, instance) (max_over_time(ALERTS{alertstate="firing"}[%ds]))`, int(time.Since(since).Seconds())+1))
	fired := map[string]bool{}
	for _, s := range samples {
		fired[strings.TrimPrefix(s.Labels["alertname"], "Bulkshaper")+" on "+nodeOf(s.Labels["instance"])] = true
	}
	return fired, err
}

// nodeOf finds a server by its address, which the job of deploy/prometheus makes the instance.
func nodeOf(instance string) string {
	for _, s := range servers() {
		if s.address == instance {
			return s.name
		}
	}
	return instance
}

// TestWatchedCluster: a cluster that is well gives no alert; then each node gets troubles of its own, and the alerts that fire are those
// of these troubles, each on its node, and nothing on the node that has none. In between and afterwards the dashboard is asked all it asks.
func TestWatchedCluster(t *testing.T) {
	need(t)
	w := startCluster(t)
	p := startPrometheus(w)

	// Well: traffic in its class.
	w.send("hadoop05", "10.1.13.14:9", 40)
	w.send("hadoop05", "10.1.12.13:9", 20)
	eventually(t, "half a minute of scrapes of all daemons", func() error {
		n, err := p.one(t, `count(count_over_time(bulkshaper_in_sync{cluster="lab"}[1m]) >= 15)`)
		if err == nil && n != 5 {
			err = fmt.Errorf("of %v nodes", n)
		}
		return err
	})
	// Before its first scrape Prometheus has no target, and an alert of that.
	began := time.Now()
	if samples, err := p.ask(`max_over_time(ALERTS[10s])`); err != nil || len(samples) != 0 {
		t.Errorf("alerts of a cluster that is well: %v %v", samples, err)
	}
	for _, r := range rules(t) {
		if samples, err := p.ask(r.Expr); err != nil || len(samples) != 0 {
			t.Errorf("%s in a cluster that is well: %v %v", r.Alert, samples, err)
		}
	}
	checkWell(t, p)

	trouble(w, p, began)
	want := map[string]bool{
		"ReloadFailing on hadoop01": true, "InventoryOld on hadoop01": true, "Contended on hadoop01": true, "OutOfSync on hadoop01": true,
		"InventoryDiffers on hadoop02": true, "OverrideLong on hadoop02": true, "MostTrafficInDefault on hadoop02": true,
		"DropsHigh on hadoop03": true, "DirectPackets on hadoop03": true,
		"Restarting on hadoop04": true, "Down on hadoop04": true,
		"VersionsDiffer on ": true,
	}
	for _, r := range rules(t) {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(want)), func(k string) bool { return strings.HasPrefix("Bulkshaper"+k, r.Alert+" on ") }) {
			t.Errorf("nothing makes %s fire", r.Alert)
		}
	}
	eventually(t, "all alerts", func() error {
		fired, err := p.fired(began)
		for name := range want {
			if err == nil && !fired[name] {
				err = fmt.Errorf("%s has not fired, but %q", name, slices.Sorted(maps.Keys(fired)))
			}
		}
		return err
	})
	checkTroubled(t, p)

	fired, err := p.fired(began)
	if err != nil {
		t.Fatal(err)
	}
	for name := range fired {
		if !want[name] {
			t.Errorf("%s has fired, and nothing was wrong there", name)
		}
	}
	alerts, err := p.alerts()
	if err != nil || len(alerts) < 6 {
		t.Fatalf("%d alerts: %v", len(alerts), err)
	}
	for _, a := range alerts {
		words := a.Annotations["summary"] + "\n" + a.Annotations["description"]
		if strings.Contains(words, "<") || strings.Contains(words, "error") || !strings.Contains(words, "\n") {
			t.Errorf("%s says:\n%s", a.Labels["alertname"], words)
		}
	}
}

// trouble gives each node but hadoop05 its own, and leaves it there.
func trouble(w *watched, p *scraper, began time.Time) {
	t := w.t
	// hadoop01: a file that is wrong, and a program that takes the root qdisc again and again.
	w.write("{", w.path("hadoop01", "nyc1", "jsons", "app01.json"))
	w.background(func(ctx context.Context) {
		tick := time.NewTicker(300 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			if err := w.run("hadoop01", "tc", "qdisc", "replace", "dev", "eth1", "root", "handle", "42:", "pfifo"); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	})
	// hadoop02: another inventory than the others, an override, and 1.6 Mbit/s to somebody unknown.
	for _, s := range servers() {
		if s.name == "app01" {
			w.writeServer("hadoop02", s, "b13")
		}
	}
	w.must(w.run("hadoop02", w.programs[oldBuild], "override", "cross-cabinet", "rate=2mbit", "--for", "30m", "--why", "archive copy", "--config", w.path("hadoop02", "config.yaml")))
	w.send("hadoop02", "10.9.9.9:9", 200)
	// hadoop03: 8 Mbit/s into a class of 4 that does not slow down, and a filter of somebody else that leads past all classes.
	w.send("hadoop03", "10.1.13.14:9", 1000)
	w.must(w.run("hadoop03", "tc", "filter", "add", "dev", "eth1", "parent", "1:", "pref", "7", "protocol", "ip", "u32", "match", "ip", "dst", "10.1.13.15/32", "flowid", "1:0"))
	w.send("hadoop03", "10.1.13.15:9", 50)
	// hadoop04: four restarts, the last into another version, and then it is gone.
	const started = `process_start_time_seconds{instance="10.1.13.14"}`
	last, err := p.one(t, started)
	w.must(err)
	for _, version := range []string{oldBuild, oldBuild, oldBuild, newBuild} {
		w.daemons["hadoop04"].Kill()
		w.start("hadoop04", version)
		eventually(t, "a scrape of the new daemon", func() error {
			now, err := p.one(t, started)
			if err == nil && now == last {
				err = fmt.Errorf("it is that of %v still", now)
			}
			if err == nil {
				last = now
			}
			return err
		})
	}
	eventually(t, "the alerts of a node that restarts", func() error {
		fired, err := p.fired(began)
		if err == nil && !(fired["Restarting on hadoop04"] && fired["VersionsDiffer on "]) {
			err = fmt.Errorf("fired have %v", fired)
		}
		return err
	})
	if got := value(t, panelsOf(t, p, nil), "Restarts A", map[string]string{"node": "hadoop04"}); got < 4 {
		t.Errorf("the dashboard shows %v restarts of hadoop04", got)
	}
	w.must(w.daemons["hadoop04"].Signal(syscall.SIGKILL))
}
