package inventory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
)

// TestLoadWhileFilesAreReplaced reads again and again, from two goroutines, while a file is replaced by renames without pause:
// each reading is whole, and has the one text or the other.
func TestLoadWhileFilesAreReplaced(t *testing.T) {
	s := newShop(t)
	s.load("app01", "hadoop01")
	stop := make(chan struct{})
	var writer, readers sync.WaitGroup
	writer.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			temporary := s.path("dc/nyc1/jsons/.hadoop01.json.tmp")
			err := os.WriteFile(temporary, fmt.Appendf(nil, `{"ip": "10.0.0.1", "cabinet": "b%d"}`, i%2), 0o644)
			if err == nil {
				err = os.Rename(temporary, s.path("dc/nyc1/jsons/hadoop01.json"))
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 2 {
		readers.Go(func() {
			for range 100 {
				inv, err := s.loader.Load(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				if len(inv.Servers) != 2 || inv.Servers[1].Cabinet != "b0" && inv.Servers[1].Cabinet != "b1" {
					t.Errorf("inventory has %d servers, the last of them %+v", len(inv.Servers), inv.Servers[len(inv.Servers)-1])
				}
				_ = s.loader.Folders()
			}
		})
	}
	readers.Wait()
	close(stop)
	writer.Wait()
}

// TestVanishedFile looks at a file that is gone between listing and reading.
func TestVanishedFile(t *testing.T) {
	s := newShop(t)
	path := s.path("dc/nyc1/jsons/hadoop01.json")
	s.remove("dc/nyc1/jsons/hadoop01.json")
	if o, changed := newCandidateReader(s.loader).read(candidate{path: path}, nil); !errors.Is(o.err, errVanished) || changed != nil {
		t.Errorf("outcome is %+v", o)
	}
}

// TestFileThatChanges has a file that is not as long as its size says.
func TestFileThatChanges(t *testing.T) {
	s := newShop(t)
	f, err := os.Open(s.path("roles.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r fileReader
	if data, _, stable, err := r.readOpen(int(f.Fd()), f.Name()); err != nil || !stable || string(data) != shopRoles {
		t.Errorf("read %q, stable %v, error %v", data, stable, err)
	}
	// Once read to its end, the file seems shorter than its size: as if it had been cut meanwhile.
	if _, _, stable, err := r.readOpen(int(f.Fd()), f.Name()); err != nil || stable {
		t.Errorf("stable %v, error %v; want an unstable reading", stable, err)
	}
}
