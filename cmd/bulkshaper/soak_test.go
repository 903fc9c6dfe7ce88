package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bulkshaper/shaper"
)

// soakSeed repeats a soak: its value is the seed that the failed one logged.
const soakSeed = "SOAK_SEED"

// TestSoak reloads one daemon again and again, with random edits, broken files and another hand's faults, while it is scraped. It may
// not grow, in itself or in the kernel, and what stands in the end is what a fresh apply makes.
//
// PROMISES.md: 20,000 reloads with random edits and random faults
func TestSoak(t *testing.T) {
	t.Parallel()
	for _, layout := range []string{"hash", "list"} {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()
			soak(t, layout, soakEdits)
		})
	}
}

func soak(t *testing.T, layout string, edits int) {
	seed := rand.Uint64()
	if text := os.Getenv(soakSeed); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s=%d", soakSeed, seed)
	s := newSoaked(t, layout, rand.New(rand.NewPCG(seed, 1)))
	stop := s.scrapeMeanwhile()
	var samples []sample
	window := edits / soakWindows
	for i := range edits {
		s.fault()
		s.edit()
		if (i+1)%window == 0 {
			samples = append(samples, s.sample())
			t.Logf("%5d edits: %s", i+1, samples[len(samples)-1])
		}
	}
	stop()
	s.mend()
	if reloads := s.reloads(); reloads < float64(edits) {
		t.Errorf("%.0f reloads after %d edits", reloads, edits)
	}
	checkGrowth(t, samples)
	s.isFresh()
}

// metrics are the values of a scrape, those without labels, and the sum over labels of the others.
func (s *soaked) metrics() map[string]float64 {
	response, err := s.client.Get("http://daemon/metrics")
	if err != nil {
		s.host.t.Fatalf("scrape: %v", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		s.host.t.Fatalf("scrape: %s, %v", response.Status, err)
	}
	values := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil && !strings.HasPrefix(line, "#") {
			name, _, _ = strings.Cut(name, "{")
			values[name] += v
		}
	}
	return values
}

func (s *soaked) reloads() float64 { return s.metrics()["bulkshaper_inventory_reloads_total"] }

// waitFor waits until there were more than so many reloads.
func (s *soaked) waitFor(before float64) {
	s.host.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for s.reloads() <= before {
		if time.Now().After(deadline) {
			s.signal(syscall.SIGQUIT)
			time.Sleep(time.Second)
			s.host.t.Fatalf("no reload after edit %s; %.0f before; broken %s, status %+v", s.last, before, s.broken, s.status())
		}
		time.Sleep(time.Millisecond)
	}
}

// scrapeMeanwhile asks for metrics and status all the time, until the function that it returns is called. Every answer is whole.
func (s *soaked) scrapeMeanwhile() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{}, 2)
	client := &http.Client{Timeout: 10 * time.Second, Transport: s.client.Transport}
	for _, path := range []string{"/metrics", "/api/v1/status"} {
		go func() {
			defer func() { done <- struct{}{} }()
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-quit:
					return
				case <-tick.C:
				}
				response, err := client.Get("http://daemon" + path)
				if err != nil {
					s.host.t.Errorf("get %s: %v", path, err)
					return
				}
				_, err = io.Copy(io.Discard, response.Body)
				response.Body.Close()
				if err != nil || response.StatusCode != http.StatusOK {
					s.host.t.Errorf("get %s: %s, %v", path, response.Status, err)
					return
				}
			}
		}()
	}
	return func() { close(quit); <-done; <-done }
}

// sample is how large everything is.
type sample struct {
	heap, resident, goroutines, descriptors float64
	objects                                 // in the kernel
}

type objects struct{ tables, nodes, classes, qdiscs int }

func (s sample) String() string {
	return fmt.Sprintf("heap %.2f MiB, resident %.1f MiB, %.0f goroutines, %.0f descriptors, kernel %+v", s.heap/(1<<20), s.resident/(1<<20), s.goroutines, s.descriptors, s.objects)
}

// sample takes the least of some scrapes: of the heap that is what was there after a collection, about.
func (s *soaked) sample() sample {
	least := sample{math.Inf(1), math.Inf(1), math.Inf(1), math.Inf(1), objects{}}
	collections := s.metrics()["go_gc_duration_seconds_count"]
	for n := 0; n < 20 || s.metrics()["go_gc_duration_seconds_count"] < collections+3; n++ {
		m := s.metrics()
		least.heap = min(least.heap, m["go_memstats_heap_alloc_bytes"])
		least.resident = min(least.resident, m["process_resident_memory_bytes"])
		least.goroutines = min(least.goroutines, m["go_goroutines"])
		least.descriptors = min(least.descriptors, m["process_open_fds"])
	}
	least.objects = s.host.objects()
	return least
}

// objects are counted as tc shows them.
func (h *host) objects() objects {
	filters := h.TC("filter", "show", "dev", "eth1", "parent", "1:")
	return objects{strings.Count(filters, "ht divisor"), strings.Count(filters, "flowid") + strings.Count(filters, "link "),
		strings.Count(h.TC("class", "show", "dev", "eth1"), "class htb"), strings.Count(h.TC("qdisc", "show", "dev", "eth1"), "qdisc ")}
}

// checkGrowth compares the end with the beginning, where everything was in use once.
func checkGrowth(t *testing.T, samples []sample) {
	t.Helper()
	part := len(samples) / 3
	worst := func(samples []sample, of func(sample) float64) float64 {
		most := 0.0
		for _, s := range samples {
			most = max(most, of(s))
		}
		return most
	}
	for _, c := range []struct {
		what  string
		of    func(sample) float64
		share float64 // of what was there, that may come on top
		more  float64
	}{
		{"heap", func(s sample) float64 { return s.heap }, 0.15, 1 << 20},
		{"resident memory", func(s sample) float64 { return s.resident }, 0.2, 8 << 20},
		{"goroutines", func(s sample) float64 { return s.goroutines }, 0, 3},
		{"descriptors", func(s sample) float64 { return s.descriptors }, 0, 3},
		{"tables", func(s sample) float64 { return float64(s.tables) }, 0.5, 8},
		{"filters", func(s sample) float64 { return float64(s.nodes) }, 0.5, 40},
		{"classes", func(s sample) float64 { return float64(s.classes) }, 0, 2},
		{"qdiscs", func(s sample) float64 { return float64(s.qdiscs) }, 0, 2},
	} {
		first, last := worst(samples[:part], c.of), worst(samples[len(samples)-part:], c.of)
		if last > first*(1+c.share)+c.more {
			t.Errorf("%s grew from %.0f to %.0f", c.what, first, last)
		}
	}
}

// mend ends with good files and a kernel in sync.
func (s *soaked) mend() {
	if s.broken != "" {
		s.mendFile()
	}
	s.host.t.Helper()
	eventually(s.host.t, "in sync with good files", func() bool {
		before := s.reloads()
		s.rate++ // an edit is taken at once, also where repairs are spaced out
		s.writeConfig()
		s.waitFor(before)
		v := s.status()
		return v.InSync && v.LastReload.Result == shaper.ReloadSuccess
	})
}
