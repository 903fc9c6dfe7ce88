package check

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"bulkshaper/cmd/bulkshaper/ask"
	"bulkshaper/cmd/bulkshaper/view"
	"bulkshaper/inventory"
	"bulkshaper/shaper"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/runfile"
)

// Options is what is to be checked.
type Options struct {
	// Config is the path of the config, "" for none; Overrides are the flags over it.
	Config    string
	Overrides config.Overrides
	// Old is a folder with the files as they were before an edit, "" for none.
	Old string
	// Hostname helps to find this node.
	Hostname string
}

// UsageError is about what was asked for, and not about the files.
type UsageError struct{ Err error }

// Error is the error inside.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap is the error inside.
func (e *UsageError) Unwrap() error { return e.Err }

// Run reads everything. Its error is for what cannot be reported: a *UsageError, or that of ctx.
func Run(ctx context.Context, o Options) (*view.Report, error) {
	f := o.read(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err() // nothing was found out
	}
	var about string
	if len(f.problems) == 0 {
		var more []inventory.Problem
		var err error
		about, more, err = checkNode(ctx, f.input, o.Hostname)
		f.warnings = append(f.warnings, more...)
		f.add(err)
	}
	var difference *view.Difference
	var notes []string
	if o.Old != "" && len(f.problems) == 0 {
		var err error
		if difference, notes, err = f.compareOld(ctx, o); err != nil {
			return nil, err
		}
	} else if len(f.problems) == 0 {
		f.askDaemon(ctx)
	}
	r := view.NewReport(f.problems, f.warnings, func(file string) []byte {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil // the problem is told all the same, without the line
		}
		return data
	})
	r.About, r.Notes, r.Diff, r.DiffNote = about, f.notes, difference, notes
	if f.input.Inventory != nil {
		r.Servers, r.Roles = len(f.input.Inventory.Servers), len(f.input.Inventory.Roles)
	}
	return r, nil
}

// found is what was read and what is wrong with it.
type found struct {
	input    shaper.Input
	problems inventory.Problems
	warnings []inventory.Problem
	notes    []string
}

// add takes in an error, nil for none.
func (f *found) add(err error) {
	var problems inventory.Problems
	switch {
	case err == nil:
	case errors.As(err, &problems):
		f.problems = append(f.problems, problems...)
	default:
		f.problems = append(f.problems, inventory.Problem{Message: err.Error()})
	}
}

// read reads config and inventory, the one also where something is wrong with the other.
func (o Options) read(ctx context.Context) *found {
	f := &found{}
	cfg, err := config.Load(o.Config, o.Overrides)
	f.input.Config = cfg
	source := true
	if err != nil {
		f.add(err)
		salvaged := config.Salvage(o.Config, o.Overrides)
		cfg, source = salvaged.Config, salvaged.Source
	}
	f.warnings = append(f.warnings, cfg.Warnings...)
	if err := runfile.Check(cfg.RunDir); err != nil {
		f.warnings = append(f.warnings, inventory.Problem{Message: err.Error()})
	}
	if err == nil {
		f.add(checkWebConfig(cfg))
	}
	if !source {
		f.notes = append(f.notes, "the inventory was not looked at: the config does not say for certain where it is")
		return f
	}
	loader := inventory.NewLoader(cfg.Source)
	f.input.Inventory, err = loader.Load(ctx)
	f.add(err)
	f.warnings = append(f.warnings, loader.Warnings()...)
	return f
}

// askDaemon notes what the daemon of this config has against its files, which the files alone may not show: more servers gone than
// max_shrink allows, keys that take a restart.
func (f *found) askDaemon(ctx context.Context) {
	d, s, err := ask.First(ctx, ask.Places(f.input.Config), f.input.Config.Interface)
	if err != nil || s.LastReload == nil || s.LastReload.Result != shaper.ReloadFailure || len(s.LastReload.Problems) == 0 {
		return
	}
	text := fmt.Sprintf("%s refuses its files since %s, which may not be these: %s", d.Name, s.LastReload.Time.Local().Format(time.DateTime), s.LastReload.Problems[0])
	if more := len(s.LastReload.Problems) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	f.notes = append(f.notes, text)
}
