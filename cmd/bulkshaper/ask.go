package main

import (
	"context"
	"path/filepath"

	"bulkshaper/shaper"
	"bulkshaper/shaper/config"
)

// askDaemon asks the daemon whose socket that is for the JSON at path.
func askDaemon(ctx context.Context, socket, path string, into any) error {
	return get(ctx, unixClient(socket), "http://daemon"+path, "the daemon at "+socket, into)
}

// place is where the commands that work beside a daemon find it and what it keeps.
type place struct {
	runDir string
	iface  string // "" where only the daemon could tell
	// broken is what is wrong with the config as it is now, nil for nothing. The daemon does not need it.
	broken error
}

func (f *inputFlags) place() place {
	cfg, broken := f.configOnly()
	if broken != nil {
		cfg = config.Default()
		if dir := f.keys.single["run-dir"]; *dir != "" {
			cfg.RunDir = *dir
		}
		cfg.Interface = *f.keys.single["interface"]
	}
	return place{cfg.RunDir, cfg.Interface, broken}
}

func (p place) socket() string { return filepath.Join(p.runDir, socketName) }

// daemon is the status of the daemon of the interface that is meant; false where none answers.
func (p place) daemon(ctx context.Context) (shaper.Status, bool) {
	var s shaper.Status
	err := askDaemon(ctx, p.socket(), "/api/v1/status", &s)
	return s, err == nil && (p.iface == "" || p.iface == s.Interface)
}
