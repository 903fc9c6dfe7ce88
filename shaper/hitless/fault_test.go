package hitless

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bulkshaper/shaper"
	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/fakekernel"
	"bulkshaper/shaper/kernel"
	"bulkshaper/shaper/tc"
)

// failure is what can become of an operation besides success.
type failure int

const (
	cutShort failure = iota // it fails, and nothing behind it is done
	goneOn                  // it fails, and what goes to the kernel in the same message is done all the same
	unheard                 // it is done, and its answer is lost
	failures
)

func (f failure) String() string {
	return [...]string{"and nothing after it is done", "and its neighbours are done", "though it is done"}[f]
}

// faultyKernel fails once, at the operation that at counts down to.
type faultyKernel struct {
	*kernel.Kernel
	at    int
	errno syscall.Errno
	how   failure
	// failed is the operation that failed.
	failed *tc.Op
}

func (k *faultyKernel) err() error {
	switch k.errno {
	case unix.EPERM:
		return fmt.Errorf("%w: %w", tc.ErrPermission, k.errno)
	case unix.ENODEV:
		return fmt.Errorf("%w: %w", tc.ErrNoInterface, k.errno)
	}
	return k.errno
}

// Apply fails at an operation. A root up to its first leaf is all or nothing, as the kernel package holds it.
func (k *faultyKernel) Apply(ctx context.Context, link tc.Link, ops []tc.Op) []tc.Result {
	if k.failed != nil || k.at >= len(ops) {
		k.at -= len(ops)
		return k.Kernel.Apply(ctx, link, ops)
	}
	at, how := k.at, k.how
	k.failed = &ops[at]
	first, last := at, at // what of the group is not done
	if n := foundation(ops); at < n {
		first, last, how = 0, n-1, cutShort
	}
	var results []tc.Result
	apply := func(ops []tc.Op) {
		if len(ops) > 0 {
			results = append(results, k.Kernel.Apply(ctx, link, ops)...)
		}
	}
	apply(ops[:first])
	for i := first; i <= last && how == cutShort; i++ {
		results = append(results, tc.Result{Op: ops[i], Err: tc.ErrNotTried})
	}
	end := last + 1
	if how != cutShort {
		for end < len(ops) && isFilter(ops[at]) && isFilter(ops[end]) && (ops[end].Verb == tc.Delete) == (ops[at].Verb == tc.Delete) {
			end++
		}
		if how == unheard {
			apply(ops[at : at+1])
		} else {
			results = append(results, tc.Result{Op: ops[at]})
		}
		apply(ops[at+1 : end])
	}
	results[at].Err = k.err()
	for _, op := range ops[end:] {
		results = append(results, tc.Result{Op: op, Err: tc.ErrNotTried})
	}
	return results
}

func isFilter(op tc.Op) bool { return op.Object.Type() == "filter" }

// foundation is how many operations at the head of ops make a root up to its first leaf.
func foundation(ops []tc.Op) int {
	if q, ok := ops[0].Object.(tc.Qdisc); !ok || q.Parent != tc.Root {
		return 0
	}
	for i, op := range ops {
		if q, ok := op.Object.(tc.Qdisc); ok && q.Parent != tc.Root {
			return i + 1
		}
	}
	return len(ops)
}

// errnos are those that each operation fails with in turn. EBUSY is the answer about tables that the program waits for by itself.
func errnos() []syscall.Errno {
	return []syscall.Errno{unix.EPERM, unix.EBUSY, unix.ENOBUFS, unix.ENODEV, unix.ENOENT}
}

