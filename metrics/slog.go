package metrics

import (
	"context"
	"log/slog"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// slogHandler hands the exporter toolkit's log lines to zap. What the toolkit calls Info is Debug here: it tells what
// Serve has told already.
type slogHandler struct {
	log    *zap.Logger
	fields []zap.Field
	group  string
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
	return zap.Any(h.group+a.Key, a.Value.Resolve().Any())
}
