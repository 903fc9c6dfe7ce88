package watch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// onDisk is a watcher of real folders. Rescans are an hour apart, so that only events tell.
type onDisk struct {
	*testing.T
	w    *Watcher
	root string
}

func watchDisk(t *testing.T, folders ...string) onDisk {
	root := t.TempDir()
	for i, folder := range folders {
		folders[i] = filepath.Join(root, folder)
	}
	return watchFolders(t, root, func() []string { return folders })
}

func watchFolders(t *testing.T, root string, folders func() []string) onDisk {
	w := New(folders, Options{Debounce: 5 * time.Millisecond, Rescan: time.Hour})
	d := onDisk{t, w, root}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	return d.start(ctx, cancel, done)
}

func (d onDisk) start(ctx context.Context, cancel func(), done chan error) onDisk {
	go func() { done <- d.w.Run(ctx) }()
	d.Cleanup(func() {
		cancel()
		<-done
	})
	if e := d.event("start"); e.Kind != Rescan {
		d.Fatalf("first event is a %s", e.Kind)
	}
	return d
}

func (d onDisk) event(after string) Event {
	d.Helper()
	select {
	case e := <-d.w.C():
		return e
	case <-time.After(10 * time.Second):
		d.Fatalf("no event after: %s", after)
		return Event{}
	}
}

// does runs an action and wants an event after it.
func (d onDisk) does(what string, action func() error) {
	d.Helper()
	if err := action(); err != nil {
		d.Fatal(err)
	}
	if e := d.event(what); e.Kind != FileEvent {
		d.Fatalf("%s after %s, want a file event", e.Kind, what)
	}
}

// sees changes a file in folder again and again. Late events of what was before may answer for the first changes, but not for
// all.
func (d onDisk) sees(folder string) {
	d.Helper()
	for i := range 4 {
		d.does(fmt.Sprintf("change %d in %s", i, folder), func() error {
			return os.WriteFile(d.path(folder, "probe.json"), fmt.Append(nil, i), 0o644)
		})
	}
}

func (d onDisk) path(parts ...string) string {
	return filepath.Join(append([]string{d.root}, parts...)...)
}

func (d onDisk) mkdir(folder string) func() error {
	return func() error { return os.MkdirAll(d.path(folder), 0o755) }
}

func (d onDisk) write(name string) func() error {
	return func() error { return os.WriteFile(d.path(name), []byte("{}"), 0o644) }
}

func (d onDisk) rename(from, to string) func() error {
	return func() error { return os.Rename(d.path(from), d.path(to)) }
}

func (d onDisk) remove(name string) func() error {
	return func() error { return os.RemoveAll(d.path(name)) }
}

func (d onDisk) link(target, name string) func() error {
	return func() error { return os.Symlink(target, d.path(name)) }
}

// TestEditors replays what editors and copiers do to a file; each must be seen, and so must the next.
func TestEditors(t *testing.T) {
	d := watchDisk(t, ".")
	d.does("new file", d.write("x.json"))
	for round := range 2 {
		for _, editor := range []struct {
			name  string
			steps []func() error
		}{
			{"in place", []func() error{d.write("x.json")}},
			{"atomic rename", []func() error{d.write(".x.json.tmp"), d.rename(".x.json.tmp", "x.json")}},
			{"vim", []func() error{d.write("4913"), d.remove("4913"), d.write(".x.json.swp"), d.rename("x.json", "x.json~"), d.write("x.json"), d.remove("x.json~"), d.remove(".x.json.swp")}},
			{"emacs", []func() error{d.link("me@host.1", ".#x.json"), d.write("#x.json#"), d.rename("x.json", "x.json~"), d.write("x.json"), d.remove("#x.json#"), d.remove(".#x.json")}},
			{"removed and written", []func() error{d.remove("x.json"), d.write("x.json")}},
		} {
			d.does(fmt.Sprintf("%s, round %d", editor.name, round), func() error {
				for _, step := range editor.steps {
					if err := step(); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	d.sees(".")
}

func TestFolderRemovedAndMadeAgain(t *testing.T) {
	d := watchDisk(t, "dc/jsons")
	d.does("folder appears", d.mkdir("dc/jsons"))
	d.sees("dc/jsons")
	for range 3 {
		d.does("folder is removed", d.remove("dc"))
		d.does("folder is made again", d.mkdir("dc/jsons"))
		d.sees("dc/jsons")
	}
}

func TestFolderReplacedByAnother(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "jsons"), 0o755); err != nil {
		t.Fatal(err)
	}
	d := watchFolders(t, root, func() []string { return []string{filepath.Join(root, "jsons")} })
	d.sees("jsons")
	d.does("folder is renamed away", d.rename("jsons", "jsons.old"))
	if err := d.mkdir("jsons.new")(); err != nil {
		t.Fatal(err)
	}
	d.does("another takes its place", d.rename("jsons.new", "jsons"))
	d.sees("jsons")
}

// TestConfigMap swaps the link ..data, as the kubelet does.
func TestConfigMap(t *testing.T) {
	root := t.TempDir()
	d := onDisk{T: t, root: root}
	for _, step := range []func() error{d.mkdir("..1"), d.write("..1/x.json"), d.link("..1", "..data"), d.link("..data/x.json", "x.json")} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	d = watchFolders(t, root, func() []string { return []string{root, filepath.Join(root, "..data")} })
	for i := 2; i < 5; i++ {
		fresh := fmt.Sprintf("..%d", i)
		d.does("swap", func() error {
			for _, step := range []func() error{d.mkdir(fresh), d.write(fresh + "/x.json"), d.link(fresh, "..data_tmp"),
				d.rename("..data_tmp", "..data"), d.remove(fmt.Sprintf("..%d", i-1))} {
				if err := step(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	d.sees("..4") // through the link: the folder that it leads to now
}

// TestNewFoldersAreWatched lets the wanted folders grow, as a glob does.
func TestNewFoldersAreWatched(t *testing.T) {
	root := t.TempDir()
	d := watchFolders(t, root, func() []string {
		matches, err := filepath.Glob(filepath.Join(root, "*", "jsons"))
		if err != nil {
			t.Error(err)
		}
		above, err := filepath.Glob(filepath.Join(root, "*"))
		if err != nil {
			t.Error(err)
		}
		return append(append(matches, above...), root)
	})
	for _, dc := range []string{"nyc1", "sjc1"} {
		d.does("datacenter appears", d.mkdir(dc))
		d.does("its folder appears", d.mkdir(dc+"/jsons"))
		d.sees(dc + "/jsons")
	}
}

// TestTwoPathsOfOneFolder removes one of two paths; the folder must stay watched by the other.
func TestTwoPathsOfOneFolder(t *testing.T) {
	root := t.TempDir()
	d := onDisk{T: t, root: root}
	for _, step := range []func() error{d.mkdir("real"), d.mkdir("up"), d.link("../real", "up/a"), d.link("../real", "up/b")} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	d = watchFolders(t, root, func() []string { return []string{d.path("up"), d.path("up/a"), d.path("up/b"), d.path("real")} })
	d.sees("real")
	d.does("one link is removed", d.remove("up/a"))
	d.sees("real")
	d.does("the other too", d.remove("up/b"))
	d.sees("real")
}