// fail goes from what stands towards w while operation n fails, and says whether there was one to fail. What went wrong must be told,
// with the operation, unless the pass has mended it by itself.
func (b *bed) fail(w wanted, n int, errno syscall.Errno, how failure) bool {
	b.t.Helper()
	k := &faultyKernel{Kernel: b.k, at: n, errno: errno, how: how}
	out, err := shaper.Converge(b.t.Context(), k, b.observe(), w.Plan, diff.Options{}, nil)
	switch {
	case k.failed == nil && (err != nil || !out.Converged):
		b.t.Fatalf("nothing failed, and yet converged %v, %v", out.Converged, err)
	case k.failed == nil:
		return false
	case err == nil && out.Converged: // a table that was busy, tried again
		f, table := k.failed.Object.(tc.Filter)
		if !table || f.Divisor == 0 || k.failed.Verb != tc.Delete || errno != unix.EBUSY {
			b.t.Errorf("%s failed with %s, and nobody was told", k.failed, errno)
		}
	case !errors.Is(err, errno):
		b.t.Errorf("%s failed with %s, and this was told: %v", k.failed, errno, err)
	}
	return true
}

// TestOperationFails lets each operation of an installation and of a change from one plan to another fail on a real kernel, under
// traffic: each packet is in its class by the old plan or by the new one, what went wrong is told, and the next pass ends as wanted.
//
// PROMISES.md: An operation on the kernel fails
func TestOperationFails(t *testing.T) {
	for _, p := range pairs() {
		t.Run(p.name, func(t *testing.T) {
			r, seed := seeded(t)
			clusters := p.wide(seed)
			b := newBed(t)
			plans := [2]wanted{b.want(clusters[0]), b.want(clusters[1])}
			b.converge(plans[0])
			b.startSender(t, clusters[0].targets)
			count := 0
			for n := r.IntN(cutStride); ; n += cutStride {
				more := false
				for from, to := range []int{1, 0} {
					errno, how := errnos()[r.IntN(len(errnos()))], failure(r.IntN(int(failures)))
					what := fmt.Sprintf("to plan %d, operation %d fails with %s, %s", to, n, errno, how)
					if b.fail(plans[to], n, errno, how) {
						more = true
						count++
					}
					b.pause(func() { b.judge(what, plans[from], plans[to]) })
					b.change(what+", tried again", plans[to], plans[from])
				}
				if !more {
					break
				}
			}
			b.arrived(plans[0])
			t.Logf("%d failures, %d packets", count, b.packets)
		})
	}
}

// TestInstallationFails is the same from a bare interface: until a class stands, packets go past all of them. Every operation fails, since
// there are few kinds of them.
//
// PROMISES.md: An operation on the kernel fails
func TestInstallationFails(t *testing.T) {
	for _, layout := range []string{"hash", "list"} {
		t.Run(layout, func(t *testing.T) {
			r, _ := seeded(t)
			c := newCluster(r, 25)
			c.layout = layout
			b := newBed(t)
			w := b.want(c)
			bare := wanted{Desired: w.Desired, targets: make([]tc.Handle, len(w.targets))}
			for i := range bare.targets {
				bare.targets[i] = fakekernel.Direct
			}
			b.startSender(t, c.targets)
			b.pause(func() {
				for n, more := 0, true; more; n++ {
					for i, errno := range errnos() {
						if cutStride > 1 && i != n%len(errnos()) {
							continue // the short form has one for each operation
						}
						how := failure((n + i) % int(failures))
						what := fmt.Sprintf("operation %d fails with %s, %s", n, errno, how)
						more = b.fail(w, n, errno, how)
						if diff.Ownership(b.observe()).Kind == diff.Ours { // else nothing counts
							b.fresh()
							b.judge(what, bare, w)
						}
						if out, err := shaper.Converge(t.Context(), b.k, b.observe(), w.Plan, diff.Options{}, nil); err != nil || !out.Converged {
							t.Fatalf("%s, tried again: converged %v, %v", what, out.Converged, err)
						}
						b.fresh()
						b.judge(what+", tried again", w)
						b.n.TC("qdisc", "del", "dev", "eth1", "root")
						if !more {
							break
						}
					}
				}
			})
		})
	}
}

// fresh sends a packet to each target, on a root whose counters are new, and forgets what was sent before.
func (b *bed) fresh() {
	b.t.Helper()
	last := b.read()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		time.Sleep(time.Millisecond)
		now := b.read()
		if now.total == last.total {
			break
		}
		last = now
	}
	b.take()
	b.before = last
	b.round()
}
