package main

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	// queuedLines is how many lines of log wait for whoever reads them: more than the daemon writes in hours.
	queuedLines = 1024
	// flushPatience is how long Sync waits for them to be taken.
	flushPatience = time.Second
)

// logQueue is between the daemon and whoever reads its log: a pipe that is full, a journal that hangs, a terminal that was halted. Lines wait
// in it, and where it is full they are dropped and counted, so that nothing keeps the daemon from its work.
type logQueue struct {
	lines   chan queuedLine
	dropped atomic.Int64
}

// queuedLine is a line, or where it has none a mark: all before it was taken.
type queuedLine struct {
	text  []byte
	taken chan struct{}
}

// newLogQueue writes to w from a goroutine of its own, which lives as long as the process. lost makes the line that tells of dropped ones.
func newLogQueue(w io.Writer, lost func(dropped int64) []byte) *logQueue {
	q := &logQueue{lines: make(chan queuedLine, queuedLines)}
	go func() {
		for line := range q.lines {
			if line.taken != nil {
				close(line.taken)
				continue
			}
			_, _ = w.Write(line.text) // there is nobody to tell
			if n := q.dropped.Swap(0); n > 0 {
				_, _ = w.Write(lost(n))
			}
		}
	}()
	return q
}

// Write never waits; p is copied.
func (q *logQueue) Write(p []byte) (int, error) {
	select {
	case q.lines <- queuedLine{text: append([]byte(nil), p...)}:
	default:
		q.dropped.Add(1)
	}
	return len(p), nil
}

// Sync waits until all was taken, but not for long.
func (q *logQueue) Sync() error {
	late := time.NewTimer(flushPatience)
	defer late.Stop()
	mark := queuedLine{taken: make(chan struct{})}
	select {
	case q.lines <- mark:
		select {
		case <-mark.taken:
			return nil
		case <-late.C:
		}
	case <-late.C:
	}
	return fmt.Errorf("flush the log: nobody took it within %s", flushPatience)
}

// lostLine encodes the line that tells of dropped ones.
func lostLine(encoder zapcore.Encoder) func(dropped int64) []byte {
	return func(dropped int64) []byte {
		line, err := encoder.Clone().EncodeEntry(zapcore.Entry{Level: zapcore.WarnLevel, Time: time.Now(), Message: "lines of the log were dropped: nobody took them"},
			[]zapcore.Field{zap.Int64("lines", dropped)})
		if err != nil {
			return fmt.Appendf(nil, "%d lines of the log were dropped: %v\n", dropped, err)
		}
		return line.Bytes()
	}
}
