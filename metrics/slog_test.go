package metrics

import (
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestSlogHandler(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	l := slog.New(newSlogHandler(zap.New(core)))
	l.Debug("a")
	l.Info("b", "address", "127.0.0.1:1", "http2", true)
	l.With("x", 1).WithGroup("g").With("y", 2).Warn("c", "z", 3)
	l.Error("d", "err", slog.StringValue("broken"))

	var got []string
	for _, e := range logs.All() {
		got = append(got, e.Level.String()+" "+e.Message)
	}
	if diff := cmp.Diff([]string{"debug a", "debug b", "warn c", "error d"}, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"x": int64(1), "g.y": int64(2), "g.z": int64(3)}, logs.All()[2].ContextMap()); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}

	core, logs = observer.New(zap.WarnLevel)
	l = slog.New(newSlogHandler(zap.New(core)))
	l.Info("quiet")
	if l.Enabled(t.Context(), slog.LevelInfo) || !l.Enabled(t.Context(), slog.LevelWarn) || logs.Len() != 0 {
		t.Errorf("at level warn: %v", logs.All())
	}
}
