package inventory

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func (s *shop) chmod(name string, mode uint32) {
	s.Helper()
	if err := unix.Chmod(s.path(name), mode); err != nil {
		s.Fatal(err)
	}
}

// TestWritableByOthers takes one path after the other out of the sole hands of root: that is an error, also of files that were read
// before and say the same, until it is put right. Package trust has all that may be wrong with a path.
func TestWritableByOthers(t *testing.T) {
	const allow = ", or allow it with --allow-writable-by-others (in the config, allow_writable_by_others: true)"
	for _, test := range []struct {
		path      string
		mode, was uint32
		message   string // up to the facts
	}{
		{"roles.json", 0o646, 0o644, "everybody may write it (mode 0646, owner "},
		{"dc/nyc1/jsons/hadoop01.json", 0o646, 0o644, "everybody may write it (mode 0646, owner "},
		{"dc/nyc1/jsons", 0o757, 0o755, "everybody may write this folder (mode 0757, owner "},
		{"dc/nyc1/jsons", 0o1757, 0o755, "everybody may write this folder (mode 1757, owner "},
		{"dc/nyc1", 0o757, 0o755, "everybody may write this folder (mode 0757, owner "},
		{"dc", 0o757, 0o755, "everybody may write this folder (mode 0757, owner "},
		{"", 0o757, 0o755, "everybody may write this folder (mode 0757, owner "},
		{"aside", 0o757, 0o755, "everybody may write this folder (mode 0757, owner "},
		{"aside/db01.json", 0o646, 0o644, ""}, // told of the link
	} {
		t.Run(test.path, func(t *testing.T) {
			s := newShop(t)
			s.write("aside/db01.json", `{"ip": "10.0.0.3", "cabinet": "b1"}`)
			s.link("../../../aside/db01.json", "dc/nyc1/jsons/db01.json")
			names := []string{"app01", "db01", "hadoop01"}
			first := s.load(names...)
			s.chmod(test.path, test.mode)
			_, err := s.loader.Load(t.Context())
			problems, _ := err.(Problems)
			if len(problems) != 1 {
				t.Fatalf("loaded with error %v, want one problem", err)
			}
			want := s.path(test.path) + ": not trusted: " + test.message
			if test.message == "" {
				want = s.path("dc/nyc1/jsons/db01.json") + ": not trusted: everybody may write it (mode 0646, owner "
			}
			if got := err.Error(); !strings.HasPrefix(got, strings.Replace(want, "/:", ":", 1)) || !strings.HasSuffix(got, allow) {
				t.Errorf("problem is\n%s\nwant\n%s...%s", got, want, allow)
			}
			source := s.loader.source
			source.WritableByOthers = true
			if _, err := NewLoader(source).Load(t.Context()); err != nil {
				t.Errorf("though allowed: %v", err)
			}
			s.chmod(test.path, test.was)
			if again := s.load(names...); !again.Equal(first) {
				t.Errorf("put right it is another inventory: %v", again)
			}
		})
	}
}

// TestWritableByOthersInPassing: what follows a file event looks, too, and leaves the telling to a whole reading.
func TestWritableByOthersInPassing(t *testing.T) {
	for _, name := range []string{"roles.json", "dc/nyc1/jsons/hadoop01.json"} {
		s := newShop(t)
		s.load("app01", "hadoop01")
		if _, done, err := s.loader.LoadChanged(t.Context(), []string{s.path(name)}); !done || err != nil {
			t.Errorf("%s as it was: done %v, %v", name, done, err)
		}
		s.chmod(name, 0o666)
		if inv, done, err := s.loader.LoadChanged(t.Context(), []string{s.path(name)}); done || err != nil {
			t.Errorf("%s writable by everybody: %v, done %v, %v", name, inv, done, err)
		}
	}
}
