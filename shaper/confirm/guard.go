package confirm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"bulkshaper/shaper"
	"bulkshaper/shaper/diff"
)

// Guard waits for a confirmation.
type Guard struct {
	Place
	Kernel shaper.Kernel
	// For is how long somebody has to confirm, from the end of the apply on.
	For time.Duration
	// Parent is the apply: the guard answers "ok" when it is ready, and is told how the apply ended. Where that closes without a word the
	// apply died.
	Parent io.ReadWriter
	// Log is told what it did when nobody may be there to hear it.
	Log func(text string)
}

// The words of the apply.
const (
	wordApplied   = "applied"
	wordFailed    = "failed"
	wordUnchanged = "unchanged"
)

// restoreTries and restorePause are for a kernel that is busy, or an interface that somebody else changes at that moment.
const (
	restoreTries = 10
	restorePause = time.Second
)

// Run guards until it has kept or put back. When ctx ends it puts back at once: nobody could confirm any longer.
func (g *Guard) Run(ctx context.Context) error {
	state, err := g.Kernel.Observe(ctx)
	var before *Before
	if err == nil {
		before, err = Remember(state)
	}
	var listener net.Listener
	if err == nil {
		listener, err = g.listen()
	}
	if err == nil {
		// Written before the kernel is touched: where it cannot be, the end could not be kept either.
		if err = g.write(Record{Until: time.Now(), Done: time.Now(), Outcome: "an apply began, and was ended before it was done"}); err != nil {
			err = fmt.Errorf("nothing was changed, since the run folder cannot be written: %w", errors.Join(err, listener.Close()))
		}
	} else {
		_ = g.write(Record{Until: time.Now(), Done: time.Now(), Outcome: "the apply was refused, and nothing was changed"}) // who asks later is told less
	}
	if _, told := io.WriteString(g.Parent, answerLine("ready", err)); told != nil || err != nil {
		return errors.Join(err, told)
	}
	defer listener.Close() // removes the socket, too

	words := make(chan string, 1)
	parent := bufio.NewReader(g.Parent)
	go func() {
		line, _ := parent.ReadString('\n') // an end without a word is one, too
		words <- strings.TrimSpace(line)
	}()
	switch word := <-words; word {
	case wordUnchanged:
		return g.write(Record{Until: time.Now(), Done: time.Now(), Outcome: "nothing was changed"})
	case wordApplied:
	case wordFailed:
		text, err := g.restore(before, "since the apply failed")
		_, told := io.WriteString(g.Parent, answerLine(text, err))
		return errors.Join(err, told)
	default:
		_, err := g.restore(before, "since the apply ended before it was done")
		return err
	}
	until := time.Now().Add(g.For)
	if err := g.write(Record{Until: until.Round(0)}); err != nil {
		text, failed := g.restore(before, "since the run folder cannot be written")
		_, told := io.WriteString(g.Parent, answerLine("", fmt.Errorf("%s: %w", text, err)))
		return errors.Join(err, failed, told)
	}
	if _, err := io.WriteString(g.Parent, answerLine("waiting", nil)); err != nil {
		g.Log("the apply is gone, its shaping still waits for confirmation") // its terminal may be; a person may come back
	}
	return g.wait(ctx, listener, before, until)
}

// wait is for a word at the socket, the end of the time or the end of ctx, whatever is first.
func (g *Guard) wait(ctx context.Context, listener net.Listener, before *Before, until time.Time) error {
	asked := make(chan net.Conn)
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			select {
			case asked <- connection:
			case <-done:
				_ = connection.Close()
				return
			}
		}
	}()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			_, err := g.restore(before, "since the waiting was ended")
			return err
		case <-timer.C:
			_, err := g.restore(before, "since nobody confirmed")
			return err
		case connection := <-asked:
			over, err := g.hear(connection, before)
			if over {
				return err
			}
		}
	}
}

// hearPatience is how long somebody who connects may take to say a word, so that silence does not keep the guard from its timer.
const hearPatience = time.Second

func (g *Guard) hear(connection net.Conn, before *Before) (over bool, err error) {
	defer connection.Close()
	_ = connection.SetDeadline(time.Now().Add(hearPatience)) // a socket that is broken is read as an end
	line, _ := bufio.NewReader(io.LimitReader(connection, 64)).ReadString('\n')
	var text string
	switch strings.TrimSpace(line) {
	case Keep:
		if err = g.stands(); err != nil {
			break
		}
		text, over = "kept: the new shaping stays", true
		err = g.write(Record{Until: time.Now(), Done: time.Now(), Outcome: "the new shaping was confirmed"})
	case Back:
		over = true
		text, err = g.restore(before, "as was asked for")
		_ = connection.SetDeadline(time.Now().Add(hearPatience))
	default:
		text = "waiting"
	}
	_, _ = io.WriteString(connection, answerLine(text, err)) // who asked may be gone; what was said is done
	return over, err
}

// stands is an error where the new shaping was removed meanwhile, so that there is nothing to keep.
func (g *Guard) stands() error {
	state, err := g.Kernel.Observe(context.Background())
	switch {
	case err != nil:
		return fmt.Errorf("look at what is to be kept: %w", err)
	case diff.Ownership(state).Kind != diff.Ours:
		return fmt.Errorf("there is nothing to keep, nothing of ours stands on %s any more: `bulkshaper confirm --back` puts back the shaping of before, "+
			"which otherwise comes back at the end", g.Interface)
	}
	return nil
}

// restore puts back what was, whoever else is gone, and says so in the run folder and in the log.
func (g *Guard) restore(before *Before, why string) (string, error) {
	ctx := context.Background()
	var done int
	var err error
	for try := 1; ; try++ {
		var n int
		n, err = before.Restore(ctx, g.Kernel)
		done += n
		if err == nil || try == restoreTries {
			break
		}
		time.Sleep(restorePause)
	}
	text := fmt.Sprintf("the shaping before was put back %s (%s)", why, count(done))
	if err != nil {
		text = fmt.Sprintf("the shaping before could not be put back %s: %v", why, err)
	}
	g.Log(text)
	return text, errors.Join(err, g.write(Record{Until: time.Now(), Done: time.Now(), Outcome: text, Back: true}))
}

func count(operations int) string {
	if operations == 1 {
		return "1 operation"
	}
	return fmt.Sprintf("%d operations", operations)
}

// listen opens the socket. The caller holds the lock, so what is there is a dead one's.
func (g *Guard) listen() (net.Listener, error) {
	if err := os.Remove(g.socket()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	listener, err := net.Listen("unix", g.socket())
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(g.socket(), 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}
