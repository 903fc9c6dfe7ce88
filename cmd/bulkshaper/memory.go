package main

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// daemonGC keeps garbage below half of what is used: with the runtime's 100 a daemon of 100,000 servers grows to 400 MiB, with this
	// to 300. It collects twice for a reload of that size, 0.1 s of one processor.
	daemonGC = 50
	// trimAfter is how long after a reading what it took is given back to the system, if there is a new inventory or it took trimFrom
	// bytes.
	trimAfter = 5 * time.Second
	trimFrom  = 16 << 20
	// onceGC lets a command that ends anyway collect nothing as long as it has less than onceMemory, bytes: on 10,000 files that is a
	// tenth of its time.
	onceGC     = -1
	onceMemory = 512 << 20
)

// collectOften is for the daemon. GOGC in the environment says otherwise.
func collectOften() { setGC(daemonGC) }

// collectSeldom is for commands that do one thing. Without a limit of ours it is the environment that says how often.
func collectSeldom() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(onceMemory)
		setGC(onceGC)
	}
}

func setGC(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// trimLater gives memory back to the system when the timer runs out, which nobody has set yet.
func trimLater() *time.Timer {
	t := time.AfterFunc(time.Hour, debug.FreeOSMemory)
	t.Stop()
	return t
}

// allocated is how many bytes the program has taken from its heap since it began.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
