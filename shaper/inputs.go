package shaper

import (
	"context"
	"path/filepath"
	"reflect"
	"sync"

	"bulkshaper/inventory"
	"bulkshaper/shaper/config"
)

// Files reads config and inventory from where the command line says they are.
type Files struct {
	path      string
	overrides config.Overrides

	mu     sync.Mutex
	source inventory.Source
	loader *inventory.Loader
	// failed says that the last reading did: what was edited before it may not have been read.
	failed bool
}

// NewFiles reads the config at path ("" for none) with the flags over it, and the inventory that the config names.
func NewFiles(path string, overrides config.Overrides) *Files {
	return &Files{path: path, overrides: overrides}
}

// Load reads everything; what did not change since the last time is not read again.
func (f *Files) Load(ctx context.Context) (Input, error) {
	input, err := f.load(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = err != nil
	return input, err
}

func (f *Files) load(ctx context.Context) (Input, error) {
	cfg, err := config.Load(f.path, f.overrides)
	if err != nil {
		return Input{}, err
	}
	inv, err := f.loaderFor(cfg.Source).Load(ctx)
	if err != nil {
		return Input{Config: cfg}, err
	}
	return Input{Config: cfg, Inventory: inv}, nil
}

// LoadChanged reads the config, and of the inventory what events named (see inventory.Loader.LoadChanged). done is false where
// that does not do and Load is needed.
func (f *Files) LoadChanged(ctx context.Context, paths []string) (input Input, done bool, err error) {
	f.mu.Lock()
	failed := f.failed
	f.mu.Unlock()
	if failed {
		return Input{}, false, nil
	}
	cfg, err := config.Load(f.path, f.overrides)
	if err != nil {
		return Input{}, false, nil // Load tells
	}
	inv, done, err := f.loaderFor(cfg.Source).LoadChanged(ctx, paths)
	return Input{Config: cfg, Inventory: inv}, done, err
}

// Plain tells of a path that an event named whether it can only be that of a file (see inventory.Loader.Plain).
func (f *Files) Plain(path string) bool {
	f.mu.Lock()
	loader := f.loader
	f.mu.Unlock()
	return loader != nil && loader.Plain(path)
}

// Idle tells of a path that an event named whether nothing that is read can depend on it (see inventory.Loader.Idle).
func (f *Files) Idle(path string) bool {
	f.mu.Lock()
	loader := f.loader
	f.mu.Unlock()
	if loader == nil || f.path != "" && filepath.Base(path) == filepath.Base(f.path) {
		return false
	}
	if target, err := filepath.EvalSymlinks(f.path); err == nil && filepath.Base(path) == filepath.Base(target) {
		return false
	}
	return loader.Idle(path)
}

func (f *Files) loaderFor(source inventory.Source) *inventory.Loader {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.loader == nil || !reflect.DeepEqual(source, f.source) {
		f.source, f.loader = source, inventory.NewLoader(source)
	}
	return f.loader
}

// Folders are those that must be watched to see an edit.
func (f *Files) Folders() []string {
	f.mu.Lock()
	loader := f.loader
	f.mu.Unlock()
	var folders []string
	if loader != nil {
		folders = loader.Folders()
	}
	if f.path != "" {
		folders = append(folders, filepath.Dir(f.path))
		if target, err := filepath.EvalSymlinks(f.path); err == nil {
			folders = append(folders, filepath.Dir(target))
		}
	}
	return folders
}
