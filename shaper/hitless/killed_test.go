package hitless

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"bulkshaper/shaper"
	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/kernel"
	"bulkshaper/shaper/kernel/kerneltest"
)

// The test binary plays the program where these say with which pair of plans, and with which seed.
const (
	pairVariable = "HITLESS_TEST_PAIR"
	childSeed    = "HITLESS_TEST_CHILD_SEED"
)

func TestMain(m *testing.M) {
	for _, p := range pairs() {
		if p.name == os.Getenv(pairVariable) {
			fmt.Fprintln(os.Stderr, p.switchForever())
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// switchForever goes from one plan to the other and back until it is killed, and prints a line before each run.
func (p pair) switchForever() error {
	seed, err := strconv.ParseUint(os.Getenv(childSeed), 10, 64)
	if err != nil {
		return err
	}
	k, err := kernel.Open(kernel.Options{Interface: kerneltest.Interface})
	if err != nil {
		return err
	}
	clusters := p.wide(seed)
	for i := 0; ; i = 1 - i {
		state, err := k.Observe(context.Background())
		if err != nil {
			return err
		}
		w, err := desire(clusters[i], shaper.FactsOf(state))
		if err != nil {
			return err
		}
		if i == 0 {
			fmt.Println("ready")
		}
		if _, err := shaper.Converge(context.Background(), k, state, w.Plan, diff.Options{}, nil); err != nil {
			return err
		}
	}
}

// PROMISES.md: The daemon is killed in the middle of its work
//
// TestKilled: a process at work is killed at any moment, again and again, and one that starts after it brings what it wants.
func TestKilled(t *testing.T) {
	for _, p := range pairs() {
		t.Run(p.name, func(t *testing.T) {
			r, seed := seeded(t)
			clusters := p.wide(seed)
			b := newBed(t)
			plans := [2]wanted{b.want(clusters[0]), b.want(clusters[1])}
			b.converge(plans[0])
			b.startSender(t, clusters[0].targets)
			unfinished := 0
			for i := range kills {
				what := fmt.Sprintf("kill %d", i)
				b.killChild(p, seed, time.Duration(r.IntN(120_000))*time.Microsecond)
				b.pause(func() { b.judge(what, plans[:]...) })
				b.restart()
				if b.change(what+", started again", plans[i%2], plans[1-i%2]) > 0 {
					unfinished++
				}
			}
			b.arrived(plans[(kills-1)%2])
			t.Logf("%d kills, after %d of them there was something to do; %d packets", kills, unfinished, b.packets)
		})
	}
}

// killChild starts a process that goes on and on between the plans, and kills it some time after it began.
func (b *bed) killChild(p pair, seed uint64, after time.Duration) {
	b.t.Helper()
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	cmd := b.n.Command(self)
	cmd.Env = append(os.Environ(), pairVariable+"="+p.name, childSeed+"="+strconv.FormatUint(seed, 10))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	b.n.Do(func() { err = cmd.Start() })
	if err != nil {
		b.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	time.Sleep(after) // the moment is what the test is about
	if err := cmd.Process.Kill(); err != nil {
		b.t.Errorf("kill: %v", err)
	}
	_ = cmd.Wait()
	if err != nil || cmd.ProcessState.Exited() {
		b.t.Fatalf("the process ended by itself: %q, %v, %s", line, err, cmd.ProcessState)
	}
}
