package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"bulkshaper/cmd/bulkshaper/screen"
	"bulkshaper/cmd/bulkshaper/view"
	"bulkshaper/inventory"
	"bulkshaper/shaper"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/kernel"
	"bulkshaper/shaper/override"
	"bulkshaper/shaper/tc"
)

// defaultConfig is read where no --config is given and the file is there.
const defaultConfig = "/etc/bulkshaper/config.yaml"

// inputFlags are the flags of the commands that read config and inventory.
type inputFlags struct {
	path string
	keys *keyFlags
}

func addInputFlags(c *cobra.Command) *inputFlags {
	f := &inputFlags{}
	c.Flags().StringVarP(&f.path, "config", "c", "", "the config `file` (default "+defaultConfig+" where it exists)")
	f.keys = addKeyFlags(c.Flags())
	completeWith(c, "layout", "hash", "list")
	completeWith(c, "log-level", "debug", "info", "warn", "error")
	completeWith(c, "log-format", "auto", "console", "json")
	return f
}

// where is the path of the config ("" for none) and what the flags say over it.
func (f *inputFlags) where() (string, config.Overrides, error) {
	path := f.path
	if path == "" {
		if _, err := os.Stat(defaultConfig); err == nil {
			path = defaultConfig
		}
	}
	overrides, err := f.keys.overrides()
	return path, overrides, wrong(err)
}

// load reads config and inventory; every problem is in the error.
func (f *inputFlags) load(ctx context.Context) (shaper.Input, *shaper.Files, error) {
	path, overrides, err := f.where()
	if err != nil {
		return shaper.Input{}, nil, err
	}
	files := shaper.NewFiles(path, overrides)
	input, err := files.Load(ctx)
	return input, files, wrong(err)
}

// node is one interface and what is wanted there.
type node struct {
	input   shaper.Input
	read    time.Time // when the input was read
	kernel  *kernel.Kernel
	state   tc.State
	desired *shaper.Desired
	// unread is why the overrides of the run folder could not be read; then none are followed.
	unread error
}

// open reads the input, observes the interface and plans for it.
func (f *inputFlags) open(ctx context.Context) (*node, error) {
	collectSeldom()
	input, _, err := f.load(ctx)
	if err != nil {
		return nil, err
	}
	if err := needInterface(input.Config); err != nil {
		return nil, err
	}
	k, err := kernel.Open(kernel.Options{Interface: input.Config.Interface, Log: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	n := &node{input: input, read: time.Now(), kernel: k}
	if n.state, err = k.Observe(ctx); err != nil {
		k.Close()
		return nil, noInterface(err)
	}
	overrides, err := activeOverrides(input.Config)
	n.unread = err
	if n.desired, err = shaper.Desire(input, hostname(), shaper.FactsOf(n.state), overrides...); err != nil {
		k.Close()
		return nil, wrong(err)
	}
	return n, nil
}

// activeOverrides are those of the run folder that have not ended.
func activeOverrides(cfg *config.Config) ([]override.Override, error) {
	list, err := override.Store{Dir: cfg.RunDir}.Load()
	return override.Active(list, time.Now()), err
}

// tellOverrides says which overrides are followed, and which are not and why.
func (n *node) tellOverrides(w io.Writer) {
	for _, o := range n.desired.Overrides {
		fmt.Fprintf(w, "note: an override holds %s to %s, ceil %s, until %s\n", o.Class, view.Held(uint64(o.Limits.Rate)), view.Held(uint64(o.Limits.Ceil)), screen.Until(o.Until, time.Now()))
	}
	for _, r := range n.desired.Refused {
		fmt.Fprintf(w, "warning: override %s is not followed: %s\n", r.Override, r.Reason.String())
	}
	if n.unread != nil {
		fmt.Fprintf(w, "warning: no overrides are followed: %v\n", n.unread)
	}
}

// notFollowed says which overrides are not followed and why, "" where all are.
func (n *node) notFollowed() string {
	if n.unread != nil {
		return n.unread.Error()
	}
	var texts []string
	for _, r := range n.desired.Refused {
		texts = append(texts, fmt.Sprintf("override %s is not followed: %s", r.Override, r.Reason.String()))
	}
	return strings.Join(texts, "; ")
}

// noInterface adds a remedy where the interface that is named does not exist.
func noInterface(err error) error {
	if errors.Is(err, tc.ErrNoInterface) {
		return wrong(fmt.Errorf("%w; name the bulk interface with `interface` in the config or --interface (see `ip link`)", err))
	}
	return err
}

func (n *node) close() { n.kernel.Close() }

func needInterface(cfg *config.Config) error {
	if cfg.Interface != "" {
		return nil
	}
	return wrong(inventory.Problems{{File: cfg.File, Message: "no interface given", Remedy: "set `interface` in the config or give --interface: the one that carries the bulk traffic"}})
}

// hostname helps to find this node; a host without a name is found by its addresses.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

// configOnly reads the config without the inventory.
func (f *inputFlags) configOnly() (*config.Config, error) {
	path, overrides, err := f.where()
	if err != nil {
		return nil, err
	}
	cfg, err := config.Load(path, overrides)
	return cfg, wrong(err)
}
