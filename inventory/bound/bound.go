// Package bound holds a piece of work to what it may cost for the size of its input, in processor time and in memory. Fuzzers and tests
// of hostile input use it: what neither panics nor fails can still take a node's memory or never end. Only tests import it.
package bound

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// fixedMemory and fixedTime are what any input may take, be it empty. The time is generous: a race detector and a fuzzer's
	// instrumentation make everything ten times slower, and what has the wrong order of growth passes any bound.
	fixedMemory = 4 << 20
	fixedTime   = 2 * time.Second
	timePerByte = 20 * time.Microsecond
	// hung is when work counts as never ending, by the clock on the wall.
	hung = 2 * time.Minute
)

// Check does work, whose input has size bytes, and fails the test where it took from the heap more than 4 MiB and perByte bytes for each
// byte of input, or more processor time than 2 s and 20 us for each. Work that does not end ends the process with all stacks.
func Check(t testing.TB, size, perByte int, work func()) {
	t.Helper()
	runtime.LockOSThread() // the processor time is the thread's: others may be busy meanwhile
	defer runtime.UnlockOSThread()
	watch := time.AfterFunc(hung, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("an input of %d bytes is still worked on after %s", size, hung))
	})
	defer watch.Stop()
	heap, busy := allocated(), processorTime()
	work()
	heap, busy = allocated()-heap, processorTime()-busy
	if most := uint64(fixedMemory + size*perByte); heap > most {
		t.Errorf("an input of %d bytes took %d bytes of memory, over %d", size, heap, most)
	}
	if most := fixedTime + time.Duration(size)*timePerByte; busy > most {
		t.Errorf("an input of %d bytes took %s, over %s", size, busy, most)
	}
}

// allocated is how many bytes the process has taken from its heap since it began, given back or not.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// processorTime is that of this thread.
func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		panic(os.NewSyscallError("getrusage", err))
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
