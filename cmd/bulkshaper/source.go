package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"bulkshaper/cmd/bulkshaper/ask"
	"bulkshaper/shaper"
)

// asker gives the status as it is now.
type asker func(context.Context) (shaper.Status, error)

// source is who tells the status.
type source struct {
	ask asker
	// recent is what the classes sent of late; nil where nobody has kept it.
	recent func(context.Context) (shaper.Recent, error)
	// name says who it is, in words.
	name  string
	close func()
	// broken is what is wrong with the files where the answer is what stands in the kernel alone: it is the command's error all the same.
	broken error
}

// statusSource is the daemon, or without one that answers our own reading. A config that was broken since the daemon read it does not
// keep it from answering.
func (f *inputFlags) statusSource(ctx context.Context, stderr io.Writer) (*source, error) {
	p := f.place()
	d, _, silent := p.ask(ctx)
	if silent == nil {
		if p.broken != nil {
			fmt.Fprintf(stderr, "warning: the daemon's answer; the config as it is now is wrong: %v\n", p.broken)
		}
		return daemonSource(d), nil
	}
	if other := otherInterface(silent); other != nil {
		fmt.Fprintf(stderr, "warning: the daemon's answer; %s\n", other.OtherInterface())
		return daemonSource(other.Other), nil
	}
	l, err := f.openLocal(ctx)
	if err != nil {
		p.tellWhere(stderr)
		var coded *codedError
		if !errors.As(err, &coded) || coded.code != exitWrong {
			return nil, err
		}
		s := f.openStanding(ctx, err)
		if s == nil {
			return nil, err
		}
		return &source{name: "this command, which has read the kernel alone: " + silent.Error(), ask: s.ask, close: func() { s.kernel.Close() }, broken: err}, nil
	}
	why := silent.Error()
	var hung *ask.SilentError
	if errors.As(silent, &hung) && hung.Hangs { // not for the small print
		fmt.Fprintf(stderr, "warning: %s\n", why)
		why = "the daemon gives no answer"
	}
	return &source{ask: l.ask, name: "this command, which has read files and kernel itself: " + why, close: l.close}, nil
}

func daemonSource(d *ask.Daemon) *source {
	return &source{name: d.Name, ask: d.Status, recent: d.Recent, close: func() {}}
}

// otherInterface is err where the daemon of this config's run folder answers for another interface than the config now names, else nil. What
// it shapes is what an operator has to see; nothing is done to it under the new name.
func otherInterface(err error) *ask.SilentError {
	var silent *ask.SilentError
	if errors.As(err, &silent) && silent.Other != nil {
		return silent
	}
	return nil
}

// daemonAsker asks the daemon that has a run folder, and nobody else.
func daemonAsker(runDir string) asker { return ask.Socket(runDir).Status }
