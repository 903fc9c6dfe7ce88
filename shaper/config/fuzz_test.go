package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bulkshaper/inventory"
	"bulkshaper/shaper/tc"
)

// FuzzConfig holds what is true of every file: either problems or a config that keeps its promises, the same each time.
func FuzzConfig(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, "reference.yaml") {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("c.yaml", data, Overrides{})
		again, err2 := Parse("c.yaml", data, Overrides{})
		if d := cmp.Diff(c, again, exact()); d != "" {
			t.Errorf("read twice: %s", d)
		}
		if err != nil {
			var ps inventory.Problems
			if !errors.As(err, &ps) || len(ps) == 0 || err2 == nil || err.Error() != err2.Error() {
				t.Fatalf("got %T %v, then %v", err, err, err2)
			}
			for _, p := range ps {
				if p.Message == "" || p.File != "c.yaml" {
					t.Errorf("%+v has no message or place", p)
				}
			}
			return
		}
		holds(t, c)
	})
}

// holds checks what the rest of the program relies on.
func holds(t *testing.T, c *Config) {
	t.Helper()
	leaf := func(name string) bool { return c.class(name) != nil && !c.IsInner(name) }
	if c.Interface == "" || len(c.Classes) == 0 || !leaf(c.DefaultClass) || c.Layout != "list" && c.Layout != "hash" {
		t.Errorf("%+v", c)
	}
	if !slices.IsSortedFunc(c.Classes, func(a, b Class) int { return int(a.ID) - int(b.ID) }) {
		t.Error("classes are not sorted by id")
	}
	for i, class := range c.Classes {
		rate, ok := class.Rate.Of(1e9)
		switch {
		case tc.ReservedMinor(class.ID), i > 0 && c.Classes[i-1].ID == class.ID, class.Rate.IsZero(), class.Prio > 7, class.Leaf.Kind == "":
			t.Errorf("%+v", class)
		case ok && rate != rate.WholeBytes():
			t.Errorf("class %s: %d is not whole bytes", class.Name, rate)
		case class.Parent != "" && !c.IsInner(class.Parent):
			t.Errorf("class %s has no parent", class.Name)
		}
		if depth, cyclic := c.depth(class); cyclic || depth > maxDepth {
			t.Errorf("class %s is too deep", class.Name)
		}
		if s := class.Rate.Share; s != nil && (s.Of == 0 || s.Use <= 0 || s.Use > 1 || s.Among.IsZero() || s.Among.Address != nil) {
			t.Errorf("class %s: %+v", class.Name, s)
		}
	}
	for _, rule := range c.Rules {
		if rule.Name == "" || !leaf(rule.Class) || rule.Match.IsZero() {
			t.Errorf("%+v", rule)
		}
		for _, p := range rule.Match.Address {
			if p != p.Masked() || p.Addr().Is4In6() {
				t.Errorf("rule %s: %s", rule.Name, p)
			}
		}
	}
}

// FuzzRate reads a rate, prints it and reads it again.
func FuzzRate(f *testing.F) {
	for _, s := range []string{"819200kbit", "1.5gbit", "100mbps", "80%", "33.3%", "100", "0%", "1kibit", "%", "1e3bit", "100 %"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRate(s)
		if err != nil {
			if err.Error() == "" || !r.IsZero() {
				t.Errorf("%q: %v, %v", s, r, err)
			}
			return
		}
		again, err := ParseRate(r.String())
		if err != nil || again != r {
			t.Errorf("%q is %s, which is read as %v, %v", s, r, again, err)
		}
		if rate, ok := r.Of(10e9); !ok || rate != rate.WholeBytes() || r.Percent != 0 && rate > 10e9 {
			t.Errorf("%q of 10gbit is %d", s, rate)
		}
	})
}
