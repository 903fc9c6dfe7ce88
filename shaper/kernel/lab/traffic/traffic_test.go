package traffic

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"bulkshaper/shaper/kernel/lab"
)

// roleVariable makes the test binary a worker.
const roleVariable = "TRAFFIC_TEST_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	guests, err := lab.Guests(os.Args[2:])
	if err == nil {
		err = Serve(context.Background(), os.Args[1], guests, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// cluster has two servers in one cabinet, app01, and hadoop03 in another, behind an uplink with a limit.
func cluster(t *testing.T, uplink lab.Limit, congestion string) *lab.Cluster {
	t.Helper()
	t.Setenv(roleVariable, "1")
	server := func(name, address string) lab.Server {
		return lab.Server{Name: name, Address: netip.MustParseAddr(address)}
	}
	c, err := lab.Build(lab.Topology{Congestion: congestion, Cabinets: []lab.Cabinet{
		{Name: "b12", Prefix: netip.MustParsePrefix("10.0.12.0/24"), Uplink: uplink,
			Servers: []lab.Server{server("hadoop01", "10.0.12.11"), server("hadoop02", "10.0.12.12"), server("app01", "10.0.12.13")}},
		{Name: "b13", Prefix: netip.MustParsePrefix("10.0.13.0/24"), Servers: []lab.Server{server("hadoop03", "10.0.13.11")}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// progress is that of a pair in the last sample.
func progress(samples []Sample, pair Pair) (p Progress) {
	for _, q := range samples[len(samples)-1].Pairs {
		if q.Pair == pair {
			p = q
		}
	}
	return p
}

func TestBulk(t *testing.T) {
	c := cluster(t, lab.Limit{Rate: 8_000_000, Queue: 20 * time.Millisecond}, "")
	b, err := StartBulk(c, []string{KindBulk}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	across, within := Pair{"hadoop01", "hadoop03"}, Pair{"hadoop01", "hadoop02"}
	const pace = 4_000_000
	copies := []Copy{{across, 3, 0}, {within, 1, pace}}
	if err := b.Set(copies); err != nil {
		t.Fatal(err)
	}
	reached := func(pair Pair, bytes uint64) Sample {
		for {
			samples, err := b.Until(t.Context(), Now())
			if err != nil {
				t.Fatal(err)
			}
			if progress(samples, pair).Received >= bytes {
				return samples[len(samples)-1]
			}
		}
	}
	first := reached(across, 300_000)
	last := reached(across, 1_000_000)
	// Bounds that a busy machine does not break: it only makes it less.
	seconds := (last.At - first.At).Seconds()
	for _, limit := range []struct {
		pair Pair
		most float64
	}{{across, 8_000_000}, {within, 1.2 * pace}} {
		got := progress([]Sample{last}, limit.pair).Received - progress([]Sample{first}, limit.pair).Received
		if rate := float64(got) * 8 / seconds; rate > 1.2*limit.most || got == 0 {
			t.Errorf("%v: %.0f bit/s, want at most %.0f", limit.pair, rate, limit.most)
		}
	}
	if p := progress([]Sample{last}, across); p.Again == 0 || p.Again > p.Sent || p.RTT < 10*time.Millisecond {
		t.Errorf("three flows over a narrow uplink: %+v; want segments that were sent again, and the round trip of a full queue", p)
	}
	// What is taken out of the set ends, the other goes on.
	if err := b.Set(copies[1:]); err != nil {
		t.Fatal(err)
	}
	var ended Sample
	for same := 0; same < 3; {
		samples, err := b.Until(t.Context(), Now())
		if err != nil {
			t.Fatal(err)
		}
		n := len(samples)
		if same++; n < 2 || progress(samples[:n-1], across).Received != progress(samples, across).Received {
			same = 0
		}
		ended = samples[n-1]
	}
	reached(within, progress([]Sample{ended}, within).Received+100_000)
	if got := progress(b.Samples(), across); got.Received != progress([]Sample{ended}, across).Received || got.Sent == 0 {
		t.Errorf("a copy that ended has gone on, or is forgotten: %+v", got)
	}
	if err := b.Set(nil); err != nil {
		t.Fatal(err)
	}
}

func TestRequests(t *testing.T) {
	c := cluster(t, lab.Limit{Rate: 50_000_000}, "")
	service := func(kind Kind, to string, work time.Duration, answer int) Service {
		return Service{Kind: kind, From: "app01", To: to, Every: 20 * time.Millisecond, Work: work, Answer: answer}
	}
	const long = 60 * time.Millisecond
	services := []Service{service(Fresh, "hadoop03", 0, 100), service(Kept, "hadoop03", long, 100), service(Query, "hadoop03", 0, 100),
		service(Kept, "hadoop02", 0, 64<<10)}
	r, err := StartRequests(c, services, []string{KindRequests}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	from := Now()
	requests, _, err := r.Between(t.Context(), from, from+time.Second)
	if err != nil {
		t.Fatal(err)
	}
	count := make([]int, len(services))
	for _, q := range requests {
		if q.Due < from || q.Due >= from+time.Second {
			t.Fatalf("a request of another time: %+v", q)
		}
		if q.Answered {
			count[q.Service]++
		}
		if q.Service == 1 && q.Answered && q.Latency < long {
			t.Errorf("an answer that was worked on for %s came after %s", long, q.Latency)
		}
	}
	for i, n := range count {
		if n < 40 || n > 51 {
			t.Errorf("%d answers of %+v in a second of 50", n, services[i])
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := r.Between(t.Context(), Now(), Now()+time.Hour); err == nil {
		t.Error("no error from a worker that has ended")
	}
}

// TestLost: requests that nobody answers are lost, not forgotten, and those that are answered late have their latency.
func TestLost(t *testing.T) {
	c := cluster(t, lab.Limit{}, "")
	never := Patience + time.Second
	services := []Service{{Kind: Query, From: "app01", To: "hadoop03", Every: 50 * time.Millisecond, Work: never},
		{Kind: Kept, From: "app01", To: "hadoop03", Every: 50 * time.Millisecond, Work: never},
		{Kind: Fresh, From: "app01", To: "hadoop03", Every: 50 * time.Millisecond, Work: 500 * time.Millisecond}}
	r, err := StartRequests(c, services, []string{KindRequests}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	from := Now() + 100*time.Millisecond
	requests, _, err := r.Between(t.Context(), from, from+300*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for i := range services {
		of := slices.DeleteFunc(slices.Clone(requests), func(q Request) bool { return q.Service != i })
		if len(of) < 3 {
			t.Errorf("%d requests of %+v", len(of), services[i])
		}
		for _, q := range of {
			if lost := services[i].Work == never; q.Answered == lost || q.Latency < 500*time.Millisecond || lost && q.Latency < Patience {
				t.Errorf("%+v of %+v", q, services[i])
			}
		}
	}
	if all := r.All(); len(all) < len(requests) {
		t.Errorf("%d of all, %d of a part", len(all), len(requests))
	}
}
