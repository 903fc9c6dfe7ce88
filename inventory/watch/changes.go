package watch

import (
	"maps"
	"slices"
	"sync"
)

// maxPaths is how many paths are told one by one; of more it is not worth while.
const maxPaths = 256

// changes collects what may have changed.
type changes struct {
	// burst has the paths of events since the last settle, and burstAll that any other may have changed, too. Both belong to Run.
	burst    map[string]bool
	burstAll bool

	mu    sync.Mutex
	paths map[string]bool
	all   bool
}

// note takes down a path that an event named.
func (c *changes) note(path string) {
	if len(c.burst) >= maxPaths {
		c.burstAll = true
	}
	if c.burstAll {
		return
	}
	if c.burst == nil {
		c.burst = make(map[string]bool)
	}
	c.burst[path] = true
}

// noteAll takes down that any path may have changed.
func (c *changes) noteAll() { c.burstAll = true }

// settle ends a burst and tells whether all of it was plain.
func (c *changes) settle(plain func(string) bool) bool {
	burst, all := c.burst, c.burstAll || plain == nil
	c.burst, c.burstAll = nil, false
	for path := range burst {
		all = all || !plain(path)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paths == nil {
		c.paths = make(map[string]bool)
	}
	maps.Copy(c.paths, burst)
	c.all = c.all || all || len(c.paths) > maxPaths
	return !all
}

// expectAll makes any path one that may have changed.
func (c *changes) expectAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = true
}

// take gives what there is and begins anew.
func (c *changes) take() (paths []string, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	paths, all = slices.Sorted(maps.Keys(c.paths)), c.all
	c.paths, c.all = nil, false
	if all {
		return nil, true
	}
	return paths, false
}

// Changes are the paths that events named since the last call, sorted. all says that any other may have changed, too; then no path is
// named. They belong to the events of C up to now: whoever reads files for an event asks before.
func (w *Watcher) Changes() (paths []string, all bool) { return w.changes.take() }

// Everything makes the next Changes name all, since a person wants everything to be looked at.
func (w *Watcher) Everything() { w.changes.expectAll() }
