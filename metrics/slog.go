package metrics

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// slogHandler hands the exporter toolkit's log lines to zap. What the toolkit calls Info is Debug here: it tells what
// Serve has told already. What it says of a web config that was broken meanwhile it says at each request: here that is once an hour, and
// without the values that it quotes.
type slogHandler struct {
	log    *zap.Logger
	fields []zap.Field
	group  string
	told   *told
}

func newSlogHandler(log *zap.Logger) *slogHandler { return &slogHandler{log: log, told: &told{}} }

// told is the last line that was a warning or worse.
type told struct {
	mu   sync.Mutex
	line string
	at   time.Time
}

// tellAgain is when a line that has not changed is worth another.
const tellAgain = time.Hour

// news tells whether a line is another one than the last, or that one is long ago.
func (t *told) news(line string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if line == t.line && now.Sub(t.at) < tellAgain {
		return false
	}
	t.line, t.at = line, now
	return true
}

func zapLevel(level slog.Level) zapcore.Level {
	switch {
	case level >= slog.LevelError:
		return zapcore.ErrorLevel
	case level >= slog.LevelWarn:
		return zapcore.WarnLevel
	}
	return zapcore.DebugLevel
}

// Enabled implements slog.Handler.
func (h *slogHandler) Enabled(_ context.Context, level slog.Level) bool {
	return h.log.Core().Enabled(zapLevel(level))
}

// Handle implements slog.Handler.
func (h *slogHandler) Handle(_ context.Context, r slog.Record) error {
	entry := h.log.Check(zapLevel(r.Level), r.Message)
	if entry == nil {
		return nil
	}
	fields := slices.Clone(h.fields)
	r.Attrs(func(a slog.Attr) bool {
		fields = append(fields, h.field(a))
		return true
	})
	if r.Level >= slog.LevelWarn && !h.told.news(fmt.Sprint(r.Message, fields), r.Time) {
		return nil
	}
	entry.Write(fields...)
	return nil
}

// WithAttrs implements slog.Handler.
func (h *slogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.fields = slices.Clone(h.fields)
	for _, a := range attrs {
		c.fields = append(c.fields, h.field(a))
	}
	return &c
}

// WithGroup implements slog.Handler.
func (h *slogHandler) WithGroup(name string) slog.Handler {
	c := *h
	c.group = h.group + name + "."
	return &c
}

func (h *slogHandler) field(a slog.Attr) zap.Field {
	value := a.Value.Resolve().Any()
	switch v := value.(type) {
	case string:
		value = withoutValues(v)
	case error:
		value = withoutValues(v.Error())
	}
	return zap.Any(h.group+a.Key, value)
}
