package inventory

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSearchIsKept looks into folders again only where they changed, or long ago.
func TestSearchIsKept(t *testing.T) {
	s := newShop(t)
	s.load("app01", "hadoop01")
	first := s.loader.searched.Load()
	if first == nil {
		t.Fatal("the search was not kept")
	}
	s.load("app01", "hadoop01")
	s.loader.Folders()
	if s.loader.searched.Load() != first {
		t.Error("nothing changed, and it was searched again")
	}
	s.now = s.now.Add(searchAgain + time.Second)
	s.load("app01", "hadoop01")
	second := s.loader.searched.Load()
	if second == first {
		t.Error("it was not searched again after a long time")
	}
	s.write("dc/sjc1/jsons/app02.json", `{"ip": "10.0.0.9"}`)
	s.load("app01", "app02", "hadoop01")
	if s.loader.searched.Load() == second {
		t.Error("a folder has another file, and it was not searched again")
	}
	s.write("dc/lon1/jsons/app03.json", `{"ip": "10.0.0.10"}`)
	s.load("app01", "app02", "app03", "hadoop01")
	s.remove("dc/lon1")
	s.load("app01", "app02", "hadoop01")
	s.remove("dc/sjc1/jsons/app02.json")
	s.load("app01", "hadoop01")
}

// TestYoungFolderIsSearchedAgain: what changes again within a tick of the file system's clock does not show.
func TestYoungFolderIsSearchedAgain(t *testing.T) {
	s := newShop(t)
	s.now = time.Now()
	s.load("app01", "hadoop01")
	if s.loader.searched.Load() != nil {
		t.Error("the search of young folders was kept")
	}
}

func TestHolds(t *testing.T) {
	s := newShop(t)
	s.link("app01.json", "dc/sjc1/jsons/link")
	path := s.path("dc/sjc1/jsons/app01.json")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	id := idOf(info)
	folder, err := os.Stat(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var in openFolder
	defer in.close()
	for name, want := range map[string]bool{"dc/sjc1/jsons/app01.json": true, "dc/sjc1/jsons/link": true, "dc/nyc1/jsons/hadoop01.json": false, "dc/nyc1/jsons/none": false, "none/x": false} {
		if got := in.holds(s.path(name), id); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if in.holds(filepath.Dir(path), idOf(folder)) {
		t.Error("a folder is no file")
	}
	t.Chdir(filepath.Dir(path))
	if !in.holds("app01.json", id) {
		t.Error("a file of the working folder")
	}
}
