package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"bulkshaper/shaper/config"
)

// newLogger writes what config asks for: "console" for people, "json" for machines; "auto" is console on a terminal and in the
// journal, which has its own time stamps, and JSON elsewhere. Who logs never waits for w; Sync does, for a moment.
func newLogger(cfg config.Log, w io.Writer) (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(cfg.Level)
	if err != nil {
		return nil, fmt.Errorf("log level %q: %w", cfg.Level, err)
	}
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.TimeEncoderOfLayout("2006-01-02T15:04:05.000Z07:00")
	encoding.EncodeDuration = zapcore.StringDurationEncoder
	encoding.TimeKey, encoding.MessageKey = "time", "message"
	journal := os.Getenv("JOURNAL_STREAM") != ""
	var encoder zapcore.Encoder
	switch {
	case cfg.Format == "json", cfg.Format == "auto" && !journal && !isTerminal(w):
		encoder = zapcore.NewJSONEncoder(encoding)
	case cfg.Format == "console", cfg.Format == "auto":
		if journal {
			encoding.TimeKey = ""
		}
		encoding.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(encoding)
	default:
		return nil, fmt.Errorf("log format %q: use auto, console or json", cfg.Format)
	}
	return zap.New(zapcore.NewCore(encoder, newLogQueue(w, lostLine(encoder)), level)), nil
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// monotonic is the clock that systemd wants in a reload's message.
func monotonic() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, err
	}
	return time.Duration(ts.Nano()), nil
}
