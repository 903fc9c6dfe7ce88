package inventory

import "testing"

// TestIdle: only of what can be neither a file that is read nor a way to one is it said that nothing depends on it.
func TestIdle(t *testing.T) {
	s := newShop(t)
	if s.loader.Idle(s.path("daemon.log")) {
		t.Error("idle before anything was read")
	}
	s.load("app01", "hadoop01")
	s.write("daemon.log", "")
	s.write("dc/nyc1/jsons/.hadoop01.json.swp", "")
	s.write("dc/lon1/readme", "")
	s.link("hadoop01.json", "dc/nyc1/jsons/..data")
	for name, want := range map[string]bool{
		"daemon.log": true, "dc/nyc1/jsons/.hadoop01.json.swp": true, "dc/nyc1/jsons/gone~": true, "dc/nyc1/log": true,
		"roles.json": false, "dc/nyc1/jsons/hadoop01.json": false, "dc/nyc1/jsons/new.json": false, "dc/nyc1/jsons": false, "dc/nyc1": false,
		"dc/lon1": false, "dc/lon1/readme": false, "dc/nyc1/jsons/..data": false, "elsewhere/x": false,
	} {
		if got := s.loader.Idle(s.path(name)); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	s.write("dc/nyc1/jsons/hadoop01.json", "{")
	if _, err := s.loader.Load(t.Context()); err == nil {
		t.Fatal("broken JSON is taken")
	}
	if !s.loader.Idle(s.path("daemon.log")) {
		t.Error("not idle while a file is refused: the log puts off the reading of the mended file")
	}
	s.write("dc/nyc1/jsons/hadoop01.json", `{"ip": "10.0.0.99"}`)
	s.link("nyc1", "dc/current")
	s.load("app01", "hadoop01")
	if s.loader.Idle(s.path("daemon.log")) {
		t.Error("idle where links lead to files: any name may be one")
	}
}
