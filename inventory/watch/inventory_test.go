package watch_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"bulkshaper/inventory"
	"bulkshaper/inventory/watch"
)

// TestLoaderIsWoken holds Loader.Folders and the watcher together: whatever way a server's file changes, events lead to a
// reading that has it. Rescans are too far apart to help.
func TestLoaderIsWoken(t *testing.T) {
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	server := func(name, cabinet string) {
		t.Helper()
		must(os.MkdirAll(filepath.Dir(at(name)), 0o755))
		must(os.WriteFile(at(name), []byte(`{"cabinet": "`+cabinet+`"}`), 0o644))
	}
	point := func(name, target string) { // as ln -sfn and the kubelet do
		t.Helper()
		must(os.MkdirAll(filepath.Dir(at(name)), 0o755))
		must(os.Symlink(target, at(name+".tmp")))
		must(os.Rename(at(name+".tmp"), at(name)))
	}
	must(os.WriteFile(at("roles.json"), []byte(`{"servers": [], "roles": [], "mapping": {}}`), 0o644))
	server("dc/nyc1/jsons/plain.json", "0")
	server("elsewhere/real.json", "0")
	point("dc/nyc1/jsons/linked.json", "../../../elsewhere/real.json")
	server("release/v1/jsons/released.json", "0")
	server("release/v2/jsons/released.json", "1")
	point("current", "release/v1")
	server("cm/..1/mounted.json", "0")
	server("cm/..2/mounted.json", "1")
	point("cm/..data", "..1")
	point("cm/mounted.json", "..data/mounted.json")

	loader := inventory.NewLoader(inventory.Source{Roles: at("roles.json"), Servers: []string{at("dc/*/jsons"), at("current/jsons"), at("cm")}})
	w := watch.New(loader.Folders, watch.Options{Debounce: 5 * time.Millisecond, Rescan: time.Hour})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	defer func() {
		cancel()
		<-done
	}()
	// until reads after each event, and only then, until a server stands in a cabinet.
	until := func(what, name, cabinet string) {
		t.Helper()
		last := "nothing was read"
		for {
			select {
			case <-w.C():
			case <-time.After(10 * time.Second):
				t.Fatalf("%s is not seen: no more events, and %s", what, last)
			}
			inv, err := loader.Load(ctx)
			if err != nil { // half way: the last good one stays
				last = err.Error()
				continue
			}
			if s, ok := inv.Server(name); ok && s.Cabinet == cabinet {
				return
			}
			last = name + " is not in cabinet " + cabinet
		}
	}
	until("the first reading", "plain", "0")
	for range 2 {
		for _, cabinet := range []string{"1", "0"} {
			server("dc/nyc1/jsons/plain.json", cabinet)
			until("a file written in place", "plain", cabinet)
			server("elsewhere/real.json", cabinet)
			until("the target of a link", "linked", cabinet)
			point("current", map[string]string{"0": "release/v1", "1": "release/v2"}[cabinet])
			until("a link among the folders", "released", cabinet)
			point("cm/..data", map[string]string{"0": "..1", "1": "..2"}[cabinet])
			until("the swap of a ConfigMap", "mounted", cabinet)
			server("dc/lon1/jsons/new.json", cabinet)
			until("a new datacenter", "new", cabinet)
			must(os.RemoveAll(at("dc/lon1")))
		}
	}
}
