package kernel

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"bulkshaper/shaper/kernel/kerneltest"
	"bulkshaper/shaper/tc"
)

// BenchmarkFilters adds 3,000 filters and reads them back, each as a ratio to tc doing the same in the same run: tc -batch and tc
// filter show.
func BenchmarkFilters(b *testing.B) {
	const count = 3000
	var ops []tc.Op
	var lines strings.Builder
	for i := range uint32(count) {
		op := add(filter(i+1, fmt.Sprintf("10.%d.%d.%d/32", i>>16, i>>8&255, i&255), 0x10))
		ops = append(ops, op)
		fmt.Fprintln(&lines, op.TC(kerneltest.Interface))
	}
	n := kerneltest.New(b)
	k, err := Open(Options{Namespace: n.FD(), Interface: kerneltest.Interface})
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close()
	var apply, observe, batch, show time.Duration
	timed := func(total *time.Duration, f func()) {
		start := time.Now()
		f()
		*total += time.Since(start)
	}
	for b.Loop() {
		s, err := k.Observe(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		run := func(ops []tc.Op) {
			for _, r := range k.Apply(b.Context(), s.Link, ops) {
				if r.Err != nil {
					b.Fatalf("%s: %v", r.Op, r.Err)
				}
			}
		}
		run(tree()[:7])
		timed(&batch, func() { err = n.TCBatch(lines.String()) })
		if err != nil {
			b.Fatal(err)
		}
		timed(&show, func() { n.TC("filter", "show", "dev", kerneltest.Interface) })
		run([]tc.Op{remove(root())})
		run(tree()[:7])
		timed(&apply, func() { run(ops) })
		timed(&observe, func() { _, err = k.Observe(b.Context()) })
		if err != nil {
			b.Fatal(err)
		}
		run([]tc.Op{remove(root())})
	}
	b.ReportMetric(float64(apply)/float64(batch), "apply/tc-batch")
	b.ReportMetric(float64(observe)/float64(show), "observe/tc-show")
	b.ReportMetric(float64(observe.Microseconds())/float64(b.N), "observe-µs")
}
