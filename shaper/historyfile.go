package shaper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"go.uber.org/zap"

	"bulkshaper/shaper/runfile"
)

const (
	// HistoryFile is where in the run folder the history is kept, so that a restart does not lose it.
	HistoryFile = "history.state"
	// maxHistory bounds what is read: a hundred events of ten examples of each kind of operation are far less.
	maxHistory = 8 << 20
	// historyPause is the least time between two writings.
	historyPause = time.Second
	// historyRetry is how long a folder that could not be written into is left alone.
	historyRetry = 10 * time.Second
)

// ReadHistory reads what was kept in a run folder; nothing where there is no file.
func ReadHistory(dir string) ([]Event, error) {
	data, err := runfile.Read(dir, HistoryFile, maxHistory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	var events []Event
	if err := json.Unmarshal(data, &events); err != nil {
		return nil, fmt.Errorf("read history: %s/%s: %w", dir, HistoryFile, err)
	}
	return events, nil
}

// Keep writes the history into a run folder whenever there is something new, until ctx ends. What cannot be written is told once, can be asked
// for with Unkept, and is tried again.
func (h *History) Keep(ctx context.Context, dir string, log *zap.Logger) {
	write := func() error {
		data, err := json.Marshal(h.Events())
		if err == nil {
			err = runfile.Write(dir, HistoryFile, data, 0o644)
		}
		switch before := h.keptAs(err); {
		case err != nil && before == nil:
			log.Warn("the history cannot be kept over a restart", zap.Error(err))
		case err == nil && before != nil:
			log.Info("the history is kept over a restart again")
		}
		return err
	}
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			select {
			case <-h.Changed():
				_ = write()
			default:
			}
			return
		case <-h.Changed():
		case <-again:
		}
		again = nil
		if write() != nil {
			again = time.After(historyRetry)
		}
		select {
		case <-ctx.Done():
		case <-time.After(historyPause):
		}
	}
}
