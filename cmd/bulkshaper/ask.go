package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"bulkshaper/cmd/bulkshaper/ask"
	"bulkshaper/inventory"
	"bulkshaper/shaper"
	"bulkshaper/shaper/claim"
	"bulkshaper/shaper/config"
)

// place is where the commands that work beside a daemon find it and what it keeps.
type place struct {
	runDir string
	iface  string // "" where only the daemon could tell
	// given says that the run folder is what the command line says, asked is the interface that it names, "" for none.
	given   bool
	asked   string
	daemons []*ask.Daemon
	// broken is what is wrong with the config as it is now, nil for nothing. The daemon does not need it.
	broken error
	// guessed says that the run folder is the default, since the config does not tell: it may be that of another interface's daemon.
	guessed bool
}

func (f *inputFlags) place() place {
	cfg, broken := f.configOnly()
	given, guessed := *f.keys.single["run-dir"] != "", false
	if broken != nil {
		path, overrides, err := f.where()
		if err != nil {
			path, overrides = "", config.Overrides{}
		}
		salvaged := config.Salvage(path, overrides)
		cfg, guessed = salvaged.Config, !given && !salvaged.RunDir
	}
	return place{guessed: guessed, runDir: cfg.RunDir, iface: cfg.Interface, given: given, asked: *f.keys.single["interface"], daemons: ask.Places(cfg), broken: broken}
}

// ask finds the daemon of the interface that is meant. The error is an *ask.SilentError.
func (p place) ask(ctx context.Context) (*ask.Daemon, shaper.Status, error) {
	iface := p.iface
	if p.broken != nil && !p.given {
		iface = p.asked // of a config that is wrong the folder may be another's, and who has it tells what it shapes
	}
	d, status, err := ask.First(ctx, p.daemons, iface)
	var silent *ask.SilentError
	if !errors.As(err, &silent) {
		return d, status, err
	}
	if p.asked != "" { // another interface than the run folder's daemon has is what the command line wants
		silent.Other = nil
	}
	if iface != "" && silent.Denied == "" {
		if holder, held := claim.Find(iface); held {
			silent.Holder, silent.Other = holder.String(), nil
		}
	}
	return d, status, err
}

// tellWhere says which run folder is looked into, where the config does not tell.
func (p place) tellWhere(stderr io.Writer) {
	if p.broken == nil || p.given {
		return
	}
	what := "the config is wrong (`bulkshaper check` says how)"
	var problems inventory.Problems
	if errors.As(p.broken, &problems) && problems.Unreadable() {
		what = "the config cannot be read"
	}
	fmt.Fprintf(stderr, "warning: %s, so the run folder is taken to be %s; give --run-dir where the daemon has another\n", what, p.runDir)
}
