package live

import (
	"context"
	"errors"
	"fmt"
	"io"

	tea "charm.land/bubbletea/v2"
)

// framesPerSecond bounds how often the screen is looked at for changes: keys answer within a tenth of a second, and between two readings
// nothing is to do.
const framesPerSecond = 10

// Run shows the status on the terminal w until somebody quits or ctx ends, and leaves the terminal as it was.
func Run(ctx context.Context, w io.Writer, o Options) error {
	p := tea.NewProgram(newModel(ctx, o), tea.WithOutput(w), tea.WithFPS(framesPerSecond), tea.WithoutSignalHandler())
	// Ended as by a key, not killed: the library's way to kill does not wait for its own reader.
	defer context.AfterFunc(ctx, p.Quit)()
	if _, err := p.Run(); err != nil && !errors.Is(err, tea.ErrInterrupted) && ctx.Err() == nil {
		return fmt.Errorf("watch on this terminal: %w; without one, `bulkshaper status --watch | cat` prints lines", err)
	}
	return nil
}
